# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the events of a play to a file, for a process that follows it."""

from __future__ import annotations

DOCUMENTATION = r"""
name: events
type: notification
short_description: Write the events of a play to a file
version_added: 0.1.0
description:
  - Appends one JSON object to the file in E(TPU_FLEET_EVENTS) for each result of a task, and one
    at the end with the numbers of the recap. Does nothing without this variable.
  - Registered results that E(TPU_FLEET_SHARED) names, with commas between them, are written as
    events of their own, whole but for the diff.
  - What M(tpu.fleet.run_changes) returns is written as an event of its own.
  - Results of tasks with C(no_log) are as censored as Ansible shows them.
  - Of a text of more than 40,000 bytes, such as the diff of a long file, only the first lines are
    written, with the number of the others.
requirements:
  - to be named in C(callbacks_enabled)
author:
  - The tpu.fleet developers (@tpu-fleet)
"""

import gc
import json
import os
from typing import Any

from ansible import constants
from ansible.module_utils.common.json import Direction, get_module_decoder, get_module_encoder
from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import filter_loader, test_loader

# Imported for the tasks, which are forks of this process and would each load these again: what acts
# as a person, for the modules of accounts, shells, keys and code, and the modules of every role.
from ..module_utils._host import as_user as _as_user  # noqa: F401
from ..modules import host_files as _host_files  # noqa: F401
from ..modules import host_state as _host_state  # noqa: F401

# Keys of a result that are written; only Ansible needs the rest.
_KEPT = ("msg", "stderr", "stdout", "rc", "exception")
# The controller refuses a line of more than 256 KiB, and a result may have each of these texts.
_MOST = 40_000
# Tasks that may wait for minutes: Ansible's process would spend 2 % of a core on looking for their
# end, while what they wait for needs it.
_WAITING = ("tpu.fleet.first_boot", "tpu.fleet.python_env")
_WAITING_INTERVAL = 0.05
_INTERVAL = "DEFAULT_INTERNAL_POLL_INTERVAL"


def _shortened(value: Any) -> Any:
    """Return a value, or its first lines if its JSON has more than 40,000 bytes."""
    if len(json.dumps(value)) <= _MOST:
        return value
    lines, kept, left = str(value).splitlines(keepends=True), 0, _MOST
    text = ""
    for line in lines:
        size = len(json.dumps(line))
        if size > left:
            # A character has at most twelve bytes there.
            text += line[: left // 12] if not kept else ""
            break
        text, kept, left = text + line, kept + 1, left - size
    return f"{text.rstrip()}\n... {len(lines) - kept} more lines are not shown\n"


class CallbackModule(CallbackBase):
    """The plugin; Ansible requires this name of the class."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "tpu.fleet.events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._path = os.environ.get("TPU_FLEET_EVENTS", "")
        self._shared = os.environ.get("TPU_FLEET_SHARED", "").split(",")
        self._interval = vars(constants)[_INTERVAL]
        if not self._path:
            self.disabled = True
            return
        # For the tasks, too. With one plugin of a collection, its others are loaded as well.
        for name in ("ansible.builtin.flatten", "tpu.fleet.role_problems"):
            filter_loader.get(name)
        test_loader.get("ansible.builtin.defined")
        for of_modules in (get_module_encoder, get_module_decoder):
            for direction in Direction:
                of_modules("legacy", direction)

    def _write(self, **event: Any) -> None:
        with open(self._path, "a", encoding="utf-8") as out:
            out.write(json.dumps(event) + "\n")

    def _result(self, result: Any, status: str, item: Any = None) -> None:
        data = result.result if hasattr(result, "result") else result._result
        if data.get("_ansible_no_log") or result.task.no_log:
            data = {"msg": "censored: no_log is set"}
        shown = {key: _shortened(data[key]) for key in _KEPT if data.get(key)}
        if data.get("diff") and result.task.diff:
            # As users see it; Ansible's own dump hides secrets.
            shown["diff"] = _shortened(self._get_diff(data["diff"]))
        self._write(
            event="task",
            task=result.task.get_name(),
            status=status,
            **({"item": _shortened(str(item))} if item is not None else {}),
            **shown,
        )

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:
        # A fork copies what it touches, so its collector must not go through all that is here.
        gc.freeze()
        waits = task.resolved_action in _WAITING
        vars(constants)[_INTERVAL] = _WAITING_INTERVAL if waits else self._interval

    def v2_runner_on_ok(self, result: Any) -> None:
        data = result.result if hasattr(result, "result") else result._result
        self._result(result, "changed" if data.get("changed") else "ok")
        if data.get("run_changes"):
            self._write(event="runs", runs=data["run_changes"])
        register = result.task.register or ()
        # A dictionary by name from ansible-core 2.21 on.
        for name in {register} if isinstance(register, str) else register:
            if name not in self._shared:
                continue
            value = {k: part for k, part in data.items() if not k.startswith("_") and k != "diff"}
            self._write(event="shared", name=name, value=value)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._result(result, "ignored" if ignore_errors else "failed")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._result(result, "failed")

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._write(event="task", task=result.task.get_name(), status="skipped")

    def v2_playbook_on_stats(self, stats: Any) -> None:
        counts: dict[str, int] = {}
        for host in stats.processed:
            for name, number in stats.summarize(host).items():
                key = {"failures": "failed", "unreachable": "failed"}.get(name, name)
                counts[key] = counts.get(key, 0) + number
        self._write(event="recap", counts=counts)
