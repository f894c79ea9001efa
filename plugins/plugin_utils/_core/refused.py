# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fail a task with a reason that Ansible shows once.

Of a failure, Ansible shows the error, and below it the result of the task with the same text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.utils.display import Display

Run = Callable[..., dict[str, Any]]
_ANSIBLES = ("failed", "exception", "warnings", "deprecations")
"""Keys that Ansible itself sets from an error."""
_ALL = 3
"""The verbosity from which Ansible shows where an error arose."""


def _unfolded(reason: str) -> str:
    """Return a text of which Ansible folds no line, so that a command in it can be copied."""
    return f"{reason.rstrip()}\n"


class Refused(AnsibleActionFail):
    """A failure of which only the result of the task is shown."""

    def __init__(self, reason: str, result: Mapping[str, Any] | None = None) -> None:
        reason = _unfolded(reason)
        own = {"changed": False, **(result or {}), "msg": reason}
        super().__init__(reason, result={k: v for k, v in own.items() if k not in _ANSIBLES})
        self.reason = reason

    @property
    def omit_exception_key(self) -> bool:
        """Return that the error is not shown beside the result."""
        return True

    @property
    def result_contribution(self) -> dict[str, Any]:
        """Return the result, for ansible-core 2.19."""
        return dict(self._result)

    def as_task_result(self, utr: Any) -> Any:
        """Complete the result, for later versions of ansible-core."""
        utr = super().as_task_result(utr)
        utr.msg = self.reason
        return utr


class Unreached(AnsibleConnectionFailure):
    """A host that cannot be reached, of which only the result of the task is shown."""

    @property
    def omit_exception_key(self) -> bool:
        """Return that the error is not shown beside the result."""
        return True

    @property
    def result_contribution(self) -> dict[str, Any]:
        """Return the result, for ansible-core 2.19."""
        return {"unreachable": True, "changed": False, "msg": _unfolded(self.message)}

    def as_task_result(self, utr: Any) -> Any:
        """Complete the result, for later versions of ansible-core."""
        utr = super().as_task_result(utr)
        utr.msg = _unfolded(self.message)
        return utr


def _is_judged(action: Any) -> bool:
    """Return whether the task judges its result: Ansible asks `until` about no exception."""
    return bool(action._task.until or action._task.failed_when)


def _as_result(error: AnsibleActionFail) -> dict[str, Any]:
    """Return a failure as the result that a task can judge."""
    return {**(error.result or {}), "failed": True, "msg": error.message}


def once(run: Run) -> Run:
    """Have the method `run` of an action fail with Refused or Unreached.

    Where the task has `until` or `failed_when`, it returns the failure instead.
    """

    @functools.wraps(run)
    def refused(action: Any, *given: Any, **more: Any) -> dict[str, Any]:
        if Display().verbosity >= _ALL and not _is_judged(action):
            return run(action, *given, **more)
        try:
            result = run(action, *given, **more)
            if _is_judged(action):
                return result
        except Unreached:
            raise
        except AnsibleActionFail as error:
            if _is_judged(action):
                return _as_result(error)
            if isinstance(error, Refused):
                raise
            raise Refused(error.message, error.result) from None
        except AnsibleConnectionFailure as error:
            raise Unreached(error.message) from None
        if result.get("failed"):
            for warning in result.get("warnings") or ():
                Display().warning(warning if isinstance(warning, str) else warning.event.msg)
            raise Refused(str(result.get("msg")), result)
        return result

    return refused
