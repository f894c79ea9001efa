"""What the page says is there now, and what it does not know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fleet_past
import pytest

from tpu_fleet.history import look
from tpu_fleet.history.store import GAP, History, Look
from tpu_fleet.page.model import MOST_USERS, Page, colours_of, page_of
from tpu_fleet.workers.ask.run_view import Run

NOW = 1_795_644_000.0
SLICES = [("pair", 8, "spot"), ("solo", 4, "on_demand")]


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    one = History(tmp_path / "history.db")
    yield one
    one.close()


def run_of(name: str, state: str = "running", **more: Any) -> Run:
    told = {"run": "digits", "user": "alice", "state": state, "attempt": 1, "worker": 0, **more}
    return Run(f"{name}-w0", name, 0, state, fleet_past.status_of(told), NOW)


def saw(history: History, at: float, names: tuple[str, ...], asked: tuple[str, ...]) -> None:
    """Look at the API, which has these slices, and at the workers of some of them."""
    found = Look(at)
    slices = [one for one in SLICES if one[0] in names]
    look.of_view(found, fleet_past.view_at(at, slices, set()))
    if asked:
        look.of_workers(found, {(name, f"{name}-w0"): "" for name in asked})
        look.of_runs(found, [run_of(name) for name in asked])
    history.add(found)


def shown(history: History, at: float = NOW) -> Page:
    return page_of(history, "p", at)


def test_workers_that_the_last_look_did_not_ask_are_there(history: History) -> None:
    saw(history, NOW - 300, ("pair", "solo"), ("pair", "solo"))
    saw(history, NOW, ("pair", "solo"), ("pair",))
    page = shown(history)
    assert [one.name for one in page.workers] == ["pair-w0", "solo-w0"]
    assert [card.there for card in page.runs] == [True, True]


def test_what_a_lost_slice_had_is_of_the_past(history: History) -> None:
    saw(history, NOW - 60, ("pair", "solo"), ("pair", "solo"))
    saw(history, NOW, ("solo",), ())
    page = shown(history)
    assert [row.name for row in page.slices] == ["solo"]
    assert [one.name for one in page.workers] == ["solo-w0"]
    assert {card.story.slice: card.there for card in page.runs} == {"pair": False, "solo": True}


def test_an_empty_queue_is_empty(history: History) -> None:
    saw(history, NOW - 10, ("pair",), ())
    assert len(shown(history).requests) == 1
    found = Look(NOW)
    view = fleet_past.view_at(NOW, SLICES, set())
    view.queued.clear()
    look.of_view(found, view)
    history.add(found)
    assert shown(history).requests == []


def test_a_user_keeps_its_colour_whatever_it_uses() -> None:
    users = ["carol", "alice", "bob"]
    found = colours_of(users)
    assert len(set(found.values())) == 3
    assert colours_of(reversed(users)) == found
    assert colours_of(users[:1])["carol"] == colours_of(["carol", "zoe"])["carol"]
    assert len(set(colours_of(f"user{number}" for number in range(MOST_USERS)).values())) == 5


def test_the_colours_of_the_days_are_those_of_the_names(tmp_path: Path) -> None:
    made = fleet_past.made(tmp_path / "made.db", NOW, days=0.5)
    page = shown(made)
    made.close()
    assert page.colours == colours_of(page.users)
    assert len(page.users) > 1
    shares = [kind for kind, _hours in page.use[-1].parts]
    assert shares[: len(page.users)] == [page.colours[user] for user in page.users]
    for card in page.runs:
        assert card.axis.begun == card.story.attempts[0].begun


def test_slices_and_workers_are_in_the_order_of_their_numbers(history: History) -> None:
    found = Look(NOW)
    names = ("s10", "s9", "s100")
    look.of_view(found, fleet_past.view_at(NOW, [(name, 4, "spot") for name in names], set()))
    look.of_workers(found, {(name, f"{name}-w{at}"): "" for name in names for at in (10, 9)})
    history.add(found)
    page = shown(history)
    assert [row.name for row in page.slices] == ["s9", "s10", "s100"]
    workers = [f"{name}-w{at}" for name in ("s9", "s10", "s100") for at in (9, 10)]
    assert [one.name for one in page.workers] == workers


def test_a_zone_that_does_not_answer_is_unknown_and_not_empty(history: History) -> None:
    saw(history, NOW - 60, ("pair",), ("pair",))
    found = Look(NOW)
    view = fleet_past.view_at(NOW, [], set())
    view.unreachable_zones.append(fleet_past.ZONE)
    look.of_view(found, view)
    history.add(found)
    assert [row.name for row in shown(history).slices] == ["pair"]


def test_a_run_that_nobody_has_seen_for_long_goes_on_in_no_picture(history: History) -> None:
    saw(history, NOW - 10 * GAP, ("pair",), ("pair",))
    saw(history, NOW - 9.5 * GAP, ("pair",), ("pair",))
    (card,) = shown(history).runs
    assert card.story.until == NOW - 9.5 * GAP
    assert card.span == GAP / 2


def test_a_slice_that_is_wanted_and_not_there_needs_attention(history: History) -> None:
    saw(history, NOW, ("pair",), ("pair",))
    told: dict[str, Any] = {"phase": "waiting", "text": "no capacity in us-central2-b"}
    history.add(Look(NOW, facts={"slices": {"solo": told}}))
    page = shown(history)
    assert [(row.name, row.state) for row in page.slices] == [
        ("solo", "waiting"),
        ("pair", "ready"),
    ]
    (need,) = [one for one in page.needs if one.name == "solo"]
    assert (need.state, need.text, need.anchor) == (
        "waiting",
        "no capacity in us-central2-b",
        "slice/solo",
    )


def test_chips_are_idle_after_ten_minutes_without_a_run(history: History) -> None:
    for at in (NOW - 1200, NOW - 700, NOW):
        found = Look(at)
        look.of_view(found, fleet_past.view_at(at, SLICES, set()))
        states = {"pair": "running", "solo": "running" if at == NOW - 1200 else "succeeded"}
        look.of_runs(found, [run_of(name, state) for name, state in states.items()])
        history.add(found)
        before = [one for one in shown(history, at).needs if one.state == "idle"]
        assert len(before) == (at == NOW)
    (need,) = before
    assert (need.name, need.since, need.bad) == ("solo", NOW - 700, False)
    assert need.text == (
        "4 of 12 chips have no running run: $12.88 an hour by list price, $1.60 of it billed"
    )
    tile = next(one for one in shown(history).tiles if one.label == "Chips")
    assert tile.value == "8 of 12 busy"


def test_a_run_that_makes_no_step_is_looked_into(history: History) -> None:
    found = Look(NOW)
    look.of_view(found, fleet_past.view_at(NOW, SLICES, set()))
    steps = {"first_step": 0, "first_step_at": NOW - 900, "step": 60, "step_at": NOW - 840}
    look.of_runs(found, [run_of("pair", **steps), run_of("solo")])
    history.add(found)
    (need,) = [one for one in shown(history).needs if one.state == "no step"]
    assert need.command == "tpu-fleet why digits --slice pair"
    assert need.text.startswith("no step for 14 min")
    assert need.since == NOW - 840


def test_of_a_run_that_hung_the_agents_notes_are_judged(history: History) -> None:
    found = Look(NOW)
    look.of_view(found, fleet_past.view_at(NOW, SLICES, set()))
    hung = run_of("pair", "failed", reason="hung: worker 1 has given no sign of life for 20 s")
    look.of_runs(found, [hung, run_of("solo")])
    history.add(found)
    (need,) = [one for one in shown(history).needs if one.state == "failed"]
    assert need.command == "tpu-fleet why digits --slice pair --hang"


def test_a_command_names_the_slice_where_two_have_a_run_of_that_name(history: History) -> None:
    found = Look(NOW)
    look.of_view(found, fleet_past.view_at(NOW, SLICES, set()))
    look.of_runs(found, [run_of("pair", "failed"), run_of("solo")])
    history.add(found)
    (need,) = [one for one in shown(history).needs if one.state == "failed"]
    assert need.command == "tpu-fleet logs digits --slice pair"
    assert need.anchor == "run-pair/digits"
    assert shown(history).trouble == "1 failed"
