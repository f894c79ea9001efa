"""`tpu-fleet logs -f` of a submitted run that waits: it says why, and waits as well."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    DONE,
    Definition,
    Signed,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Seen
from queue_fleet import OWNER, FleetInMemory, fleet_in_memory

from tpu_fleet.commands import queued, queued_wait


class Clock:
    """A sleep in which something happens, each time the next thing."""

    def __init__(self) -> None:
        self.then: list[Callable[[], object]] = []

    def sleep(self, _seconds: float) -> None:
        assert self.then, "it waits for ever"
        self.then.pop(0)()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FleetInMemory:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("ANSIBLE_INVENTORY", str(tmp_path / "none"))
    fleet = fleet_in_memory([{"name": "alice"}])
    monkeypatch.setattr(queued, "read_inventory", lambda: None)
    monkeypatch.setattr(queued, "queue_of", lambda _inventory: fleet)
    for turn, name in enumerate(("first", "second")):
        definition = Definition(name, "alice", "alice", ("x",), "jax", 1.7e9, slices=("solo",))
        text = objects.definition_text(definition)
        fleet.opened().submit(definition, Signed(text, "signature"), turn)
    return fleet


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(queued_wait.time, "sleep", clock.sleep)
    return clock


def claimed(lab: FleetInMemory) -> Seen:
    seen = lab.opened().claim_next(Serving("solo", "v4-8", 4), OWNER)
    assert seen is not None
    return seen


def test_it_waits_and_tells_each_reason_once(
    lab: FleetInMemory, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    first = claimed(lab)

    def ends() -> None:
        lab.opened().finish(first, Outcome(DONE))

    clock.then = [lambda: None, ends, lambda: claimed(lab)]
    assert queued_wait.slice_of("second", "") == "solo"
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "second waits: first in turn; v4-8 busy: solo (first).",
        "Its log follows when it begins; Ctrl-C ends this.",
        "second waits: first in turn; idle: solo.",
    ]


def test_a_run_that_has_a_slice_or_is_none_is_not_waited_for(
    lab: FleetInMemory, clock: Clock
) -> None:
    claimed(lab)
    assert queued_wait.slice_of("first", "") == "solo"
    assert queued_wait.slice_of("digits", "") == queued_wait.slice_of("unknown", "") == ""


def test_one_that_is_stopped_while_it_waits_is_waited_for_no_more(
    lab: FleetInMemory, clock: Clock
) -> None:
    clock.then = [lambda: lab.opened().stop("second", "bob")]
    assert queued_wait.slice_of("second", "") == ""


def test_it_goes_on_elsewhere_once_it_was_given_back(
    lab: FleetInMemory, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    first = claimed(lab)
    clock.then = [lambda: lab.opened().give_back(first, "solo was preempted"), lambda: claimed(lab)]
    assert queued_wait.slice_of("first", "solo") == "solo"
    assert "solo was preempted" in capsys.readouterr().err


def test_how_it_ended_is_told_after_it_was_followed(
    lab: FleetInMemory, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    first = claimed(lab)
    clock.then = [lambda: lab.opened().finish(first, Outcome("stopped", "stopped by bob"))]
    assert queued_wait.slice_of("first", "solo") == ""
    assert capsys.readouterr().err == "first is stopped: stopped by bob\n"
