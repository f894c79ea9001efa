# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write down for the watcher what the fleet file says, in Ansible itself: no secret leaves it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._fleet_file.fleet import PLANNED
from ..module_utils._github.client import TOKENS
from ..module_utils._host.state import write_atomically
from ..plugin_utils.fleet_options import options_of, params_of
from ..plugin_utils.refused import once

SPEC: dict[str, Any] = {
    "dest": {"type": "path", "required": True},
    "ssh_keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
}
# What the watcher has to know of runs and shares; of a run it is to know no secret.
RUN_KEYS = ("name", "slices", "enabled", "multislice")
SHARE_KEYS = ("slice", "slices")


class ActionModule(ActionBase):
    """The file, which the watcher reads and removes."""

    _requires_connection = False

    @once
    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Take the variables by their names, and write what the watcher needs of them."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, arguments = self.validate_argument_spec(SPEC)
        variables, template = task_vars or {}, self._templar.template
        params = params_of(options_of(variables, template))

        def said(name: str, default: Any) -> Any:
            return template(variables[name]) if variables.get(name) is not None else default

        settings = {
            "project": said("fleet_project", ""),
            "api_endpoint": said("fleet_api_endpoint", ""),
            "state_dir": said("fleet_state_dir", ""),
            "inventory": said("ansible_inventory_sources", []),
            "notify": said("fleet_notify", []),
            "runs": _only(said("training_run_runs", []), RUN_KEYS),
            "shares": _only(said("nfs_share_shares", []), SHARE_KEYS),
            "prices": said("fleet_prices", []),
            "unregistered": _without_token(
                said("git_access_keys", []), str(said("fleet_github_token", ""))
            ),
            "fleet": {
                **{option: params[option] for option in (*PLANNED, "marks")},
                "ssh_keys": arguments["ssh_keys"],
            },
        }
        # YAML makes dates of what ends on a day.
        text = json.dumps(settings, default=lambda value: value.isoformat())
        try:
            write_atomically(arguments["dest"], text, mode=0o600, uid=os.getuid(), gid=os.getgid())
        except OSError as error:
            message = f"{arguments['dest']} cannot be written: {error.strerror}."
            raise AnsibleActionFail(message) from error
        result.update(changed=True)
        return result


def _without_token(keys: Iterable[Mapping[str, Any]], token: str) -> list[str]:
    """Return the names of the keys that GitHub is to know, if there is no token to tell it."""
    if token or any(os.environ.get(name) for name in TOKENS):
        return []
    return [str(key["name"]) for key in keys if key.get("register", "none") != "none"]


def _only(entries: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> list[dict[str, Any]]:
    return [{key: entry[key] for key in keys if key in entry} for entry in entries]
