"""When a slice is put to rest after the end of its runs, and when it is not."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from slices_seen import slice_seen

from tpu_fleet.watch.after import done, look_after
from tpu_fleet.watch.decide import Finish, Job, Outcome, SliceSeen
from tpu_fleet.watch.hosts import HostSeen
from tpu_fleet.watch.memory import SliceMemory

NOW = 1_000_000.0
AWAY = HostSeen(reached=False, says="no route")


def pair(phase: str = "ready", **more: Any) -> SliceSeen:
    here = {"uid": "u1", "addresses": ("a -", "b -"), "on_finish": "delete", "mark": "m1"}
    return slice_seen("pair", phase, "t", **{**here, **more})


SEEN = pair()
OLD = SliceMemory(uid="u1", phase="ready", mark="m1", applied="x x", asked_at=NOW - 300)
ENDS = hashlib.sha256(b"digits:r:2").hexdigest()


def run(state: str = "succeeded", **more: Any) -> RunStatus:
    return RunStatus(**{"run": "digits", "state": state, "attempt": 2, "run_id": "r", **more})


def host(*runs: RunStatus, used: tuple[str, ...] = (), applied: str = "x") -> HostSeen:
    return HostSeen(True, boot_id="b", applied=applied, used=used, runs=runs)


def after(
    *hosts: HostSeen,
    seen: SliceSeen = SEEN,
    known: SliceMemory = OLD,
    declared: tuple[str, ...] = ("digits",),
    now: float = NOW,
) -> tuple[SliceMemory, Finish | None]:
    looks = {f"pair-w{index}": one for index, one in enumerate(hosts)}
    return look_after(known, seen, looks, declared, now)


OVER = host(run())
DONE = Rest("delete", "m1", ends=ENDS, done=True)


@pytest.mark.parametrize(
    ("hosts", "more", "goes"),
    [
        ([OVER, OVER], {}, True),
        ([OVER, OVER], {"seen": pair(on_finish="stop")}, True),
        ([OVER, OVER], {"seen": pair(on_finish="keep")}, False),
        # Not all of it has ended, or not well; who failed is kept to be looked at.
        ([OVER, host(run("running"))], {}, False),
        ([OVER, host(run("restarting"))], {}, False),
        ([OVER, host(run("failed"))], {}, False),
        ([OVER, host(run("stopped"))], {}, False),
        ([OVER, host()], {}, False),
        ([OVER, OVER], {"declared": ("digits", "words")}, False),
        ([OVER, OVER], {"declared": ()}, False),
        # Another run is there, though nobody declares it.
        ([OVER, host(run(), run("pending", run="words"))], {}, False),
        # Not everybody has answered.
        ([OVER], {}, False),
        ([OVER, AWAY], {}, False),
        # Somebody is there.
        ([OVER, host(run(), used=("alice is logged in on pts/0",))], {}, False),
        # It is to be set up first, or is not there any more.
        ([OVER, OVER], {"known": replace(OLD, due=("w was rebooted",))}, False),
        ([OVER, OVER], {"seen": pair("coming")}, False),
        # The runs were changed, and that was not applied yet; or it was.
        ([OVER, OVER], {"seen": pair(mark="m2")}, False),
        ([host(run(), applied="y"), OVER], {"seen": pair(mark="m2")}, True),
        # This end was the reason before: whoever woke it has a use for it.
        ([OVER, OVER], {"seen": replace(SEEN, rest=DONE)}, False),
        ([OVER, OVER], {"seen": replace(SEEN, rest=replace(DONE, awake=True))}, False),
        # Another end, another run, and a controller that died in between.
        ([OVER, OVER], {"seen": replace(SEEN, rest=replace(DONE, ends="0" * 64))}, True),
        ([OVER, OVER], {"seen": replace(SEEN, rest=replace(DONE, mark="m0"))}, True),
        ([OVER, OVER], {"seen": replace(SEEN, rest=replace(DONE, done=False))}, True),
        # It did not work just now.
        ([OVER, OVER], {"known": replace(OLD, rest_at=NOW + 60)}, False),
    ],
)
def test_when_the_runs_are_over(hosts: list[HostSeen], more: dict[str, Any], goes: bool) -> None:
    seen = more.get("seen", SEEN)
    expected = Finish(seen.want.on_finish, "its runs have finished", ENDS) if goes else None
    assert after(*hosts, **more)[1] == expected


IDLE = pair(idle_after=1800)
FOR_QUEUE = pair(idle_after=1800, on_queue=True)


def test_a_slice_that_a_submitted_run_is_about_to_take_is_not_idle() -> None:
    known = OLD
    looks = {"pair-w0": host(), "pair-w1": host()}
    found = []
    for minutes, awaited in ((0, False), (30, True), (31, False), (50, False), (62, False)):
        at = NOW + 60 * minutes
        known, finish = look_after(
            replace(known, asked_at=at - 60), FOR_QUEUE, looks, (), at, awaited
        )
        found.append(finish)
    assert found[:-1] == [None] * 4
    assert found[-1] == Finish("delete", "unused for 31 min", on_queue=True)


FAILED = host(run("failed"))


@pytest.mark.parametrize(
    ("looks", "goes"),
    [
        ([(0, FAILED), (10, FAILED), (29, FAILED)], False),
        ([(0, FAILED), (15, FAILED), (30, FAILED)], True),
        ([(0, host()), (15, host()), (30, host())], True),
        # Somebody came meanwhile, and went.
        ([(0, FAILED), (15, host(run("failed"), used=("x holds a chip",))), (30, FAILED)], False),
        ([(0, FAILED), (15, host(run("running"))), (30, FAILED), (45, FAILED)], False),
        ([(0, FAILED), (15, AWAY), (30, FAILED)], False),
        # Nobody looked: who knows who was there.
        ([(0, FAILED), (600, FAILED)], False),
        ([(0, FAILED), (600, FAILED), (615, FAILED), (630, FAILED)], True),
    ],
)
def test_when_nobody_uses_it(looks: list[tuple[int, HostSeen]], goes: bool) -> None:
    known, finish = SliceMemory(uid="u1", phase="ready"), None
    for minute, one in looks:
        known, finish = after(one, host(), seen=IDLE, known=known, now=NOW + 60 * minute)
    assert (finish is not None) is goes
    if finish:
        assert finish == Finish("delete", "unused for 30 min", "")
    # Without a rule it may be idle for ever.
    known = replace(known, idle_since=1.0, asked_at=NOW)
    assert after(FAILED, host(), known=known, now=NOW + 60)[1] is None


def test_a_change_of_the_runs_is_not_forgotten_until_it_is_applied() -> None:
    changed = pair(idle_after=1800, mark="m2")
    known = replace(OLD, idle_since=NOW - 3600)
    for minute in (0, 10, 20, 40):
        known, finish = after(FAILED, host(), seen=changed, known=known, now=NOW + 60 * minute)
        assert finish is None
    assert known.mark == "m1"


def test_how_it_went() -> None:
    job = Job(("pair",), ("w",), finish=Finish("delete", "its runs have finished", ENDS))
    known, [message], obstacle = done(OLD, Outcome(job, 0), NOW)
    assert (message.event, message.title, obstacle) == ("finished", "pair was deleted", "")
    assert "no longer cost anything" in message.text
    assert "tpu-fleet slice wake pair" in message.text
    failed = Outcome(job, 2, failures=(("pair-w1", "pair-w1: Bring it: no room"),))
    known, messages, obstacle = done(OLD, failed, NOW)
    assert (messages, obstacle) == ([], "pair-w1: Bring it: no room")
    assert NOW < known.rest_at <= NOW + 60
    assert done(known, failed, NOW)[0].rest_failures == 2
