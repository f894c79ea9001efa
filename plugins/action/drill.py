# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module drill, and look again until the run is as it is waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ..module_utils._core.wait import boottime
from ..module_utils._core.worker_words import AnswerError, drill_look, shown
from ..module_utils._roles.training_run import drill as _drill
from ..modules.drill import ARGUMENT_SPEC

# When a worker is away for so long, its address may be another one. Later this is asked less and
# less often: each time the playbook includes its tasks once more, and it may be hours until a
# preempted slice is made anew.
AWAY = 15.0
MORE = 0.1
PAUSE = 1.0


class ActionModule(ActionBase):
    """The module; a worker that reboots is no error."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Do it once, or look until the wait is over."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, self.asked = self.validate_argument_spec(ARGUMENT_SPEC)
        self.vars = task_vars
        if self.asked["until"]:
            result.update(self._wait(boottime, time.sleep))
            return result
        result.update(self._module())
        result["at"] = boottime()
        return result

    def _module(self) -> dict[str, Any]:
        arguments = {key: self.asked[key] for key in ("run", "do", "seconds")}
        answer: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.drill", module_args=arguments, task_vars=self.vars
        )
        if answer.get("failed") or answer.get("look") is None:
            return {"failed": True, "msg": shown(answer.get("msg") or "it said nothing")}
        host = str((self.vars or {}).get("inventory_hostname", "the worker"))
        try:
            return {
                "changed": bool(answer.get("changed")),
                "look": drill_look(host, answer["look"]),
                "skip": shown(answer.get("skip") or ""),
            }
        except AnswerError as error:
            return {"failed": True, "msg": str(error)}

    def _wait(self, now: Callable[[], float], sleep: Callable[[float], None]) -> dict[str, Any]:
        began = self.asked["began"] or now()
        heard = now()
        away = max(AWAY, MORE * (heard - began))
        while True:
            look, says = self._look()
            if look is not None:
                heard = now()
                ready, says = self._judge(look)
                if ready != _drill.WAIT:
                    return self._over(ready, look, says)
            if now() - began >= self.asked["timeout"]:
                return self._over("late", look, says)
            if now() - heard >= away and self.asked["until"] == "back":
                # The playbook reads the fleet anew, and comes back.
                return {"changed": False, "ready": _drill.WAIT, "skip": "", "at": began}
            sleep(PAUSE)

    def _look(self) -> tuple[dict[str, Any] | None, str]:
        if not self.asked["known"]:
            return None, "the worker is not in the inventory"
        try:
            # A connection that was opened before a reboot is not one any more.
            reset = getattr(self._connection, "reset", None)
            if reset is not None:
                reset()
            answer = self._module()
        except AnsibleConnectionFailure as error:
            return None, f"the worker cannot be reached: {' '.join(str(error).split())}"
        if answer.get("look") is None:
            # A machine that shuts down ends what runs there.
            return None, f"the worker does not say: {answer.get('msg', answer)}"
        return answer["look"], ""

    def _judge(self, look: dict[str, Any]) -> tuple[str, str]:
        if self.asked["until"] == "settled":
            return _drill.settled(look, self.asked["settle"])
        asked = self.asked
        return _drill.came_back(asked["drill"], asked["before"], look, asked["seconds"])

    def _over(self, ready: str, look: dict[str, Any] | None, says: str) -> dict[str, Any]:
        asked = self.asked
        over: dict[str, Any] = {"changed": False, "look": look, "skip": "", "row": None}
        over["ready"] = _drill.YES if ready == _drill.YES else _drill.NEVER
        drill, before, timeout = asked["drill"], asked["before"], asked["timeout"]
        if asked["until"] == "settled":
            if ready != _drill.YES:
                late = f" (waited {timeout} s)" if ready == "late" else ""
                over["row"] = _drill.not_begun(drill, f"{says}{late}")
        elif ready == _drill.YES and look is not None:
            over["row"] = _drill.verdict(drill, before, look, asked["lost_steps"])
        else:
            over["row"] = _drill.not_back(drill, before, says, timeout if ready == "late" else 0)
        return over
