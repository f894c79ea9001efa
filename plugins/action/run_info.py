# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module run_info, and take nothing from the worker but its answer."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._core.worker_words import shown


class ActionModule(ActionBase):
    """The module; Ansible would print what a worker in other hands puts beside the answer."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        said: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.run_info", module_args=self._task.args, task_vars=task_vars
        )
        answer = said.get("answer")
        if said.get("failed") or not isinstance(answer, str):
            return {"failed": True, "msg": shown(said.get("msg") or "it said nothing")}
        return {"changed": False, "answer": answer}
