# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module of this collection in Ansible's own process for the task.

Where a machine applies the roles to itself, a module needs no process of its own: the start of
Python and what every module imports are most of what a small one costs. The packed collection that
machines get names this plugin for its modules; controllers run modules as Ansible always does.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import tempfile
from typing import Any

from ansible.module_utils import basic
from ansible.module_utils.common.json import Direction, get_module_encoder
from ansible.plugins.action.normal import ActionModule as Normal

_PROFILE = "legacy"
_MODULES = "ansible_collections.tpu.fleet.plugins.modules"


class ActionModule(Normal):
    """The plugin; Ansible wants this name."""

    def _execute_module(
        self,
        module_name: str | None = None,
        module_args: dict[str, Any] | None = None,
        tmp: str | None = None,
        task_vars: dict[str, Any] | None = None,
        *more_words: Any,
        **more: Any,
    ) -> dict[str, Any]:
        """Run the module of the task here, or as Ansible does where the task wants a process."""
        name, args = self._task.action, dict(self._task.args)
        elsewhere = self._connection.transport != "local" or self._task.become
        if elsewhere or self._task.async_val or any(self._task.environment or ()):
            return dict(super()._execute_module(task_vars=task_vars, **more))
        self._update_module_args(name, args, task_vars or {})
        with tempfile.TemporaryDirectory(prefix="ansible-tpu-fleet-") as folder:
            args["_ansible_tmpdir"] = folder
            told = _run(name, args)
        said: Any = {"stdout": told, "stdout_lines": told.splitlines(), "stderr": "", "rc": 0}
        # A dictionary until ansible-core 2.20.
        parsed: Any = self._parse_returned_data(said, _PROFILE)
        if isinstance(parsed, dict):
            return parsed
        parsed.remove_internal_keys()
        return dict(parsed.as_result_dict(for_round_trip=True))


def _run(name: str, args: dict[str, Any]) -> str:
    """Run a module; return what it printed. What it raises is an error of the task."""
    encoder = get_module_encoder(_PROFILE, Direction.CONTROLLER_TO_MODULE)
    # As what starts a module does it. Each task has a process of its own, so nothing is left of it.
    basic._ANSIBLE_ARGS = json.dumps({"ANSIBLE_MODULE_ARGS": args}, cls=encoder).encode()
    basic._ANSIBLE_PROFILE = _PROFILE
    module = importlib.import_module(f"{_MODULES}.{name.rpartition('.')[2]}")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        module.main()
    return out.getvalue()
