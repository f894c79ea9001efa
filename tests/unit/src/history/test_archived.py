"""The history has what machines that are gone have written last."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from archives import FIRST, SECOND, archives, events, log, part
from object_server import Objects, serving

from tpu_fleet.history.archived import keep
from tpu_fleet.history.store import History, Look

NOW = 1_790_000_000.0
BEGUN = {"event": "attempt-started", "at": NOW - 60, "attempt": 2, "worker": 0}


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Objects]:
    monkeypatch.setattr("tpu_fleet.history.archived.time.time", lambda: NOW)
    with serving(Objects()) as objects:
        part(objects, FIRST, 0, events(BEGUN), log(0, "one\n"), at=NOW - 30)
        yield objects


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    kept = History(tmp_path / "history.db")
    yield kept
    kept.close()


def reads(lab: Objects) -> int:
    return sum("/o/" in path for _method, path in lab.requests)


def test_events_and_steps_are_kept_and_read_once(lab: Objects, history: History) -> None:
    said: list[str] = []
    keep(history, said.append, archives(lab))
    (event,) = history.events()
    assert (event.slice, event.run, event.name, event.attempt) == (
        "solo", "digits", "attempt-started", 2,
    )  # fmt: skip
    assert reads(lab) == 1
    keep(history, said.append, archives(lab))
    assert (reads(lab), len(history.events()), said) == (1, 1, [])
    progress = {"event": "progress", "at": NOW - 20, "step": 7, "numbers": {"loss": 0.5}}
    part(lab, FIRST, 1, events(BEGUN, progress), at=NOW - 10)
    keep(history, said.append, archives(lab))
    assert len(history.events()) == 1


def test_what_a_look_at_the_machine_has_seen_is_not_read(lab: Objects, history: History) -> None:
    history.add(Look(NOW - 5, facts={"place:solo/digits": {}}))
    keep(history, lambda text: None, archives(lab))
    assert (reads(lab), history.events()) == (0, [])


def test_what_a_machine_wrote_last_is_read_though_its_successor_was_seen(
    lab: Objects, history: History
) -> None:
    ended = {"event": "attempt-ended", "at": NOW - 40, "attempt": 2, "worker": 0}
    part(lab, FIRST, 0, events(BEGUN, ended), at=NOW - 30)
    part(lab, SECOND, 0, events({**BEGUN, "at": NOW - 9, "attempt": 3}), at=NOW - 8)
    history.add(Look(NOW - 5, facts={"place:solo/digits": {}}))
    for _again in range(2):
        keep(history, lambda text: None, archives(lab))
        assert [one.name for one in history.events()] == ["attempt-started", "attempt-ended"]
    assert reads(lab) == 1


def test_a_bucket_that_refuses_is_reported(lab: Objects, history: History) -> None:
    found = archives(lab)
    lab.refusal = (403, "no access")
    said: list[str] = []
    keep(history, said.append, found)
    assert len(said) == 1
    assert said[0].startswith("The archive of digits is not read: ")
