"""The order and the reasons in which `runs --queue` shows what is in the queue."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    DONE,
    FAILED,
    RUNNING,
    Doing,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.saying import Said
from queue_fleet import AT, OWNER, fleet_in_memory
from queue_fleet import submitted_run as run
from queue_fleet import view_with as seen

from tpu_fleet.queue.view import GOOD_FOR, MOST_ENDED, fresh, left_out, table_of


def test_what_runs_is_first_then_what_waits_then_what_ended_last() -> None:
    view = seen(
        run("old", state=DONE, ended_at=AT + 10),
        run("held", 1, after=("gone",)),
        run("second", 3),
        run("new", state=FAILED, ended_at=AT + 20, reason="exit 1: boom", exit_code=1),
        run("first", 2),
        run("now", state=RUNNING, owner=OWNER, started_at=AT, last="solo"),
    )
    names = ["now", "first", "second", "held", "new", "old"]
    assert [one.name for one in view.in_order()] == names
    told = {one["run"]: one for one in view.to_dict()["runs"]}
    assert [told[name]["position"] for name in names] == [None, 1, 2, 0, None, None]
    assert told["held"]["why"] == "waits for gone, which is not in the queue"
    assert told["new"]["why"] == "exit 1: boom"
    assert (told["now"]["slice"], told["now"]["why"]) == ("solo", None)
    rows = table_of(view).rows
    assert [row.cells[0] for row in rows] == ["-", "1", "2", "-", "-", "-"]
    assert [row.cells[6] for row in rows] == ["1 min", "1 min", "1 min", "1 min", "40 s", "50 s"]
    assert rows[4].style == "red"


def test_of_many_ended_runs_the_latest_are_shown() -> None:
    ended = [run(f"r{n}", state=DONE, ended_at=AT + n) for n in range(MOST_ENDED + 3)]
    view = seen(run("waits"), *ended)
    rows = table_of(view).rows
    assert len(rows) == MOST_ENDED + 1
    assert rows[1].cells[1] == f"r{MOST_ENDED + 2}"
    assert left_out(view).startswith("3 more runs ended before: ")
    assert left_out(seen(run("waits"))) == ""


def test_what_a_slice_builds_or_could_not_build_for_a_run_is_its_reason() -> None:
    names = [one.name for one in fleet_in_memory([{"name": "alice"}]).serving()]
    doing = [Doing(names[0], "builds venv jax", AT + 20, AT + 55, "first", "jax")]
    view = seen(run("first"), run("second", 1), doing=doing)
    assert view.why(view.runs[0]) == f"first in turn; {names[0]} builds venv jax, 40 s so far"
    assert f"{names[0]} (builds venv jax, 40 s so far)" in view.why(view.runs[1]) or names[1:]
    failed = Doing(names[0], "build of venv jax failed on pair-w1: no index", AT, AT + 55, "first")
    view = seen(run("first"), run("second", 1), doing=[failed])
    assert view.why(view.runs[0]).endswith("; build of venv jax failed on pair-w1: no index")
    assert "build of" not in view.why(view.runs[1])


def test_what_a_slice_has_not_said_lately_is_not_shown() -> None:
    said = {
        name: Said(Doing(name, why, 1.0, at), 1)
        for name, why, at in (("a", "builds", AT), ("b", "", AT), ("c", "builds", AT - GOOD_FOR))
    }
    assert [one.slice for one in fresh(said, AT)] == ["a"]
