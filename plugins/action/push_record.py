# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask all hosts of the play what there is to do on them, or tell them that it was done."""

from __future__ import annotations

import asyncio
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ..module_utils._core.errors import TpuError
from ..plugin_utils import apply_bundle
from ..plugin_utils.apply_prepare import asked_for, prepare, show, targets_of
from ..plugin_utils.apply_push import Answer, ask, to_push
from ..plugin_utils.apply_report import STILL, names, short
from ..plugin_utils.apply_talk import SILENCE
from ..plugin_utils.apply_wish import skips_of
from ..plugin_utils.fan_out import Settings
from ..plugin_utils.ssh_failures import LocalTrouble
from ..plugin_utils.ssh_targets import SshConfigError, Target

display = Display()


class ActionModule(ActionBase):
    """One question to all hosts."""

    BYPASS_HOST_LOOP = True
    _requires_connection = False
    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Ask or tell everybody at once."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, options = self.validate_argument_spec(
            {
                "state": {"type": "str", "choices": ["begins", "done"], "required": True},
                "plays": {"type": "list", "elements": "str", "required": True},
                "hosts": {"type": "list", "elements": "str"},
                "roles": {"type": "dict"},
                "forced": {"type": "bool", "default": False},
            }
        )
        given = task_vars or {}
        hosts = [
            host
            for host in given["ansible_play_hosts"]
            if options["hosts"] is None or host in options["hosts"]
        ]
        result.update(changed=False, idle=[], asked=[], roles={}, reasons={})
        # A part of the work, or only a look, is not what a host can remember.
        roles = asked_for(options["plays"], given)
        skips = skips_of(roles, given["ansible_skip_tags"])
        whole = not self._task.check_mode and not skips
        if not hosts or not whole or list(given["ansible_run_tags"]) != ["all"]:
            result.update(skipped=True, msg="only a part is asked for, or only to look")
            return result
        work = self._begins if options["state"] == "begins" else self._done
        try:
            result.update(work(hosts, roles, options, given))
        except TpuError as error:
            raise AnsibleActionFail(str(error)) from error
        except (LocalTrouble, SshConfigError) as error:
            raise AnsibleActionFail(f"{error} {getattr(error, 'remedy', '')}".strip()) from error
        return result

    def _begins(
        self, hosts: list[str], roles: list[str], options: dict[str, Any], given: dict[str, Any]
    ) -> dict[str, Any]:
        orders, targets = prepare(self, hosts, roles, options, given)
        requests = {
            one.host: {"pushed": "begins", "wish": one.wish, "given": one.given} for one in orders
        }
        answers = self._ask(targets, requests)
        pushed = to_push(answers, {one.host: one.slice for one in orders}, roles)
        still = [host for host, theirs in pushed.items() if not theirs]
        if still:
            display.display(f"{STILL}: {names(still)}", color="green")
        for host, answer in answers.items():
            if answer.answered and answer.reasons:
                display.display(f"to do: [{host}] {short(answer.reasons)}", color="cyan")
        return {
            "idle": still,
            "roles": pushed,
            "asked": [one.host for one in answers.values() if one.answered],
            "reasons": {one.host: list(one.reasons) for one in answers.values() if one.reasons},
        }

    def _done(
        self, hosts: list[str], roles: list[str], options: dict[str, Any], given: dict[str, Any]
    ) -> dict[str, Any]:
        pushed = options["roles"] or {}
        requests = {
            host: {"pushed": "done", "roles": [r for r in roles if r in pushed.get(host, roles)]}
            for host in hosts
        }
        for host, answer in self._ask(targets_of(self, hosts, given), requests).items():
            if not answer.answered:
                display.warning(
                    f"{host} could not note what was done: {short(answer.reasons)}. The next time "
                    "everything is applied there again."
                )
        return {}

    def _ask(self, targets: list[Target], requests: dict[str, dict[str, Any]]) -> dict[str, Answer]:
        settings = Settings(silence=SILENCE)
        return asyncio.run(ask(targets, requests, apply_bundle.agent(), show, settings))
