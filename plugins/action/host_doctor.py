# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module host_doctor, and do not take a slow connection for a wrong clock."""

from __future__ import annotations

import time
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._core.answer import AnswerError
from ..module_utils._core.worker_words import doctor_answer
from ..module_utils._doctor.check import examine, worst
from ..module_utils._doctor.machine import CHECKS, skew

CLOCK = [check for check in CHECKS if check.key == "clock"]
# What the inventory and the playbook doctor say of a machine.
DECLARED = {
    **{option: f"doctor_{option}" for option in ("now", "fix", "time_limit", "pci_devices")},
    "slice": "tpu_vm_name",
    "accelerator_type": "tpu_vm_accelerator_type",
    "venvs": "fleet_venvs",
    "hosts": "tpu_vm_slice_hosts",
    "worker": "tpu_vm_worker_index",
}


class ActionModule(ActionBase):
    """The module, between two looks at this computer's clock."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module; judge the machine's clock by when it was asked and when it answered."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        variables = task_vars or {}
        declared = {
            option: self._templar.template(variables[name])
            for option, name in DECLARED.items()
            if variables.get(name) is not None
        }
        host = self._host(task_vars)
        arguments = {"name": host, "slice": host, **declared, **self._task.args}
        given = arguments.get("now") is not None
        asked = time.time()
        if not given:
            arguments["now"] = asked
        answer: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.host_doctor", module_args=arguments, task_vars=task_vars
        )
        answered = time.time()
        try:
            answer = {**doctor_answer(host, answer), "changed": False}
        except AnswerError as error:
            result.update(failed=True, msg=str(error))
            return result
        if not answer.get("findings"):
            result.update(answer)
            return result
        answer["changed"] = any(step["did"] for step in answer["fixed"])
        if not given:
            clock = answer["clock"]
            ahead = skew(asked, answered - answer["seconds"], clock["started"])
            facts = {"clock": {**clock, "ahead": ahead}, "host": clock}
            judged = {row.check: row.to_dict() for row in examine(CLOCK, facts)}
            answer["findings"] = [judged.get(row["check"], row) for row in answer["findings"]]
            answer["status"] = worst(row["status"] for row in answer["findings"])
        result.update(answer)
        return result

    @staticmethod
    def _host(task_vars: dict[str, Any] | None) -> str:
        return str((task_vars or {}).get("inventory_hostname", "the worker"))
