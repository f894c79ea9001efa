"""What a look keeps."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import run_status

from tpu_fleet.history import look
from tpu_fleet.history.look import MOST_RUNS
from tpu_fleet.history.store import Look
from tpu_fleet.workers.ask.run_view import Run


def seen(worker: int = 0, state: str = "running", run: str = "digits", **more: Any) -> Run:
    told = {"run": run, "user": "alice", "state": state, "attempt": 2, "worker": worker, **more}
    return Run(f"pair-w{worker}", "pair", worker, state, run_status(Words("w", told)), 100.0)


def looked(*runs: Run) -> Look:
    found = Look(100.0)
    look.of_runs(found, runs)
    return found


def test_the_worker_with_the_worst_news_of_the_newest_attempt_speaks() -> None:
    found = looked(seen(0), seen(1, "restarting"), seen(2, "failed", attempt=1))
    assert found.spans["run"]["pair/digits"]["state"] == "restarting"


def test_a_worker_that_invents_runs_is_cut_short() -> None:
    found = looked(*(seen(run=f"r{number}") for number in range(900)))
    assert len(found.spans["run"]) == MOST_RUNS


def test_progress_becomes_points_and_everything_else_events() -> None:
    past = {
        "events": [
            {"at": 50.0, "event": "progress", "attempt": 2, "step": 7, "numbers": {"loss": 0.5}},
            {"at": 60.0, "event": "peer-lost", "attempt": 2, "peer": 1},
        ],
        "curves": {"train/loss": [[55.0, 8, 0.4]]},
        "place": {"events": ["i", 9, 1], "files": {}},
    }
    found = looked(seen(past=past, step=9, step_at=99.0, saved_at=40.0))
    points = [(point.name, point.at, point.step, point.value) for point in found.points]
    assert points == [
        ("step", 99.0, 9, 9.0), ("step", 50.0, 7, 7.0), ("loss", 50.0, 7, 0.5),
        ("train/loss", 55.0, 8, 0.4),
    ]  # fmt: skip
    assert [(event.name, event.detail) for event in found.events] == [("peer-lost", {"peer": 1})]
    assert found.facts["run:pair/digits"]["saved_at"] == 40.0
    places = look.places_of({"pair-w0/digits": (1.0, found.facts["place:pair-w0/digits"])})
    assert places == {"pair-w0": {"digits": past["place"]}}


@pytest.mark.parametrize(
    ("told", "kept"),
    [((None, None), None), ((0.0, None), 0.0), ((None, 7.0), 7.0), ((9.0, 0.0), 9.0)],
)
def test_the_newest_checkpoint_of_any_worker_counts(
    told: tuple[float | None, ...], kept: float | None
) -> None:
    found = looked(*(seen(worker, saved_at=at) for worker, at in enumerate(told)))
    assert found.facts["run:pair/digits"]["saved_at"] == kept


SPOILT: list[Any] = [
    None, 5, "x", [], [[1, 2]], {"a": 1}, float("nan"), float("inf"), True, 10**400, "\x1b[2J",
]  # fmt: skip


@pytest.mark.parametrize("spoilt", SPOILT, ids=repr)
@pytest.mark.parametrize(
    "where", ["past", "events", "event", "at", "attempt", "detail", "numbers", "curves", "point",
              "value"]
)  # fmt: skip
def test_what_a_user_has_spoilt_is_left_out(where: str, spoilt: Any) -> None:
    event: dict[str, Any] = {"at": 1.0, "event": "hang", "attempt": 1, "what": "x"}
    past: Any = {"events": [event], "curves": {"loss": [[1.0, 2, 3.0]]}}
    if where == "past":
        past = spoilt
    elif where in ("events", "curves"):
        past[where] = spoilt
    elif where == "point":
        past["curves"] = {"loss": [spoilt]}
    elif where == "value":
        past["curves"] = {"loss": [[1.0, 2, spoilt]]}
    elif where == "event":
        past["events"] = [spoilt]
    else:
        event["what" if where == "detail" else where] = spoilt
    found = looked(seen(past=past))
    for point in found.points:
        assert isinstance(point.step, int)
        assert isinstance(point.value, float)
    for one in found.events:
        assert one.name == "hang"
        assert "\x1b" not in str(one.detail)
