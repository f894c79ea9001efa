# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module drill, look again until the run is as it is waited for, and write the report."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible.module_utils.urls import open_url

from ..module_utils._ansible.api_module import client_from
from ..module_utils._ansible.options import spec_of
from ..module_utils._core.answer import AnswerError
from ..module_utils._core.errors import TpuError
from ..module_utils._core.plain_text import shown
from ..module_utils._core.wait import boottime
from ..module_utils._core.worker_words import drill_look
from ..module_utils._host.state import write_atomically
from ..module_utils._roles.training_run import drill as _drill
from ..modules.drill import ARGUMENT_SPEC
from ..modules.tpu_vm_maintenance import DOCUMENTATION as MAINTENANCE
from ..plugin_utils._fleet.declared import Declared

Look = dict[str, Any]
Judge = Callable[[Look], tuple[str, str]]
# When a worker is away for so long, its address may be another one. Later this is asked less and
# less often: each time the playbook includes its tasks once more, and it may be hours until a
# preempted slice is created again.
AWAY = 15.0
MORE = 0.1
PAUSE = 1.0
LATE = "late"


class ActionModule(Declared):
    """The module; a worker that reboots is no error."""

    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Run the module once, or do a whole step of a plan."""
        _found, self.asked = self.validate_argument_spec(ARGUMENT_SPEC)
        self.plan = self.asked["plan"]
        return self._step(self.asked["step"]) if self.plan else self._module(self.asked)

    def _step(self, step: dict[str, Any]) -> dict[str, Any]:
        """Do one drill, or go on to wait for it; add its row to those of the drills before."""
        went, drill, plan = self.asked["went"] or {}, step["drill"], self.plan
        rows, before, began = went.get("rows") or [], went.get("look") or {}, went.get("at") or 0.0
        row: dict[str, Any] | None = None
        if went.get("ready") != _drill.WAIT:
            before, row = self._begin(step)
            began = boottime()
        if row is None:
            away = max(AWAY, MORE * (boottime() - began))
            ready, look, says = self._wait(
                lambda look: _drill.came_back(drill, before, look, plan["seconds"]), began, away
            )
            if ready == _drill.WAIT:
                # The playbook reads the fleet again, and comes back.
                return {"changed": False, "ready": ready, "rows": rows, "look": before, "at": began}
            if ready == _drill.YES:
                row = _drill.verdict(drill, before, look, plan["lost_steps"])
            else:
                waited = plan["timeout"] if ready == LATE else 0
                row = _drill.not_back(drill, before, says, waited)
        rows = [*rows, row]
        changed = row["verdict"] not in (_drill.SKIPPED, _drill.NOT_DONE)
        return {"changed": changed, "ready": _drill.YES, "rows": rows, **self._report(rows)}

    def _begin(self, step: dict[str, Any]) -> tuple[Look, dict[str, Any] | None]:
        """Wait until the run goes its way, and do it; return how it was, or the row of no drill."""
        drill, plan, why = step["drill"], self.plan, step["skip"]
        done: dict[str, Any] = {"look": {}}
        if not why:
            ready, _look, says = self._wait(
                lambda look: _drill.settled(look, plan["settle"]), boottime()
            )
            if ready != _drill.YES:
                late = f" (waited {plan['timeout']} s)" if ready == LATE else ""
                return {}, _drill.not_begun(drill, f"{says}{late}")
            do = drill if step["on_host"] else "look"
            done = self._module({**self.asked, "do": do, "seconds": plan["seconds"]})
            if done.get("failed"):
                raise AnsibleActionFail(done["msg"])
            why = done["skip"]
        if not why and drill == _drill.MAINTENANCE:
            # A project may not be allowed to: that is a row, and the other drills go on.
            why = self._maintain()
        elif not why and drill == _drill.PREEMPT:
            where = "/".join((plan["project"], plan["zone"], plan["slice"]))
            url = f"{self._said('fleet_api_endpoint')}_cloud/nodes/{where}:preempt"
            open_url(url, method="POST", data="{}", headers={"Content-Type": "application/json"})
        return done["look"], _drill.not_begun(drill, why, _drill.SKIPPED) if why else None

    def _maintain(self) -> str:
        """Ask for a maintenance, and wait for it; return what is wrong."""
        zone, name = self.plan["zone"], self.plan["slice"]
        options = {key: self._said(f"fleet_{key}") or None for key in ("project", "api_endpoint")}
        checked = ArgumentSpecValidator(spec_of(MAINTENANCE)).validate(
            {**options, "zone": zone, "name": name}
        )
        try:
            client = client_from(checked.validated_parameters)
            operation = client.nodes.simulate_maintenance(zone, name, [self.plan["worker"]])
            client.operations.wait(operation, timeout=float(self.plan["timeout"]))
        except TpuError as error:
            return str(error)
        return ""

    def _report(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Write the report of all so far."""
        plan = self.plan
        told = _drill.report({key: plan[key] for key in ("run", "host", "slice", "at")}, rows)
        folder = Path(self._said("fleet_state_dir")).expanduser() / "drills"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = folder / f"{plan['run']}-{plan['at'].replace(':', '')}"
        ids = {"uid": os.getuid(), "gid": os.getgid()}
        for ending, text in (("md", told["markdown"]), ("json", told["json"])):
            write_atomically(f"{file}.{ending}", text, mode=0o600, **ids)
        return {"lines": [*told["lines"], "", f"{file}.md, .json"], "bad": told["bad"]}

    def _said(self, name: str) -> str:
        return str(self._templar.template(self.vars.get(name) or ""))

    def _module(self, asked: dict[str, Any]) -> dict[str, Any]:
        arguments = {key: asked[key] for key in ("run", "do", "seconds")}
        answer: dict[str, Any] = self._execute_module(
            module_name="tpu.fleet.drill", module_args=arguments, task_vars=self.vars
        )
        if answer.get("failed") or answer.get("look") is None:
            return {"failed": True, "msg": shown(answer.get("msg") or "it said nothing")}
        host = str(self.vars.get("inventory_hostname", "the worker"))
        try:
            return {
                "changed": bool(answer.get("changed")),
                "look": drill_look(host, answer["look"]),
                "skip": shown(answer.get("skip") or ""),
            }
        except AnswerError as error:
            return {"failed": True, "msg": str(error)}

    def _wait(self, judge: Judge, began: float, away: float = inf) -> tuple[str, Look, str]:
        """Look until all is over; return how it ended, the last look, and what is wrong."""
        heard = boottime()
        while True:
            look, says = self._look()
            if look:
                heard = boottime()
                ready, says = judge(look)
                if ready != _drill.WAIT:
                    return ready, look, says
            if boottime() - began >= self.plan["timeout"]:
                return LATE, look, says
            if boottime() - heard >= away:
                return _drill.WAIT, look, says
            time.sleep(PAUSE)

    def _look(self) -> tuple[Look, str]:
        if not self.asked["known"]:
            return {}, "the worker is not in the inventory"
        try:
            # A connection that was opened before a reboot is not one any more.
            reset = getattr(self._connection, "reset", None)
            if reset is not None:
                reset()
            answer = self._module({**self.asked, "do": "look"})
        except AnsibleConnectionFailure as error:
            return {}, f"the worker cannot be reached: {' '.join(str(error).split())}"
        if answer.get("look") is None:
            # A machine that shuts down ends what runs there.
            return {}, f"the worker does not say: {answer.get('msg', answer)}"
        return answer["look"], ""
