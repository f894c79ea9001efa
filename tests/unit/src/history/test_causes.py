"""Why an attempt ended."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_fleet.history.causes import Cause, cause_of
from tpu_fleet.history.store import GAP, Event


def ended(worker: int = 0, at: float = 100.0, **detail: Any) -> Event:
    return Event(at, "pair", "digits", worker, "attempt-ended", 1, {"exit_code": 143, **detail})


def told(name: str, worker: int = 0, at: float = 90.0, **detail: Any) -> Event:
    return Event(at, "pair", "digits", worker, name, 1, detail)


KILLED = [
    ended(0, cause="worker 1: killed by signal 9"),
    ended(1, exit_code=None, signal=9, cause=""),
]
SYNCED = told("code-changed", version="9d0e7a11" * 8)
REBOOT = [ended(0, cause="worker 1 rebooted"), ended(1, exit_code=None, cause="rebooted")]


@pytest.mark.parametrize(
    ("events", "kind", "text"),
    [
        ([ended(0, exit_code=0), ended(1, exit_code=0)], "succeeded", ""),
        (KILLED, "crashed", "worker 1: killed by signal 9"),
        ([ended(0, exit_code=3)], "crashed", "worker 0: exit code 3"),
        ([ended(0, exit_code=None)], "crashed", "worker 0: the program vanished"),
        ([ended(0, cause="worker 1: exit code 3")], "crashed", "worker 1: exit code 3"),
        (REBOOT, "rebooted", "worker 1 rebooted"),
        ([told("maintenance-announced", 1), *REBOOT], "maintenance", "worker 1 rebooted"),
        ([ended(1, exit_code=None, cause="rebooted")], "rebooted", "worker 1 rebooted"),
        ([ended(0, cause="lost its terminal")], "terminal", "worker 0 lost its terminal"),
        ([told("peer-lost", peer=1), ended(0, cause="worker 1 is lost")], "lost",
         "worker 1 is lost"),
        ([ended(1, cause="lost the leader")], "lost", "worker 1 lost the leader"),
        ([told("hang", seconds=900.0), ended(0, cause="hung")], "hung",
         "no sign of life for 15 min"),
        ([told("fenced", by="attempt 9 of b"), ended(0, cause="fenced")], "fenced",
         "attempt 9 of b"),
        ([told("definition-changed"), ended(0, cause="another definition")], "changed",
         ""),
        ([SYNCED, ended(0, cause="the definition changed")], "code", "to 9d0e7a11"),
        # A program that ends while its agent gives way to the next one has no cause.
        ([SYNCED, ended(0, cause=""), ended(1, cause="")], "code", "to 9d0e7a11"),
        ([ended(0, at=80.0, cause="worker 1 has another definition of the run"), SYNCED], "code",
         "to 9d0e7a11"),
        # It had failed before.
        ([ended(0, at=80.0, exit_code=3), SYNCED], "crashed", "worker 0: exit code 3"),
        ([ended(0, cause="told to stop")], "stopped", "told to stop"),
        ([told("attempt-started")], "preempted", "its machines reported no end"),
        ([ended(0, cause="something new")], "other", "something new"),
    ],
)  # fmt: skip
def test_causes(events: list[Event], kind: str, text: str) -> None:
    assert cause_of(events, lost=None) == Cause(kind, text)


# As a maintenance of the demo's slice `pair` was recorded: its agent is told to stop, and hears
# what it was only when it is back.
OLD, NEW = {"boot_id": "f00f2226"}, {"boot_id": "e0a66d46"}
SHUT_DOWN = [
    told("attempt-started", 1, 10, **OLD),
    ended(1, 98.761, cause="told to stop", **OLD),
    ended(0, 99.94, cause="worker 1 was told to stop", boot_id="ffb0dda6"),
    told("agent-started", 1, 101.299, program="exited", **NEW),
]


def test_a_worker_that_is_shut_down_properly_has_rebooted() -> None:
    assert cause_of(SHUT_DOWN, lost=None) == Cause("rebooted", "worker 1 rebooted")
    announced = [*SHUT_DOWN, told("maintenance-announced", 1, 101.674, **NEW)]
    assert cause_of(announced, lost=None) == Cause("maintenance", "worker 1 rebooted")
    # An agent that begins anew in the same boot is no reboot.
    again = [*SHUT_DOWN[:3], told("agent-started", 1, 101.3, program="exited", **OLD)]
    assert cause_of(again, lost=None).kind == "stopped"


def test_a_new_machine_says_that_the_old_one_was_taken_away() -> None:
    def begins(worker: int, attempt: int) -> Event:
        return Event(130.0, "pair", "digits", worker, "agent-started", attempt, NEW)

    before = [told("agent-started", worker, **OLD) for worker in (0, 1)]
    asked = [*before, ended(0, cause="told to stop"), ended(1, cause="told to stop")]
    assert cause_of([*asked, begins(0, 0), begins(1, 0)], lost=None) == Cause(
        "preempted", "on a new machine: worker 0, 1"
    )
    # One that was rebooted knows of its attempt; and a program that failed before has failed.
    assert cause_of([*asked, begins(1, 1)], lost=None).kind == "rebooted"
    failed = [*before, ended(0, exit_code=3)]
    assert cause_of([*failed, begins(0, 0)], lost=None).kind == "crashed"


def test_a_lost_slice_is_the_cause_whatever_its_workers_wrote_last() -> None:
    assert cause_of(KILLED, lost=105.0).kind == "preempted"
    assert cause_of(SHUT_DOWN[:3], lost=120.0).kind == "preempted"


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([ended(0, exit_code=0), ended(1, exit_code=0)], "succeeded"),
        ([ended(0, exit_code=1)], "crashed"),
        ([told("hang", seconds=900.0), ended(0, cause="hung")], "hung"),
        ([told("definition-changed"), ended(0, cause="another definition")], "changed"),
    ],
)
def test_what_had_ended_by_itself_was_not_ended_by_the_loss_of_its_slice(
    events: list[Event], kind: str
) -> None:
    assert cause_of(events, lost=105.0).kind == kind


def test_a_run_that_was_stopped_long_before_was_not_ended_by_the_loss_of_its_slice() -> None:
    assert cause_of([ended(0, cause="told to stop")], lost=100.0 + GAP + 1).kind == "stopped"
    assert cause_of([ended(0, cause="told to stop")], lost=100.0 + GAP - 1).kind == "preempted"
