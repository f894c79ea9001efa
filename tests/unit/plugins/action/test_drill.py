"""The wait for a run, with a worker that answers as it is told."""

from __future__ import annotations

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
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.at = 1000.0

    def time(self) -> float:
        return self.at

    def sleep(self, seconds: float) -> None:
        self.at += seconds


def wait(*answers: Any, **arguments: Any) -> tuple[dict[str, Any], mock.Mock]:
    task = Task()
    task.action = "tpu.fleet.drill"
    task.args = {"run": "digits", "until": "back", "drill": "kill", "before": BEFORE, **arguments}
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
        return action.run(task_vars={}), module


def test_a_worker_that_reboots_is_waited_for() -> None:
    result, module = wait(BEFORE, AWAY, AWAY, BACK)
    assert (result["ready"], module.call_count) == ("yes", 4)
    assert result["row"]["verdict"] == _drill.UNKNOWN
    assert result["row"]["seconds"] == 10.0


def test_one_that_stays_away_may_be_elsewhere() -> None:
    result, _module = wait(*[AWAY] * 40)
    assert (result["ready"], result.get("row")) == ("wait", None)
    result, module = wait(known=False)
    assert (result["ready"], module.called) == ("wait", False)
    # After hours it is looked for less often: each time costs the playbook some memory.
    soon = wait(*[AWAY] * 400)[1].call_count
    late = wait(*[AWAY] * 400, began=-1000.0, timeout=9000)[1].call_count
    assert (soon, late) == (16, 201)
    # The limit counts from the beginning, over all waits.
    result, _module = wait(*[AWAY] * 40, began=500.0, timeout=400)
    assert (result["ready"], result["row"]["verdict"]) == ("never", "not back")
    assert "after 400 s: the worker cannot be reached" in result["row"]["says"]


@pytest.mark.parametrize(
    ("answer", "arguments", "verdict", "says"),
    [
        (FAILED, {}, "not back", "the run is failed, attempt 2: 4 failures"),
        (BEFORE, {"timeout": 3}, "not back", "not back after 3 s: nothing has come of it yet"),
        (FAILED, {"until": "settled"}, "not done", "the run is failed"),
        (BEFORE, {"until": "settled", "timeout": 3}, "not done", "(waited 3 s)"),
    ],
)
def test_what_is_not_well_in_the_end(
    answer: dict[str, Any], arguments: dict[str, Any], verdict: str, says: str
) -> None:
    result, _module = wait(*[answer] * 10, **arguments)
    assert (result["ready"], result["row"]["verdict"]) == ("never", verdict)
    assert says in result["row"]["says"]


def test_a_run_that_is_fit_for_a_drill() -> None:
    result, _module = wait(AWAY, BEFORE, {**BEFORE, "now": 111.0}, until="settled")
    assert (result["ready"], result["row"]) == ("yes", None)
