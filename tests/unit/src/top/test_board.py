"""What stands on the screen, whatever workers and people call their things."""

from __future__ import annotations

from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Ending
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    Definition,
    of_definition,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Listing
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Seen as queue_seen
from fleet_seen import Seen, answer, lab, view
from hostile import controls, texts
from queue_fleet import fleet_in_memory
from rich.cells import cell_len

from tpu_fleet.commands.status import Row
from tpu_fleet.queue.glance import Glance
from tpu_fleet.queue.view import view_of
from tpu_fleet.top.board import HELP, PAGES, Board, details
from tpu_fleet.top.command import text_of
from tpu_fleet.top.lines import Now
from tpu_fleet.workers.ask.run_follow import Heard
from tpu_fleet.workers.ask.run_view import Run

VIEWS = ("runs", "slices", "workers", "grant", "queue")
HOSTILE = texts(Path("/canary"))
SIZES = ((80, 24), (200, 60), (30, 8))


def board(now: Now, name: str = "slices", size: tuple[int, int] = (80, 24)) -> Board:
    """Return a board of a size that knows something."""
    made = Board()
    made.resize(*size)
    made.update(now)
    made.show(name)
    return made


def drawn(made: Board) -> list[str]:
    """Return the lines of the screen."""
    return ["".join(text for text, _style in line) for line in made.draw()]


def spoilt(text: str) -> Now:
    """Return a fleet in which every text is this one."""
    now = lab().now()

    def run(one: Run) -> Run:
        status = one.status
        named: dict[str, Any] = {
            f.name: text for f in fields(status) if isinstance(getattr(status, f.name), str)
        }
        named |= {"problems": (text, text), "loss": text, "ending": Ending(text, (text, text))}
        named["loss_trouble"] = {"what": text, "step": 7, "at": 5.0}
        return replace(one, slice=text, state=text, status=replace(status, **named))

    def heard(one: Heard) -> Heard:
        disk = one.disk and replace(one.disk, point=text)
        return Heard(one.at, tuple(map(run, one.runs)), disk, text if one.says else "")

    def row(one: Row) -> Row:
        named: dict[str, Any] = {
            f.name: text for f in fields(one) if isinstance(getattr(one, f.name), str)
        }
        return replace(one, **{**named, "host": one.host, "problem": text if one.problem else ""})

    queued = dict.fromkeys(("name", "zone", "tier", "reason", "create_time", "valid_until"), text)
    nodes = [{**node, "name": text, "zone": text, "tier": text} for node in now.view.nodes]
    entry = {**now.view.grant["allocations"][0], "zone": text, "tier": text, "last_day": text}
    facts = replace(
        now.view,
        nodes=nodes,
        queued=[{**queued, "api": "tpu", "ours": False, "accelerator_types": [text]}],
        grant={**now.view.grant, "allocations": [entry]},
        warnings=[text],
    )
    answers = {name: heard(one) for name, one in now.heard.items()}
    return replace(
        now, rows=[row(one) for one in now.rows], heard=answers, view=facts, problems=(text,)
    )


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_hostile_text_is_shown_as_text(number: int) -> None:
    now = spoilt(HOSTILE[number])
    for name, size in product(VIEWS, SIZES):
        made = board(now, name, size)
        lines = drawn(made)
        assert controls("".join(lines), allowed="") == []
        assert [cell_len(line) for line in lines] == [size[0]] * size[1]
        if made.selected:
            made.open(details(made.selected, now))
            page = drawn(made)
            assert controls("".join(page), allowed="") == []
            assert [cell_len(line) for line in page] == [size[0]] * size[1]
    assert controls("".join(text_of(now, 160)), allowed="") == []


def test_hostile_text_is_not_left_out() -> None:
    lines = drawn(board(spoilt("\x1b]0;evil\x07\u202etxt"), size=(160, 50)))
    assert "\ufffd]0;evil\ufffd\ufffdtxt" in "\n".join(lines)


def test_a_filter_of_hostile_text_changes_nothing_else() -> None:
    made = board(lab().now())
    made.typing = True
    made.narrow("[/red]\x1b[31m")
    assert controls("".join(drawn(made)), allowed="") == []
    made.leave()
    assert len(made.lines) == 5


@pytest.mark.parametrize("width", range(1, 200, 7))
@pytest.mark.parametrize("name", VIEWS)
def test_every_width(name: str, width: int) -> None:
    lines = drawn(board(lab().now(), name, (width, 24)))
    assert [cell_len(line) for line in lines] == [width] * 24


def test_who_is_behind_speaks_for_the_slice() -> None:
    by_name = {line.name: line for line in board(lab().now()).lines}
    assert (by_name["pair"].view.step, by_name["pair"].view.loss) == (1200, 0.1234)
    assert by_name["words"].state == "no answer 1/4"
    assert by_name["words"].why == "unreachable: the connection was lost; evaluate is pending"
    assert by_name["spare"].state == "idle"


def test_ages_go_on_between_answers() -> None:
    now = lab().now()
    later = replace(now, at=now.at + 60)
    assert board(now).lines[-1].view.saved_age == 756
    assert board(later).lines[-1].view.saved_age == 816


def test_before_the_api_has_answered() -> None:
    now = replace(lab().now(), view=view([]), api_at=None, heard={})
    made = board(now)
    assert [line.state for line in made.lines if line.name != "gone"] == ["asking"] * 4
    assert drawn(made)[3].startswith("Asking the API")


def test_help_fits_into_the_smallest_terminal() -> None:
    assert len(HELP.strip("\n").split("\n")) < 24
    assert max(map(len, HELP.split("\n"))) <= 80


def test_another_answer_of_the_api_is_drawn() -> None:
    made = board(lab().now(), "grant")
    assert "40 of 80 chips" in "\n".join(drawn(made))
    made.update(replace(lab().now(), view=view(["only"])))
    assert "8 of 16 chips" in "\n".join(drawn(made))
    made.resize(30, 10)
    assert [cell_len(line) for line in drawn(made)] == [30] * 10


def test_what_waits_in_the_queue_is_drawn_with_its_reason() -> None:
    now = lab().now()
    assert "queue" not in drawn(board(now))[1]
    assert drawn(board(now, "queue"))[0].startswith("The fleet file has no fleet_queue")
    listing = Listing()
    for number, name in enumerate(("lr-1", "lr-2")):
        definition = Definition(name, "alice", "alice", ("x",), "jax", 1.7e9)
        listing.runs[name] = queue_seen(of_definition(definition, number, "0" * 32, 1.7e9), 1, 1)
    queue = Glance(view_of(fleet_in_memory([{"name": "alice"}]), listing, 1.7e9 + 60))
    made = board(replace(now, queue=queue), "queue")
    lines = drawn(made)
    assert lines[0].split()[:3] == ["#", "RUN", "STATE"]
    assert "lr-2  waiting  alice" in lines[2]
    assert "second in turn" in "".join(lines)
    made.show("runs")
    assert "| queue 2 |" in drawn(made)[1]
    made.resize(30, 10)
    assert [cell_len(line) for line in drawn(made)] == [30] * 10


@pytest.mark.parametrize(
    ("last_day", "says"), [(None, "chips, no end"), ("2026-12-24", "chips until 2026-12-24 (29 ")]
)
def test_the_head_says_when_the_grant_ends(last_day: str | None, says: str) -> None:
    now = lab().now()
    assert now.view.grant
    entry = {**now.view.grant["allocations"][0], "last_day": last_day}
    grant = {**now.view.grant, "allocations": [entry]}
    made = board(replace(now, view=view(["only"], grant=grant)), size=(160, 24))
    assert says in drawn(made)[2]


def test_an_old_answer_is_called_old() -> None:
    now = lab().now()
    assert drawn(board(now))[3].startswith("SLICE")
    old = drawn(board(replace(now, at=now.at + 600)))
    assert old[3].strip() == "The API last answered 10 min ago"


def test_an_empty_fleet() -> None:
    now = Now([], {}, view([]), 0.0)
    for name in VIEWS:
        made = board(now, name)
        made.go(1)
        assert len(drawn(made)) == 24
        assert made.near() == set()
        if name not in PAGES:
            assert "Nothing is created yet: tpu-fleet apply" in "".join(drawn(made))


def test_a_run_of_several_on_a_slice() -> None:
    seen = Seen(
        {"solo": 1},
        {
            "solo": answer(
                {"run": "old", "state": "failed"},
                {"run": "now"},
                {"run": "next", "state": "pending", "queue": {"behind": "now", "user": "bob"}},
            )
        },
    )
    made = board(seen.now())
    assert [(line.run, line.state, line.why) for line in made.lines] == [
        ("old", "failed", "now is running, next is pending")
    ]
    made.show("runs")
    assert [line.name for line in made.lines] == ["old", "next", "now"]
    assert made.lines[1].why == "waits for now of bob"
