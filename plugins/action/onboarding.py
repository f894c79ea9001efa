# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write what people need from Ansible itself: a module takes a second to be told of 256 workers."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase

from ..module_utils._ansible.options import spec_of
from ..modules.onboarding import DOCUMENTATION, write


class ActionModule(ActionBase):
    """What the module does, on this computer without it."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Write it here, or let the module do it elsewhere or as somebody else."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        if self._connection.transport != "local" or self._play_context.become:
            result.update(self._execute_module(task_vars=task_vars))
            return result
        _found, arguments = self.validate_argument_spec(spec_of(DOCUMENTATION))
        result.update(write(arguments, self._task.check_mode))
        return result
