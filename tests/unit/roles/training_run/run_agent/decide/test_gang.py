"""What the leader decides, as tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from run_agent.decide import gang, reports
from run_agent.decide.gang_state import (
    CHIPS,
    FAILED,
    FENCED,
    GATHERING,
    LEADER_LOST,
    NOT_STARTED,
    PORT_TAKEN,
    RUNNING,
    STOPPING,
    SUCCEEDED,
    TOLD_TO_STOP,
    Gang,
    Policy,
    Report,
)

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
    state: Gang,
    *reports: Report,
    ages: tuple[float, float] = (0, 0),
    now: float = 1000,
    policy: Policy = POLICY,
) -> Gang:
    """Decide once; a worker without another order knows what the leader says."""
    known = [replace(item, heard=item.heard or state.token) for item in reports]
    seen = {item.worker: (item, ages[item.worker]) for item in known}
    return gang.decide(state, seen, now, policy)


DONE: dict[str, Any] = {"program": "exited", "exit_code": 0}
CRASHED: dict[str, Any] = {"program": "exited", "exit_code": 1}


@pytest.mark.parametrize(
    ("phase", "second", "ended"),
    [
        (STOPPING, DONE, True),
        (GATHERING, CRASHED, True),
        (SUCCEEDED, DONE, True),
        (RUNNING, DONE, False),  # the next order may be to start
        (STOPPING, {}, False),
        (STOPPING, {**DONE, "last_started": 2}, False),  # it may have the order to start in hand
        (STOPPING, {"program": "none", "last_started": 0}, False),  # it lost its memory
    ],
)
def test_when_an_attempt_has_ended_on_all_workers(
    phase: str, second: dict[str, Any], ended: bool
) -> None:
    seen = {0: (report(0, **CRASHED, leaving=True), 0.0), 1: (report(1, **second), 60.0)}
    assert reports.all_ended(replace(AT_WORK, phase=phase), seen, POLICY) is ended
    assert not reports.all_ended(replace(AT_WORK, phase=phase), {0: seen[0]}, POLICY)


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
        ({}, {**CRASHED, "cause": LEADER_LOST}, STOPPING, True, "worker 1: lost the leader"),
        # It was done before its machine rebooted: nothing is lost.
        (DONE, {**DONE, "boot_id": "new"}, SUCCEEDED, False, ""),
        # A program that ended well because it was asked to is not done.
        (DONE, {**DONE, "cause": TOLD_TO_STOP}, STOPPING, True, "worker 1: told to stop"),
        # What a worker tells of an attempt before is no news.
        ({}, {**CRASHED, "last_started": 2}, RUNNING, False, ""),
    ],
)
def test_while_running(
    first: dict[str, Any], second: dict[str, Any], phase: str, infrastructure: bool, reason: str
) -> None:
    state = after(AT_WORK, report(0, **first), report(1, **second))
    assert (state.phase, state.infrastructure, state.reason) == (phase, infrastructure, reason)


OBSTRUCTED: dict[str, Any] = {
    **CRASHED,
    "exit_code": 127,
    "cause": NOT_STARTED,
    "tail": ["tmux: no"],
}


@pytest.mark.parametrize("cause", [NOT_STARTED, PORT_TAKEN])
def test_what_a_machine_prevents_is_no_failure_and_comes_later_each_time(cause: str) -> None:
    state, pauses = AT_WORK, []
    for _time in range(8):
        state = after(state, report(0, **{**OBSTRUCTED, "cause": cause}), report(1))
        assert (state.phase, state.reason) == (STOPPING, f"worker 0: {cause}: tmux: no")
        state = after(state, report(0, **{**OBSTRUCTED, "cause": cause}), report(1, **CRASHED))
        assert (state.phase, state.failures) == (GATHERING, [])
        pauses.append(state.not_before - 1000)
        state = replace(state, phase=RUNNING)
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]
    # One that began counts as before.
    state = after(state, report(0, **CRASHED), report(1))
    state = after(state, report(0, **CRASHED), report(1, **CRASHED))
    assert (state.obstructed, len(state.failures), state.not_before) == (0, 1, 1002)


def test_that_a_machine_prevented_it_may_be_known_late() -> None:
    """Worker 1 fails first, because what listens on worker 0 is not the program."""
    state = after(AT_WORK, report(0), report(1, **CRASHED))
    assert (state.phase, state.infrastructure) == (STOPPING, False)
    state = after(state, report(0, **{**CRASHED, "cause": PORT_TAKEN}), report(1, **CRASHED))
    assert (state.phase, state.failures, state.obstructed) == (GATHERING, [], 1)


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
    crashed = [report(worker, **CRASHED) for worker in (0, 1)]
    pauses = []
    for _ in range(7):
        state = after(replace(state, phase=STOPPING), *crashed, policy=policy)
        pauses.append(state.not_before - 1000)
    assert pauses == [2, 4, 8, 16, 32, 60, 60]


@pytest.mark.parametrize("phase", [SUCCEEDED, FAILED])
def test_an_end_is_an_end(phase: str) -> None:
    ended = replace(AT_WORK, phase=phase)
    assert after(ended, report(0, program="none"), report(1, boot_id="new")) == ended
    assert gang.redefine(ended, "def", "other") == ended
    assert gang.again(ended, "me").phase == GATHERING
    changed = gang.redefine(ended, "new", "other")
    assert (changed.phase, changed.definition) == (STOPPING, "new")
    assert changed.run_id == ("other" if phase == SUCCEEDED else "id")


OLD, NEW = {"environment": "old", "code": "c"}, {"environment": "new", "code": "c"}


@pytest.mark.parametrize(
    ("first", "second", "began", "phase"),
    [
        (NEW, NEW, OLD, GATHERING),
        (OLD, OLD, OLD, FAILED),
        # The environment of the other worker is still being built.
        (NEW, OLD, OLD, FAILED),
        # Another version of the code is a matter of the definition.
        ({**OLD, "code": "d"}, {**OLD, "code": "d"}, OLD, FAILED),
        # A gang of an earlier version of the agent.
        (NEW, NEW, {}, FAILED),
        ({}, {}, OLD, FAILED),
    ],
)
def test_a_failed_run_is_tried_again_with_another_environment(
    first: dict[str, str], second: dict[str, str], began: dict[str, str], phase: str
) -> None:
    state = replace(AT_WORK, phase=FAILED, failures=[990.0], final=True, builds=began)
    told = after(
        state, report(0, program="exited", builds=first), report(1, program="exited", builds=second)
    )
    assert told.phase == phase
    if phase == GATHERING:
        assert (told.reason, told.failures, told.owner) == (
            "its environment changed",
            [],
            state.owner,
        )
        # Once: it may fail in the same way.
        again = replace(told, phase=FAILED)
        known = [report(n, program="exited", builds=first) for n in (0, 1)]
        assert after(again, *known).phase == FAILED


def test_an_attempt_remembers_the_environment_with_which_it_began() -> None:
    state = replace(AT_WORK, phase=GATHERING)
    idle = [report(worker, program="none", builds=OLD) for worker in (0, 1)]
    assert after(state, *idle).builds == OLD


def test_what_is_kept_comes_back() -> None:
    assert Gang.from_json(json.loads(json.dumps({**AT_WORK.to_json(), "serial": 7}))) == AT_WORK


def test_what_it_waits_for() -> None:
    seen = {0: (report(0, program="none", blocked="held by bob"), 0.0), 1: (report(1), 0.0)}
    text = "worker 0: held by bob; worker 1 is still stopping"
    assert gang.waiting_for(AT_WORK, seen, POLICY) == text
    assert gang.waiting_for(AT_WORK, {}, POLICY) == "worker 0 is not there; worker 1 is not there"


@pytest.mark.parametrize(
    ("phase", "heard", "goes_on"),
    [
        (STOPPING, RUNNING, False),  # it may start the attempt yet that it was told of
        (STOPPING, GATHERING, False),
        (STOPPING, STOPPING, True),
        (GATHERING, RUNNING, False),
        (GATHERING, STOPPING, False),  # it has not looked yet whether it is ready
        (GATHERING, GATHERING, True),
    ],
)
def test_who_may_still_start_an_older_attempt_is_waited_for(
    phase: str, heard: str, goes_on: bool
) -> None:
    state = replace(AT_WORK, phase=phase)
    slow = report(1, program="none", last_started=2, heard=replace(AT_WORK, phase=heard).token)
    became = after(state, report(0, program="none"), slow)
    assert (became.phase != phase) is goes_on


def test_a_leader_without_a_memory_is_not_mixed_up_with_the_one_before() -> None:
    state = Gang("def", "id", attempt=3)
    old = report(1, program="none", heard=AT_WORK.token)
    assert after(state, report(0, program="none"), old).phase == GATHERING


PATIENT = replace(POLICY, hang_seconds=60)


@pytest.mark.parametrize(
    ("first", "second", "ages", "phase"),
    [
        (100, 100, (0, 0), STOPPING),
        (100, 40, (0, 0), RUNNING),  # one that lives speaks for all
        (100, 40, (0, 25), STOPPING),
        (59, 100, (0, 0), RUNNING),
    ],
)
def test_a_hang_is_one_of_all(
    first: float, second: float, ages: tuple[float, float], phase: str
) -> None:
    reports = report(0, quiet=first), report(1, quiet=second)
    state = after(AT_WORK, *reports, ages=ages, policy=PATIENT)
    assert (state.phase, state.infrastructure) == (phase, False)
    assert (state.hung > 0) is (phase == STOPPING)
    assert after(AT_WORK, *reports, ages=ages).phase == RUNNING  # nobody asked for it


def test_who_is_done_does_not_hang_and_hides_no_hang() -> None:
    reports = report(0, **DONE), report(1, quiet=100)
    assert after(AT_WORK, *reports, policy=PATIENT).phase == STOPPING


def test_a_hang_counts_against_the_retries_over_a_longer_time() -> None:
    state = replace(STOPPED, reason="hung: no output", hung=60.0, failures=[850.0])
    ended = [report(worker, **CRASHED, cause="hung") for worker in (0, 1)]
    over = after(state, *ended, policy=PATIENT)
    assert (over.phase, over.reason) == (FAILED, "2 failures in 3 min, the last: hung: no output")
    once = after(replace(state, failures=[]), *ended, policy=PATIENT)
    assert (once.phase, len(once.failures), once.hung) == (GATHERING, 1, 0)
    none = replace(PATIENT, retries=0)
    alone = after(replace(state, failures=[]), *ended, policy=none)
    assert alone.reason == "1 failure in 2 min: hung: no output"


@pytest.mark.parametrize(("code", "phase"), [(1, GATHERING), (42, FAILED)])
def test_some_exit_codes_are_not_tried_again(code: int, phase: str) -> None:
    policy = replace(POLICY, no_retry_exit_codes=(42,))
    bad = report(1, program="exited", exit_code=code, tail=["ValueError: no such file"])
    stopping = after(AT_WORK, report(0), bad, policy=policy)
    ended = after(stopping, report(0, **CRASHED), bad, policy=policy)
    assert (ended.phase, ended.failed_worker) == (phase, 1)
    assert ended.tail == ["ValueError: no such file"]
    # A peer that rebooted explains it after all.
    late = after(stopping, report(0, **CRASHED, boot_id="new"), bad, policy=policy)
    assert late.phase == GATHERING


@pytest.mark.parametrize(
    ("told", "waits_for"),
    [
        ({"queue": {"behind": "other", "user": "bob"}}, "the TPU is taken: run other of bob"),
        ({"no_turn": True}, "the TPU is about to be taken"),
        ({"builds": {"code": "abc"}}, ""),
        ({"builds": {"code": "abd"}}, "worker 1 has code abc, worker 0 has abd"),
        ({"builds": {"environment": "abd"}}, ""),  # who says nothing differs in nothing
    ],
)
def test_what_else_a_start_waits_for(told: dict[str, Any], waits_for: str) -> None:
    state = replace(AT_WORK, phase=GATHERING)
    reports = report(0, program="none", **told), report(1, program="none", builds={"code": "abc"})
    assert (after(state, *reports).phase == RUNNING) is not bool(waits_for)
    seen = {r.worker: (replace(r, heard=state.token), 0.0) for r in reports}
    assert gang.waiting_for(state, seen, POLICY).startswith(waits_for)


def test_a_slice_that_is_made_anew_continues_the_numbers_and_the_name() -> None:
    found = report(0, program="none", last_started=0, floor=7, run_id="digits-1")
    state = after(Gang("def", "id"), found, report(1, program="none", last_started=0))
    assert (state.attempt, state.run_id, state.claimed) == (8, "digits-1", True)
    later = replace(AT_WORK, phase=GATHERING)
    state = after(later, replace(found, last_started=3), report(1, program="none"))
    assert (state.attempt, state.run_id) == (8, "id")  # it has a name of its own by then


def test_a_gang_that_the_fence_has_named_is_no_heir_any_more() -> None:
    """Also if its agent restarts before the attempt begins: another may have come since."""
    state = replace(AT_WORK, phase=GATHERING, owner="me", claimed=False)
    waits = report(0, program="none", blocked="attempt 7 may still run elsewhere")
    assert not after(state, waits).claimed
    assert not after(state, replace(waits, named="other")).claimed
    assert after(state, replace(waits, named="me")).claimed


def test_a_run_that_goes_on_elsewhere_has_failed_here() -> None:
    state = replace(AT_WORK, phase=GATHERING)
    state = after(state, report(0, program="none", elsewhere="fenced by attempt 9 on b"))
    assert (state.phase, state.reason) == (FAILED, "fenced by attempt 9 on b")
    back = gang.again(replace(state, claimed=True), "me")
    assert (back.owner, back.claimed) == ("me", False)
    again = replace(back, phase=GATHERING)
    late = report(0, program="none", elsewhere="fenced by attempt 9 on b", heard=state.token)
    assert after(again, late).phase == GATHERING
    stopped = after(AT_WORK, report(0, **CRASHED, cause=FENCED), report(1))
    assert (stopped.phase, stopped.infrastructure, stopped.fenced) == (STOPPING, True, True)
    # Only what another gang has is killed without a grace.
    assert not after(AT_WORK, report(0, **CRASHED, cause=TOLD_TO_STOP), report(1)).fenced
    ready = replace(stopped, phase=GATHERING)
    begun = after(ready, report(0, program="none"), report(1, program="none"))
    assert (begun.phase, begun.fenced) == (RUNNING, False)


def test_all_are_asked_to_save_once_for_each_reason() -> None:
    asked = after(AT_WORK, report(0), report(1, checkpoint="maintenance at 5"))
    assert asked.asked == ["maintenance at 5"]
    assert after(asked, report(0), report(1, checkpoint="maintenance at 5")) == asked
    twice = after(asked, report(0, checkpoint="maintenance at 9"), report(1))
    assert twice.asked == ["maintenance at 5", "maintenance at 9"]
    # The next attempt may be asked again: what it did since is not saved.
    again = replace(twice, phase=GATHERING)
    assert after(again, report(0, program="none"), report(1, program="none")).asked == []


BAD: dict[str, Any] = {**CRASHED, "cause": CHIPS, "tail": ["open(/dev/vfio/0): busy"]}


def test_a_first_attempt_waits_for_the_test_of_the_ports() -> None:
    new = Gang("def", "id")
    idle: dict[str, Any] = {"program": "none", "last_started": 0}
    waiting = after(new, report(0, **idle), report(1, testing=True, **idle))
    assert waiting.phase == GATHERING
    seen = {
        worker: (report(worker, testing=worker == 1, heard=new.token, **idle), 0.0)
        for worker in (0, 1)
    }
    assert gang.waiting_for(new, seen, POLICY) == "worker 1 tests the ports of the others"
    assert after(new, report(0, **idle), report(1, **idle)).phase == RUNNING


def test_chips_that_do_not_initialise_are_no_failure_of_the_program() -> None:
    stopping = after(AT_WORK, report(0), report(1, **BAD))
    assert (stopping.phase, stopping.infrastructure) == (STOPPING, True)
    assert stopping.reason == f"worker 1: {CHIPS}: open(/dev/vfio/0): busy"
    over = after(stopping, report(0, **CRASHED), report(1, **BAD))
    assert over.failures == []
    assert over.bad_chips == {"1": [1000]}
    assert over.chips_said == {"1": "open(/dev/vfio/0): busy"}


def test_also_where_the_victim_was_seen_first() -> None:
    stopping = after(AT_WORK, report(0, **CRASHED), report(1))
    assert not stopping.infrastructure
    over = after(stopping, report(0, **CRASHED), report(1, **BAD))
    assert (over.failures, over.bad_chips) == ([], {"1": [1000]})


def test_starts_that_chips_fail_are_forgotten_at_a_step() -> None:
    known = replace(AT_WORK, bad_chips={"1": [1.0, 2.0]}, chips_said={"1": "busy"})
    assert after(known, report(0), report(1)).bad_chips == {"1": [1.0, 2.0]}
    at_work = after(known, report(0, stepped=True), report(1))
    assert (at_work.phase, at_work.bad_chips, at_work.chips_said) == (RUNNING, {}, {})
    stopping = replace(known, phase=STOPPING)
    ended = after(stopping, report(0, stepped=True, **CRASHED), report(1, **CRASHED))
    assert ended.bad_chips == {}


def test_chips_that_fail_again_and_again_end_the_run_at_last() -> None:
    often = replace(AT_WORK, bad_chips={"1": [990.0 + n for n in range(5)]})
    stopping = after(often, report(0), report(1, **BAD))
    assert not stopping.infrastructure
    assert stopping.reason == f"worker 1: {CHIPS}: open(/dev/vfio/0): busy"


def test_a_worker_that_alone_did_not_open_its_chips_is_counted() -> None:
    stopping = replace(AT_WORK, phase=STOPPING)
    over = after(stopping, report(0, opened=True, **CRASHED), report(1, opened=False, **CRASHED))
    assert list(over.bad_chips) == ["1"]
    none = after(stopping, report(0, opened=False, **CRASHED), report(1, opened=False, **CRASHED))
    assert none.bad_chips == {}
