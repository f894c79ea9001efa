"""The rule in examples/queue, asked as the queue agent asks it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import submitters  # noqa: F401 - which finds the agent
from queue_agent.decide.rule import Subject, question, verdict
from queue_agent.shared._queue.objects import RUNNING, STOPPED, WAITING, Owner, Submitted

RULE = Path(__file__).resolve().parents[2] / "examples/queue/rule.py"
OWNER = Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")


def arm(number: int, step: int | None, loss: float | str | None, state: str = RUNNING) -> Submitted:
    owner, ended = (OWNER if state == RUNNING else None), (2.0 if state == STOPPED else None)
    return Submitted(
        *(f"lr-{number}", "0" * 64, "alice", 0, 1.0, 1.0),
        state=state, owner=owner, ended_at=ended, sweep="lr", step=step, loss=loss,
    )  # fmt: skip


def stops(*arms: Submitted) -> dict[str, str]:
    asked = question(Subject(arms[0], "lab", "", ""), arms)
    words: Any = [sys.executable, "-I", str(RULE)]
    said = subprocess.run(words, input=asked, capture_output=True, check=True).stdout
    found = verdict(said, arms, "pair")
    assert found.refused == []
    return found.stops


def test_the_worse_half_of_those_that_are_as_far_is_stopped() -> None:
    assert stops(
        arm(1, 120, 0.5),
        arm(2, 150, 0.9),
        arm(3, 199, 0.4),
        arm(4, 180, 2.0, STOPPED),
        arm(5, 410, 3.0),
        arm(6, 50, 9.0),
        arm(7, None, None, WAITING),
        arm(8, 10, "nan"),
    ) == {"lr-2": "0.9 is above 0.7 after 100 steps", "lr-8": "diverged"}


def test_two_are_too_few() -> None:
    assert stops(arm(1, 120, 0.5), arm(2, 150, 0.9)) == {}


def test_as_many_steps_as_a_rung_begins_with_are_in_it() -> None:
    for step in (100, 200, 400, 800, 1600, 3200, 6400):
        found = json.dumps(stops(arm(1, step, 1), arm(2, step, 2), arm(3, step, 3)))
        assert f"after {step} steps" in found
