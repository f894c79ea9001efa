"""What becomes of slices when the budget is spent."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import Over, Rate
from slices_seen import slice_seen

from tpu_fleet.watch.budget import Measures, costing, goes_on, measures, spent
from tpu_fleet.watch.decide import SliceSeen
from tpu_fleet.watch.hosts import HostSeen
from tpu_fleet.watch.memory import Memory, SliceMemory

NOW = 1_000_000.0
OVER = Over("day", 10.0, 11.0, "day 2026-06-10")
AWAY = HostSeen(reached=False, says="no route")


def solo(phase: str = "ready", **more: Any) -> SliceSeen:
    here = {"uid": "u1", "addresses": ("a -",), "types": ("v4-8",)}
    return slice_seen("solo", phase, "t", **{**here, **more})


def host(state: str, on: str = "bucket") -> HostSeen:
    run = RunStatus(run="lm", state=state, attempt=1, run_id="r", checkpoints_on=on)
    return HostSeen(True, boot_id="b", runs=(run,))


def measured(
    *hosts: HostSeen,
    on_exceed: str = "delete",
    seen: SliceSeen | None = None,
    cost: bool = True,
    memory: Memory | None = None,
    would_cost: bool = True,
) -> Measures:
    looks = {"solo": {f"solo-w{n}": one for n, one in enumerate(hosts)}} if hosts else {}
    cost_of = {"solo"} if cost else set()
    one = seen or solo()
    return measures(OVER, on_exceed, [one], cost_of, memory or Memory(), looks, would_cost, NOW)


def how(found: Measures) -> str:
    return found.finishes["solo"].how if "solo" in found.finishes else ""


@pytest.mark.parametrize("state", ["running", "pending", "restarting", "stopping"])
@pytest.mark.parametrize("on_exceed", ["stop", "delete"])
def test_runs_stop_first(state: str, on_exceed: str) -> None:
    found = measured(host(state), on_exceed=on_exceed)
    assert (found.stop, found.finishes) == ({"solo": ("lm",)}, {})


@pytest.mark.parametrize("state", ["stopped", "succeeded", "failed"])
def test_then_the_slice_ends(state: str) -> None:
    assert how(measured(host(state))) == "delete"
    assert how(measured(host(state), on_exceed="stop")) == "stop"
    [finish] = measured(host(state)).finishes.values()
    assert finish.held
    assert finish.why == "the budget of $10.00 a day is spent ($11.00)"


def test_a_slice_without_a_run_ends_at_once() -> None:
    assert how(measured(HostSeen(True, boot_id="b"))) == "delete"


def test_nothing_is_deleted_whose_checkpoint_is_not_kept() -> None:
    assert how(measured(host("stopped", "own disk"))) == "stop"
    # The worker does not say it any more, and was heard to say it before.
    known = SliceMemory(checkpoints={"lm": "own disk"})
    assert how(measured(host("stopped", ""), memory=Memory(slices={"solo": known}))) == "stop"
    pair = solo(types=("v4-16",))
    found = measured(host("stopped", "own disk"), seen=pair)
    assert how(found) == ""
    assert found.kept["solo"].startswith("checkpoints of lm are on its own disk, and the API stops")


def test_workers_that_do_not_answer_may_have_anything() -> None:
    found = measured(AWAY)
    assert (found.stop, found.finishes) == ({}, {})
    assert "not all of its workers answer" in found.kept["solo"]
    two = solo(addresses=("a -", "b -"))
    assert measured(host("stopped"), seen=two).finishes == {}
    # A playbook works on it, so it was not asked.
    assert measured() == Measures()


def test_what_costs_nothing_goes_on() -> None:
    assert measured(host("running"), cost=False) == Measures()


def test_nothing_is_created_that_would_cost() -> None:
    gone = solo("waiting", uid="", addresses=())
    [rest] = measured(seen=gone).rests.values()
    assert (rest.held, rest.done, rest.how) == (True, True, "delete")
    # The grant pays for it; it rests already; its zone does not answer.
    assert measured(seen=gone, would_cost=False).rests == {}
    assert measured(seen=solo("ended", uid="", addresses=(), rests=True)).rests == {}
    assert measured(seen=solo("unknown", uid="", addresses=())).rests == {}


def test_a_failure_is_tried_again_after_a_pause() -> None:
    later = Memory(slices={"solo": SliceMemory(rest_at=NOW + 60)})
    assert measured(host("stopped"), memory=later).finishes == {}


def test_a_stop_that_was_cut_off_is_begun_again() -> None:
    assert how(measured(host("stopped"), seen=solo(rests=True))) == "delete"


def test_what_costs() -> None:
    seen = [solo(), slice_seen("free", "ready", "t"), slice_seen("odd", "ready", "t")]
    rates = {"z/solo/t": Rate(3.0, 0.0), "z/free/t": Rate(0.0, 0.0), "z/odd/t": None}
    assert costing(seen, rates) == {"solo"}


def test_messages() -> None:
    message = spent(OVER, "delete", ["solo"], NOW)
    assert message.title == "The budget of $10.00 a day is spent"
    assert "Slices that cost: solo. The watcher stops the runs" in message.text
    assert "on_exceed is warn" in spent(OVER, "warn", [], NOW).text
    assert message.key == spent(OVER, "delete", ["solo", "pair"], NOW + 60).key
    assert "tpu-fleet slice delete solo" in goes_on("solo", "so it is", OVER, NOW).text
