"""Tables at the widths of terminals, and where there is none."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from tpu_fleet.commands import doctor, history, runs, status, tunnel
from tpu_fleet.history.story import RunStory
from tpu_fleet.show import fleet
from tpu_fleet.show.console import PlainConsole
from tpu_fleet.show.table import Column, Table, fitting, folds, print_tables
from tpu_fleet.workers.ask.run_view import RunView
from tpu_fleet.workers.inventory.fleet_facts import FleetView

NAN = {"what": "nan", "step": 121, "at": 7.0, "saved_step": 100}
WHY = "4 failures in 1 h, the last: worker 0: exit code 1: RESOURCE_EXHAUSTED: Attempting to "
WHY += "allocate 12.50G. There are 3.91G free."
RUN = RunView(
    "digits-pair",
    "pair",
    "bob",
    "running",
    alike=2,
    attempt=4,
    step=28_980,
    furthest=29_000,
    loss=1.2e-7,
    saved_age=15.0,
    age=1200.0,
    hosts=("pair-w0", "pair-w1"),
)
RUNS = [
    RUN,
    replace(RUN, run="short", slice="bench", user="alice", state="succeeded"),
    replace(RUN, run="lm-nan", slice="cheap", user="carol", loss="nan", loss_trouble=NAN),
    replace(RUN, run="lm-oom", slice="bench", state="failed", loss=8.638, reasons=(WHY,)),
]
PLACE = ("v4-16", "us-central2-b", "on_demand", "READY", "10.101.128.12", "10.101.0.13")
ROWS = [
    status.Row("pair-w0", "pair", *PLACE),
    status.Row("cheap", "cheap", *PLACE, problem="is under maintenance and comes back (chip 2)"),
]
NODE: dict[str, Any] = {
    "name": "digits-of-the-lab",
    "zone": "us-central2-b",
    "api": "tpu",
    "accelerator_type": "v4-16",
    "tier": "on_demand",
    "chips": 8,
    "ours": False,
    "usd_per_hour": 25.76,
    "usd_per_hour_billed": 12.88,
    "usd_so_far": 1234.5,
}
QUEUED: dict[str, Any] = {
    "name": "big",
    "zone": "us-central2-b",
    "api": "tpu",
    "tier": "spot",
    "reason": "waits for capacity",
    "accelerator_types": ["v4-64"],
    "create_time": "2026-06-01T00:00:00Z",
    "valid_until": "2026-06-02T00:00:00Z",
    "ours": True,
}
ENTRY = {
    "zone": "us-central2-b",
    "api": "tpu",
    "generation": "v4",
    "accelerator_type": None,
    "tier": "on_demand",
    "chips": 32,
    "used": 4,
    "last_day": "2026-12-20",
    "days_left": 22,
    "over": False,
}
VIEW = FleetView(
    nodes=[NODE],
    queued=[QUEUED],
    grant={"unrestricted": False, "declared": True, "allocations": [ENTRY]},
    prices={"date": "2026-11-21"},
)
FOUND = {
    "status": "fail",
    **{"host": "bench", "hosts": ["bench"]},
    "check": "run",
    "subject": "lm-oom",
    "says": WHY,
    "remedy": "tpu-fleet logs lm-oom; then on worker 0: sudo tpu-fleet-run again",
}
STORY = RunStory("a-slice-of-the-lab", "digits-pair-large", "carol", "restarting")
SERVED = tunnel.Served(
    *("notebook-alice", "pair-w0", "alice", 8888, "notebook", "JupyterLab of alice", "/"),
    *(True, "", ""),
)
TABLES = {
    "runs": runs.table_of(RUNS),
    "workers": status.fleet_table(ROWS),
    "grant": fleet.grant_table(VIEW),
    "costs": fleet.costs_table(VIEW),
    "queue": fleet.requests_table(VIEW),
    "doctor": doctor.table_of({"rows": [FOUND]}, everything=False),
    "history": history.runs_table([STORY]),
    "tunnel": tunnel.table_of([SERVED]),
}
every_table = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


def at(table: Table, width: int | None) -> list[str]:
    return [line.plain for line in table.lines(width)]


def words_of(table: Table) -> set[str]:
    """Return all words of a table that is as wide as it wants."""
    return set(" ".join(at(table, None)).split())


@every_table
@pytest.mark.parametrize("width", [60, 80, 100, 160])
def test_lines_fit_and_no_word_is_broken(table: Table, width: int) -> None:
    lines = at(table, width)
    assert max(map(cell_len, lines)) <= width
    told = re.sub(r"Not shown at [^.]*\.", "", " ".join(lines))
    assert set(told.split()) <= words_of(table)


@every_table
def test_what_is_not_shown_is_named(table: Table) -> None:
    shown, whole = at(table, 60), at(table, None)
    head = whole[1 if table.title else 0]
    missing = {c.title for c in table.columns if c.title in head} - {
        c.title for c in table.columns if c.title in " ".join(shown)
    }
    named = re.search(r"Not shown at 60 columns: ([^.]*)\.", " ".join(shown))
    assert {name.upper() for name in (named[1].split(", ") if named else [])} == missing


@every_table
def test_a_row_is_one_line_where_there_is_no_terminal(table: Table) -> None:
    extra = bool(table.title) + bool(table.caption)
    assert len(at(table, None)) == 1 + extra + len(table.rows)


def test_each_table_has_its_texts_at_eighty_columns() -> None:
    for table in TABLES.values():
        told = " ".join(" ".join(at(table, 80)).split())
        for row in table.rows:
            assert all(note in told for note in row.notes)


def test_runs_in_trouble_stand_first_and_red() -> None:
    lines = [line for line in runs.table_of(RUNS).lines(80) if line.style not in ("bold", "dim")]
    rows = [(line.plain.split()[0], line.style) for line in lines if line.plain[0] != " "]
    assert rows == [("lm-oom", "red"), ("lm-nan", "red"), ("digits-pair", ""), ("short", "")]
    assert next(iter(status.fleet_table(ROWS).rows)).style == "red"


def test_numbers_stand_at_the_right_under_their_title() -> None:
    table = Table([Column("NAME"), Column("STEP", right=True)])
    table.add("a", "7")
    table.add("b", "1234567")
    assert at(table, 80) == ["NAME     STEP", "a           7", "b     1234567"]


def test_the_least_important_columns_go_first() -> None:
    assert fitting([8, 4, 9], 24, 1) == 3
    assert fitting([8, 4, 9], 23, 1) == 2
    assert fitting([8, 30, 1], 20, 1) == 1
    table = Table([Column("A"), Column("SECOND", 2), Column("FIRST", 1)])
    table.add("x", "s" * 20, "f" * 20)
    assert at(table, 45)[0].split() == ["A", "SECOND", "FIRST"]
    assert at(table, 44)[0].split() == ["A", "FIRST"]
    assert at(table, 44)[-1] == "Not shown at 44 columns: second."


def test_a_terminal_too_narrow_folds_what_must_be_shown() -> None:
    table = Table([Column("NAME"), Column("STATE")])
    table.add("two words " * 4, "running")
    assert at(table, 24) == [
        "NAME             STATE",
        "two words two    running",
        "words two words",
        "two words",
    ]


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 9, ["short"]),
        ("two words", 5, ["two", "words"]),
        ("abcdefghij", 4, ["abcd", "efgh", "ij"]),
        ("\u65e5\u672c\u8a9e", 4, ["\u65e5\u672c", "\u8a9e"]),
    ],
)
def test_texts_are_folded_between_words(text: str, width: int, lines: list[str]) -> None:
    assert folds(text, width) == lines


def test_texts_of_workers_do_not_steer_the_terminal() -> None:
    table = Table([Column("NAME")], note="WHY")
    table.add("a\nb\x1b[2J", notes=["c\r\nd\x07"])
    assert at(table, 80) == ["NAME  WHY", "a b   c  d\ufffd"]


@pytest.mark.parametrize("no_color", [False, True])
def test_colours_are_for_terminals_that_want_them(
    no_color: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", "1")
    console = PlainConsole(force_terminal=True, width=80, color_system="standard")
    with console.capture() as captured:
        print_tables(console, runs.table_of(RUNS), fleet.grant_table(VIEW))
    said = captured.get()
    assert ("\x1b[31m" in said) is not no_color
    assert "\n\n" in re.sub(r"\x1b\[[0-9;]*m", "", said)
