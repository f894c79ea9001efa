# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fail a task with a long reason, which Ansible then shows once."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail


class Refused(AnsibleActionFail):
    """A failure with a summary in one line and the reason in the result of the task.

    Ansible shows the text of the exception, and then the result; for other failures both are the
    same text.
    """

    def __init__(self, summary: str, reason: str) -> None:
        super().__init__(summary, result={"failed": True, "changed": False, "msg": reason})
        self.reason = reason

    @property
    def result_contribution(self) -> dict[str, Any]:
        """Return the result, for ansible-core 2.19."""
        return dict(self._result)

    def as_task_result(self, utr: Any) -> Any:
        """Complete the result, for later versions of ansible-core."""
        utr = super().as_task_result(utr)
        utr.msg = self.reason
        return utr
