"""What the leader decides, as tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from run_agent import gang
from run_agent.gang import FAILED, GATHERING, RUNNING, STOPPING, SUCCEEDED, Gang, Policy, Report

POLICY = Policy("def", workers=2, retries=1, fail_fast_seconds=100, lost_seconds=30)
AT_WORK = Gang("def", "id", phase=RUNNING, attempt=3, boots={"0": "boot0", "1": "boot1"})


def report(worker: int, **more: Any) -> Report:
    return replace(
        Report(
            worker, boot_id=f"boot{worker}", definition="def", last_started=3, program="running"
        ),
        **more,
    )


def after(
    state: Gang, *reports: Report, ages: tuple[float, float] = (0, 0), now: float = 1000
) -> Gang:
    seen = {item.worker: (item, ages[item.worker]) for item in reports}
    return gang.decide(state, seen, now, POLICY)


DONE: dict[str, Any] = {"program": "exited", "exit_code": 0}
CRASHED: dict[str, Any] = {"program": "exited", "exit_code": 1}


@pytest.mark.parametrize(
    ("first", "second", "phase", "infrastructure", "reason"),
    [
        ({}, {}, RUNNING, False, ""),
        (DONE, {}, RUNNING, False, ""),
        (DONE, DONE, SUCCEEDED, False, ""),
        ({}, CRASHED, STOPPING, False, "worker 1: exit code 1"),
        (DONE, CRASHED, STOPPING, False, "worker 1: exit code 1"),
        ({}, {"program": "exited", "signal": 9}, STOPPING, False, "worker 1: killed by signal 9"),
        ({}, {"program": "exited"}, STOPPING, False, "worker 1: the program vanished"),
        (CRASHED, {"boot_id": "new"}, STOPPING, True, "worker 1 rebooted"),
        (CRASHED, {"leaving": True}, STOPPING, True, "worker 1 was told to stop"),
        ({}, {"definition": "x"}, STOPPING, True, "worker 1 has another definition of the run"),
        ({}, {**CRASHED, "cause": gang.LEADER_LOST}, STOPPING, True, "worker 1: lost the leader"),
        # It was done before its machine rebooted: nothing is lost.
        (DONE, {**DONE, "boot_id": "new"}, SUCCEEDED, False, ""),
        # A program that ended well because it was asked to is not done.
        (DONE, {**DONE, "cause": gang.TOLD_TO_STOP}, STOPPING, True, "worker 1: told to stop"),
        # What a worker tells of an attempt before is no news.
        ({}, {**CRASHED, "last_started": 2}, RUNNING, False, ""),
    ],
)
def test_while_running(
    first: dict[str, Any], second: dict[str, Any], phase: str, infrastructure: bool, reason: str
) -> None:
    state = after(AT_WORK, report(0, **first), report(1, **second))
    assert (state.phase, state.infrastructure, state.reason) == (phase, infrastructure, reason)


def test_silence_is_loss() -> None:
    state = after(AT_WORK, report(0), report(1), ages=(0, 31))
    assert (state.phase, state.infrastructure) == (STOPPING, True)
    assert after(AT_WORK, report(0)).reason == "worker 1 is lost"


STOPPED = replace(AT_WORK, phase=STOPPING, reason="worker 0: exit code 1")


@pytest.mark.parametrize(
    ("state", "second", "failures", "phase", "counted"),
    [
        (STOPPED, CRASHED, [], GATHERING, 1),
        (STOPPED, {}, [], STOPPING, 0),  # still at it
        (STOPPED, CRASHED, [950.0], FAILED, 2),
        (STOPPED, CRASHED, [800.0], GATHERING, 1),  # too long ago to count
        (STOPPED, CRASHED, [2000.0], GATHERING, 1),  # a clock that jumped back
        (STOPPED, {**CRASHED, "boot_id": "new"}, [950.0], GATHERING, 1),  # seen late, no failure
        (replace(STOPPED, infrastructure=True), CRASHED, [950.0], GATHERING, 1),
    ],
)
def test_while_stopping(
    state: Gang, second: dict[str, Any], failures: list[float], phase: str, counted: int
) -> None:
    state = replace(state, failures=failures)
    state = after(state, report(0, **CRASHED), report(1, **second))
    assert (state.phase, len(state.failures)) == (phase, counted)


def test_who_is_lost_while_stopping_makes_it_infrastructure() -> None:
    state = after(STOPPED, report(0, **CRASHED), report(1), ages=(0, 31))
    assert (state.phase, state.infrastructure) == (STOPPING, True)


@pytest.mark.parametrize(
    ("second", "phase"),
    [
        (CRASHED, RUNNING),
        ({"program": "none"}, RUNNING),
        ({}, GATHERING),
        ({"program": "none", "blocked": "held"}, GATHERING),
        ({"program": "none", "leaving": True}, GATHERING),
        ({"program": "none", "definition": "x"}, GATHERING),
    ],
)
def test_while_gathering(second: dict[str, Any], phase: str) -> None:
    state = replace(AT_WORK, phase=GATHERING)
    state = after(state, report(0, program="none"), report(1, **second))
    assert state.phase == phase
    assert state.attempt == (4 if phase == RUNNING else 3)


def test_a_leader_without_a_memory_gives_no_number_twice() -> None:
    state = after(
        Gang("def", "id"), report(0, program="none", last_started=0), report(1, **CRASHED)
    )
    assert state.attempt == 4


@pytest.mark.parametrize(
    ("not_before", "phase"), [(1005, GATHERING), (999, RUNNING), (9e9, RUNNING)]
)
def test_the_pause_ends_also_when_the_clock_jumps(not_before: float, phase: str) -> None:
    state = replace(AT_WORK, phase=GATHERING, not_before=not_before)
    assert after(state, report(0, program="none"), report(1, program="none")).phase == phase


def test_the_pause_grows() -> None:
    state = replace(STOPPED, failures=[])
    policy = replace(POLICY, retries=99)
    seen = {worker: (report(worker, **CRASHED), 0.0) for worker in (0, 1)}
    pauses = []
    for _ in range(7):
        state = gang.decide(replace(state, phase=STOPPING), seen, 1000, policy)
        pauses.append(state.not_before - 1000)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize("phase", [SUCCEEDED, FAILED])
def test_an_end_is_an_end(phase: str) -> None:
    ended = replace(AT_WORK, phase=phase)
    assert after(ended, report(0, program="none"), report(1, boot_id="new")) == ended
    assert gang.redefine(ended, "def", "other") == ended
    assert gang.again(ended).phase == GATHERING
    changed = gang.redefine(ended, "new", "other")
    assert (changed.phase, changed.definition) == (STOPPING, "new")
    assert changed.run_id == ("other" if phase == SUCCEEDED else "id")


def test_what_is_kept_comes_back() -> None:
    assert Gang.from_json(json.loads(json.dumps({**AT_WORK.to_json(), "serial": 7}))) == AT_WORK


def test_what_it_waits_for() -> None:
    seen = {0: (report(0, blocked="held by bob"), 0.0), 1: (report(1), 0.0)}
    text = "worker 0: held by bob; worker 1 is still stopping"
    assert gang.waiting_for(seen, POLICY) == text
    assert gang.waiting_for({}, POLICY) == "worker 0 is not there; worker 1 is not there"
