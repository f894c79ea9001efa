"""The wait for a run, with a worker that answers by a script."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest import mock

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.tpu.fleet.plugins.action import drill
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run import drill as _drill

AWAY = AnsibleConnectionFailure("Failed to connect to the host via ssh:\nConnection refused")
BEFORE = {
    "now": 100.0,
    "attempt": 1,
    "state": "running",
    "boot_id": "a",
    "machine_boot_id": "a",
    "program_alive": True,
    "agent_alive": True,
    "start": 50.0,
    "history": [],
}
BACK = {**BEFORE, "now": 120.0, "attempt": 2, "start": 110.0}
FAILED = {**BACK, "state": "failed", "reason": "4 failures"}


class Clock:
    """Time that passes only when a process sleeps."""

    def __init__(self) -> None:
        self.at = 1000.0

    def time(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


PLAN = {"run": "digits", "host": "solo", "slice": "solo", "at": "2026-01-01T00:00:00Z"}
PLAN |= {"seconds": 60, "timeout": 900, "settle": 60, "lost_steps": None}
STEP = {"drill": "kill", "does": "kills", "skip": "", "on_host": True}
WAITS = MappingProxyType({"ready": "wait", "look": BEFORE, "rows": [], "at": 1000.0})


def do(
    folder: Path, *answers: Any, went: Any = WAITS, timeout: int = 900, known: bool = True
) -> tuple[dict[str, Any], mock.Mock]:
    """Do a step, or go on to wait for the run to be back."""
    task = Task()
    task.action = "tpu.fleet.drill"
    went, plan = went and dict(went), {**PLAN, "timeout": timeout}
    task.args = {"run": "digits", "plan": plan, "step": STEP, "went": went, "known": known}
    action = drill.ActionModule(
        task=task,
        connection=mock.Mock(transport="ssh"),
        play_context=mock.Mock(check_mode=False, diff=False),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader()),
        shared_loader_obj=None,
    )
    looks = [answer if answer is AWAY else {"look": answer} for answer in answers]
    action._execute_module = module = mock.Mock(side_effect=looks)
    clock = Clock()
    with (
        mock.patch.object(drill, "time", clock),
        mock.patch.object(drill, "boottime", clock.time),
    ):
        return action.run(task_vars={"fleet_state_dir": str(folder)}), module


def test_a_worker_that_reboots_is_waited_for(tmp_path: Path) -> None:
    result, module = do(tmp_path, BEFORE, AWAY, AWAY, BACK)
    assert (result["ready"], module.call_count) == ("yes", 4)
    (row,) = result["rows"]
    assert (row["verdict"], row["seconds"]) == (_drill.UNKNOWN, 10.0)


def test_one_that_stays_away_may_be_elsewhere(tmp_path: Path) -> None:
    result, _module = do(tmp_path, *[AWAY] * 40)
    assert (result["ready"], result["rows"]) == ("wait", [])
    result, module = do(tmp_path, known=False)
    assert (result["ready"], module.called) == ("wait", False)
    # After hours it is looked for less often: each time costs the playbook some memory.
    soon = do(tmp_path, *[AWAY] * 400)[1].call_count
    late = do(tmp_path, *[AWAY] * 400, went={**WAITS, "at": -1000.0}, timeout=9000)[1].call_count
    assert (soon, late) == (16, 201)
    # The limit counts from the beginning, over all waits.
    result, _module = do(tmp_path, *[AWAY] * 40, went={**WAITS, "at": 500.0}, timeout=400)
    assert (result["ready"], result["rows"][0]["verdict"]) == ("yes", "not back")
    assert "after 400 s: the worker cannot be reached" in result["rows"][0]["says"]
    assert result["bad"] == ["kill"]


@pytest.mark.parametrize(
    ("answer", "arguments", "verdict", "says"),
    [
        (FAILED, {}, "not back", "the run is failed, attempt 2: 4 failures"),
        (BEFORE, {"timeout": 3}, "not back", "not back after 3 s: it has had no effect yet"),
        (FAILED, {"went": None}, "not done", "the run is failed"),
        (BEFORE, {"went": None, "timeout": 3}, "not done", "(waited 3 s)"),
    ],
)
def test_what_is_not_well_in_the_end(
    tmp_path: Path, answer: dict[str, Any], arguments: dict[str, Any], verdict: str, says: str
) -> None:
    result, _module = do(tmp_path, *[answer] * 10, **arguments)
    assert result["rows"][0]["verdict"] == verdict
    assert says in result["rows"][0]["says"]


def test_a_step_goes_on_where_it_waited(tmp_path: Path) -> None:
    """Another process does it, when the inventory has been read again."""
    fit = {**BEFORE, "now": 111.0}
    first, module = do(tmp_path, AWAY, BEFORE, fit, BEFORE, *[AWAY] * 40, went=None)
    assert (first["ready"], first["rows"], first["look"]["now"]) == ("wait", [], BEFORE["now"])
    asked = [call.kwargs["module_args"]["do"] for call in module.mock_calls[:5]]
    assert asked == ["look", "look", "look", "kill", "look"]
    again, module = do(tmp_path, BACK, went=first)
    assert (again["ready"], module.call_count) == ("yes", 1)
    assert [row["verdict"] for row in again["rows"]] == [_drill.UNKNOWN]
    assert (tmp_path / "drills/digits-2026-01-01T000000Z.md").exists()
