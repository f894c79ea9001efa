"""What the watcher does about chips that do not initialise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    RunStatus,
    run_status,
)
from slices_seen import slice_seen

from tpu_fleet.watch import chips
from tpu_fleet.watch.chips import A_DAY, Verdict
from tpu_fleet.watch.decide import Job, Outcome, notice
from tpu_fleet.watch.hosts import HostSeen
from tpu_fleet.watch.memory import Memory, SliceMemory

NOW = 1_000_000.0
BUSY = "open(/dev/vfio/0): Device or resource busy"
TEXT = f"the chips of pair-w1 did not initialise in 2 starts of run digits: {BUSY}"
KNOWN = SliceMemory(uid="u1", phase="ready")


def run(state: str = "restarting", times: int = 0, name: str = "digits", **more: Any) -> RunStatus:
    bad = {"bad_chips": {"times": times, "said": BUSY}} if times else {}
    told = {"run": name, "state": state, "attempt": 2, "boot_id": "b1", **bad, **more}
    return run_status(Words("w", told))


def judged(
    *runs: RunStatus,
    known: SliceMemory = KNOWN,
    policy: str = "recreate",
    paid: bool = True,
    used: tuple[str, ...] = (),
    there: bool = True,
) -> Verdict:
    one = slice_seen("pair", "ready", uid="u1", on_bad_chips=policy)
    hosts = {
        "pair-w0": HostSeen(there, boot_id="b1", used=used, runs=(run(runs[0].state),)),
        "pair-w1": HostSeen(True, boot_id="b1", runs=runs),
    }
    return chips.judged(known, one, hosts, NOW, paid)


@pytest.mark.parametrize("state", ["restarting", "pending", "failed"])
def test_after_the_second_time_the_slice_is_recreated_between_two_starts(state: str) -> None:
    assert judged(run(state, times=1)) == Verdict()
    assert judged(run(state, times=2)).recreate == TEXT


def test_a_start_that_runs_is_let_end() -> None:
    verdict = judged(run("running", times=2))
    assert (verdict.recreate, verdict.soon) == ("", True)
    assert "when this start has ended" in verdict.trouble


@pytest.mark.parametrize("state", ["succeeded", "stopped"])
def test_of_a_run_that_is_over_nothing_follows(state: str) -> None:
    assert judged(run(state, times=4)) == Verdict()


def test_by_default_it_is_reported_alone() -> None:
    verdict = judged(run(times=3), policy="report")
    assert verdict.recreate == ""
    assert "tpu-fleet slice delete pair" in verdict.trouble
    assert "on_bad_chips: recreate" in verdict.trouble


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"used": ("alice is logged in",)}, "alice is logged in (pair-w0)"),
        ({"paid": False}, "fleet_budget is spent"),
        ({"there": False}, "pair-w0 does not answer"),
        ({"known": replace(KNOWN, recreated=(NOW - 9000, NOW - 60))}, "2 times"),
        ({"known": replace(KNOWN, recreate_at=NOW + 60)}, "is tried again"),
    ],
)
def test_what_keeps_a_slice(more: dict[str, Any], why: str) -> None:
    verdict = judged(run(times=2), **more)
    assert verdict.recreate == ""
    assert why in verdict.trouble


def test_another_run_that_works_keeps_it() -> None:
    other = run("running", name="other")
    assert "run other runs" in judged(run(times=2), other).trouble


def test_recreations_of_another_day_do_not_count() -> None:
    known = replace(KNOWN, recreated=(NOW - 2 * A_DAY, NOW - A_DAY - 1, NOW - 60))
    assert judged(run(times=2), known=known).recreate == TEXT


def test_its_loss_is_no_preemption() -> None:
    seen = [slice_seen("pair", "coming")]
    lost = Memory(slices={"pair": KNOWN}, known=True)
    assert [one.event for one in notice(lost, seen, NOW)[1]] == ["preempted"]
    begun = Memory(slices={"pair": chips.begun(KNOWN, "u1", NOW)}, known=True)
    assert notice(begun, seen, NOW)[1] == []


def outcome(code: int) -> Outcome:
    job = Job(("pair",), (f"pair: {TEXT}",), bad_chips="u1")
    return Outcome(job, code, failures=(("", "no route"),) if code else ())


def test_what_became_of_it() -> None:
    begun = chips.begun(KNOWN, "u1", NOW)
    known, [message], why = chips.done(begun, outcome(0), NOW + 60)
    assert (known.recreated, why) == ((NOW + 60,), "")
    assert message.title == "pair is recreated"
    assert BUSY in message.text
    known, messages, why = chips.done(begun, outcome(2), NOW + 60)
    assert (messages, why, known.lost_as) == ([], "no route", "")
    assert known.recreate_at > NOW + 60


def test_it_is_kept_in_the_memory() -> None:
    known = replace(KNOWN, recreated=(NOW,), recreate_failures=1, recreate_at=NOW + 5)
    memory = Memory(slices={"pair": known})
    assert Memory.from_dict(memory.to_dict()).slice("pair") == known


@pytest.mark.parametrize(
    "bad", [{"times": 0, "said": ""}, {"times": "2", "said": ""}, {"times": 2, "said": 7}, [2]]
)
def test_invalid_words_of_a_worker_are_refused(bad: Any) -> None:
    told = {"run": "digits", "state": "pending", "bad_chips": bad}
    assert run_status(Words("w", told)).state == "refused"
