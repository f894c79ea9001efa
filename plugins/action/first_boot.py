# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module first_boot; where no module can run, say why instead of showing a traceback."""

from __future__ import annotations

import shlex
from typing import Any

from ansible.module_utils import basic
from ansible.plugins.action import ActionBase
from ansible.release import __version__ as ansible_version

from ..module_utils._roles.host_base.first_boot import QUESTION, as_text, explain

# What the installed ansible-core itself compares with.
LEAST: tuple[int, int] = getattr(basic, "_PY_MIN", (3, 8))


class ActionModule(ActionBase):
    """The module, and a question to the host's shell when it did not run."""

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module; it costs nothing more where that works."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if result.get("skipped"):
            return result
        answer: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.first_boot", task_vars=task_vars
        )
        # What the module itself found wrong it says better.
        if not answer.get("failed") or "waited" in answer or answer.get("unreachable"):
            return answer
        python = (task_vars or {}).get("ansible_python_interpreter") or "/usr/bin/python3"
        question = QUESTION.replace("{python}", shlex.quote(str(python)))
        told = self._low_level_execute_command(question)
        reason = explain(as_text(answer), str(told.get("stdout", "")), ansible_version, LEAST)
        return {"failed": True, "changed": False, "msg": reason} if reason else answer
