"""What fleet_queue.on_result is asked, and what its answer may do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from queue_agent.decide.rule import Subject, progress_of, question, verdict
from queue_agent.shared._queue.objects import (
    DONE,
    RUNNING,
    STOPPED,
    Owner,
    Progress,
    Submitted,
    Wish,
    wish_bytes,
)

OWNER = Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")


def arm(number: int, **more: Any) -> Submitted:
    one = Submitted(f"lr-{number}", "0" * 64, "alice", 0, 1.0, 1.0, sweep="lr", nonce="0" * 32)
    return replace(one, parameters={"lr": f"1e-{number}"}, **more)


ARMS = [
    arm(10),
    arm(1, state=DONE, ended_at=2.0, step=100, loss=0.25, exit_code=0),
    arm(2, state=RUNNING, owner=OWNER, step=40, loss="nan"),
]


def test_it_reads_all_arms_in_their_order() -> None:
    asked = json.loads(question(Subject(ARMS[1], "lab", "/code", ""), ARMS))
    assert (asked["run"], asked["sweep"]) == ("lr-1", "lr")
    first = {"name": "lr-1", "state": "done", "parameters": {"lr": "1e-1"}, "step": 100}
    assert asked["arms"][0] == {**first, "loss": 0.25, "diverged": False, "exit_code": 0}
    assert [one["name"] for one in asked["arms"]] == ["lr-1", "lr-2", "lr-10"]
    assert [one["diverged"] for one in asked["arms"]] == [False, True, False]
    assert asked["arms"][1]["loss"] is None


def test_arms_that_are_open_are_stopped_for_what_was_said() -> None:
    found = verdict(b"lr-2 median is 0.3\n\n  lr-10\nlr-1 done already\n", ARMS, "pair")
    assert found.stops == {"lr-2": "median is 0.3", "lr-10": "rule on pair"}
    assert found.refused == []


def test_what_is_no_arm_of_the_sweep_is_refused() -> None:
    found = verdict(b"digits\n../lr-2\nlr-2x\nLR-2\n\xff\xfe\n$(reboot)\n*\n", ARMS, "pair")
    assert found.stops == {}
    assert found.refused[0] == "'digits' is no arm of the sweep"
    assert found.refused[-1] == "and 2 more lines"
    assert len(found.refused) == 6


@pytest.mark.parametrize("why", ["x" * 9999, "\U0001f600" * 500, "\x1b[2J\x07", "a\tb\u202e"])
def test_a_reason_can_be_written_whatever_it_is(why: str) -> None:
    found = verdict(f"lr-2 {why}\n".encode(), ARMS, "pair")
    assert wish_bytes(Wish("lr-2", "alice", 1, 1.0, found.stops["lr-2"]))


@pytest.mark.parametrize(
    ("status", "progress"),
    [
        ({"step": 7, "loss": 0.5}, Progress(7, 0.5)),
        ({"step": 7, "loss": "nan"}, Progress(7, "nan")),
        ({}, Progress()),
        ({"step": -1, "loss": 0.5}, Progress(None, 0.5)),
        ({"step": 7, "loss": "bad"}, Progress(7)),
        ({"step": True, "loss": [1]}, Progress()),
    ],
)
def test_progress_is_what_the_run_agent_knows(status: dict[str, Any], progress: Progress) -> None:
    assert progress_of(status) == progress


def test_an_arm_that_has_ended_stays() -> None:
    ended = [arm(1, state=STOPPED, ended_at=2.0)]
    assert verdict(b"lr-1", ended, "pair") == ({}, [])
