"""What each worker does, as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from run_agent.decide import member
from run_agent.decide.gang_state import FAILED, GATHERING, RUNNING, STOPPING, SUCCEEDED
from run_agent.decide.member import EXIT, KILL, NOTHING, SIGNAL, START, Local, Order


def order(phase: str, attempt: int = 3, definition: str = "def") -> Order:
    return Order(phase, attempt, definition, "id", "why")


BUSY: dict[str, Any] = {"last_started": 3, "program": "running"}
IDLE: dict[str, Any] = {"last_started": 3, "program": "exited", "exit_code": 1}


@pytest.mark.parametrize(
    ("told", "local", "todo", "state"),
    [
        (None, {}, NOTHING, "pending"),
        (order(GATHERING, 0), {}, NOTHING, "pending"),
        (order(RUNNING, 1), {}, START, "pending"),
        (order(RUNNING, 1, "new"), {}, NOTHING, "pending"),
        (order(RUNNING, 1), {"silence": 31}, NOTHING, "pending"),
        (order(RUNNING), BUSY, NOTHING, "running"),
        (order(RUNNING), IDLE, NOTHING, "restarting"),  # never the same attempt twice
        (order(RUNNING), {**IDLE, "exit_code": 0}, NOTHING, "running"),  # others are not done
        (order(RUNNING, 4), IDLE, START, "restarting"),
        (order(RUNNING, 4), BUSY, SIGNAL, "running"),
        (order(RUNNING, 3, "new"), BUSY, SIGNAL, "running"),
        (order(STOPPING), BUSY, SIGNAL, "running"),
        (order(STOPPING), {**BUSY, "stopping_for": 1}, NOTHING, "restarting"),
        (order(STOPPING), {**BUSY, "stopping_for": 10}, KILL, "restarting"),
        (order(RUNNING), {**BUSY, "stopping_for": 10}, KILL, "restarting"),  # carried through
        (replace(order(STOPPING), fenced=True), BUSY, KILL, "running"),
        (replace(order(STOPPING, 2), fenced=True), BUSY, SIGNAL, "running"),
        (order(STOPPING), IDLE, NOTHING, "restarting"),
        (None, BUSY, NOTHING, "running"),  # adopted; the leader was not asked yet
        (order(RUNNING), {**BUSY, "silence": 31}, SIGNAL, "running"),
        (order(RUNNING), {**BUSY, "leaving": True}, SIGNAL, "running"),
        (order(RUNNING), {**BUSY, "adrift": True}, SIGNAL, "running"),
        (order(RUNNING), {**IDLE, "leaving": True}, EXIT, "stopped"),
        (order(SUCCEEDED), {**IDLE, "exit_code": 0}, NOTHING, "succeeded"),
        (order(SUCCEEDED), {**IDLE, "leaving": True}, EXIT, "succeeded"),
        (order(FAILED), IDLE, NOTHING, "failed"),
        (None, {**IDLE, "ended": "succeeded"}, NOTHING, "succeeded"),
    ],
)
def test_decide(told: Order | None, local: dict[str, Any], todo: str, state: str) -> None:
    mine = Local(**{"definition": "def", **local})
    assert member.decide(told, mine, lost_seconds=30, grace_seconds=10) == todo
    assert member.state_of(told, mine) == state
