# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module run_info, and take nothing from the worker but its answer."""

from __future__ import annotations

import shutil
from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._core.worker_words import READERS, shown
from ..plugin_utils.worker_facts import read_answer

ENDED = ("succeeded", "failed", "stopped")


class ActionModule(ActionBase):
    """The module; Ansible would print what a worker in other hands puts beside the answer."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module, and check what the worker says."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        asked = {"one_by_one": shutil.which("rsync") is None, **self._task.args}
        if asked.get("about") == "back" and "due" not in asked:
            asked["due"] = self._due(task_vars or {})
        said: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.run_info", module_args=asked, task_vars=task_vars
        )
        answer, about = said.get("answer"), str(asked.get("about"))
        if said.get("failed") or not isinstance(answer, str):
            return {"failed": True, "msg": shown(said.get("msg") or "it said nothing")}
        told: dict[str, Any] = {"changed": False}
        # A machine without keys has not written any down.
        if about in READERS and (answer or about != "git_users"):
            host = str((task_vars or {}).get("inventory_hostname", "the worker"))
            told["answer"] = read_answer(answer, about, host)
        if about == "standing":
            runs = [run["run"] for run in told["answer"]["runs"] if run["state"] not in ENDED]
            going = (f"run {run} has not ended" for run in runs)
            needed = [*told["answer"]["used"], *going]
            if needed:
                name = (task_vars or {}).get("tpu_vm_name", "The worker")
                return {"failed": True, "msg": f"{name} is kept: {'; '.join(needed)}."}
        elif about == "runs":
            line = "{run}: {state}, attempt {attempt}, log {log_path}"
            told["text"] = "; ".join(line.format_map(run) for run in told["answer"]) or "no run"
        elif about == "services":
            told["text"] = ", ".join(one["name"] for one in told["answer"]) or "nothing"
        return told

    def _due(self, variables: dict[str, Any]) -> list[str]:
        runs = self._templar.template(variables.get("training_run_runs")) or []
        here = [run for run in runs if variables["tpu_vm_name"] in run.get("slices", [])]
        return [run["name"] for run in here if run.get("enabled", True)]
