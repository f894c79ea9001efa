"""The history's file: intervals, two writers, crashes, schemas, limits."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpu_fleet.history import store
from tpu_fleet.history.store import GAP, SCHEMA, Event, History, HistoryError, Look, Point

NOW = 1_795_644_000.0
READY, LOST = {"state": "ready"}, {"state": "preempted"}


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    one = History(tmp_path / "history.db")
    yield one
    one.close()


def saw(history: History, at: float, **nodes: dict[str, str]) -> None:
    history.add(Look(at, spans={"node": dict(nodes)}))


def spans(history: History) -> list[tuple[str, str, float, float]]:
    return [(s.name, s.value["state"], s.begun - NOW, s.seen - NOW) for s in history.spans("node")]


def test_a_thousand_looks_that_see_the_same_are_one_interval(history: History) -> None:
    for second in range(0, 10_000, 10):
        saw(history, NOW + second, pair=READY)
    assert spans(history) == [("pair", "ready", 0.0, 9990.0)]


def test_another_state_ends_the_interval(history: History) -> None:
    for at, state in ((0, READY), (10, READY), (20, LOST), (30, READY)):
        saw(history, NOW + at, pair=state)
    assert spans(history) == [
        ("pair", "ready", 0, 20), ("pair", "preempted", 20, 30), ("pair", "ready", 30, 30),
    ]  # fmt: skip


def test_what_nobody_saw_is_not_known(history: History) -> None:
    saw(history, NOW, pair=READY)
    saw(history, NOW + GAP + 1, pair=READY)
    assert spans(history) == [("pair", "ready", 0, 0), ("pair", "ready", GAP + 1, GAP + 1)]


def test_a_kind_that_was_not_asked_for_goes_on(history: History) -> None:
    saw(history, NOW, pair=READY)
    history.add(Look(NOW + 10, spans={"run": {"pair/digits": {"state": "running"}}}))
    saw(history, NOW + 20, pair=READY)
    assert spans(history) == [("pair", "ready", 0, 20)]


def test_a_clock_that_goes_back_makes_nothing_shorter(history: History) -> None:
    saw(history, NOW + 100, pair=READY)
    saw(history, NOW, pair=READY)
    assert spans(history) == [("pair", "ready", 100, 100)]


def test_events_and_points_are_kept_once(history: History) -> None:
    event = Event(NOW, "pair", "digits", 1, "peer-lost", 3, {"peer": 2})
    point = Point("pair", "digits", "loss", NOW, 100, 0.5)
    for _time in range(3):
        history.add(Look(NOW, events=[event], points=[point]))
    assert history.events() == [event]
    assert history.events()[0].detail == {"peer": 2}
    assert history.curves(0.0, NOW, 100) == {("pair", "digits"): {"loss": [point]}}


def test_a_fact_is_the_newest(history: History) -> None:
    for at, body in ((NOW, "a"), (NOW + 5, "b"), (NOW - 5, "old")):
        history.add(Look(at, facts={"run:pair/digits": body}))
    assert history.facts("run:") == {"pair/digits": (NOW + 5, "b")}


WRITER = f"""
import sys
from pathlib import Path
from tpu_fleet.history.store import *
history = History(Path(sys.argv[1]))
print("ready", flush=True)
for number in range(int(sys.argv[3])):
    at = {NOW} + number
    events = [Event(at, "pair", sys.argv[2], 0, "hang", number, {{"text": "x" * 500}})]
    history.add(Look(at, spans={{"node": {{"pair": {{"state": "ready"}}}}}}, events=events))
"""


def writer(path: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, env={**os.environ})


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    both = [writer(path, name, 150) for name in ("watcher", "person")]
    assert [one.wait(600) for one in both] == [0, 0]
    history = History(path)
    assert len(history.events()) == 300
    assert len(history.spans("node")) == 1
    history.close()
    for one in both:
        assert one.stdout
        one.stdout.close()


class Refusing:
    """A connection to a file that another process begins: SQLite refuses the first change."""

    def __init__(self, code: int) -> None:
        self.done: list[str] = []
        self.code = code

    def execute(self, statement: str) -> None:
        self.done.append(statement)
        if len(self.done) < 3:
            error = sqlite3.OperationalError("refused")
            error.sqlite_errorcode = self.code
            raise error


def test_one_of_two_that_begin_a_file_tries_again() -> None:
    busy, broken = Refusing(sqlite3.SQLITE_BUSY), Refusing(sqlite3.SQLITE_IOERR)
    store._write_ahead(busy)  # type: ignore[arg-type]
    change = "PRAGMA journal_mode=WAL"
    assert busy.done == [change, change, change, "PRAGMA synchronous=NORMAL"]
    with pytest.raises(sqlite3.OperationalError):
        store._write_ahead(broken)  # type: ignore[arg-type]
    assert broken.done == [change]


def test_a_killed_writer_leaves_whole_looks(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    one = writer(path, "digits", 100_000)
    assert one.stdout
    assert one.stdout.readline() == b"ready\n"
    history = History(path)
    while len(history.events()) < 20:
        pass
    one.send_signal(signal.SIGKILL)
    one.wait()
    one.stdout.close()
    saw(history, NOW + 1e6, pair=READY)
    events, node = history.events(), history.spans("node")[0]
    # A look is there with all that it has seen, or not at all.
    assert node.seen == events[-1].at
    assert history._rows("PRAGMA integrity_check") == [("ok",)]
    history.close()


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    History(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    with pytest.raises(HistoryError, match=r"has schema 2, and this tpu-fleet knows 1\. Install"):
        History(path)


def test_a_broken_file_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"no database at all " * 100)
    history = History(path)
    saw(history, NOW, pair=READY)
    assert len(history.spans("node")) == 1
    history.close()
    assert (tmp_path / "history.db.broken").read_bytes().startswith(b"no database")


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match=r"file/history\.db cannot be used"):
        History(tmp_path / "file" / "history.db")


def test_only_its_owner_reads_it(tmp_path: Path) -> None:
    History(tmp_path / "history.db").close()
    assert (tmp_path / "history.db").stat().st_mode & 0o077 == 0


def test_a_slice_that_floods_displaces_no_other(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST", {"span": 50, "event": 50, "point": 50})
    quiet = Event(NOW, "pair", "digits", 0, "hang")
    history.add(Look(NOW, events=[quiet]))
    flood = [Event(NOW + n, "evil", f"r{n}", 0, "hang") for n in range(5000)]
    points = [Point("evil", "r", "loss", NOW + n, n, 0.0) for n in range(5000)]
    states = {f"evil/r{n}": {"state": "running"} for n in range(5000)}
    history.add(Look(NOW + 5000, spans={"run": states}, events=flood, points=points))
    history.add(Look(NOW + 10_000))
    left = history.events()
    assert quiet in left
    assert len(left) == 51
    assert len(history.curves(NOW, NOW + 10_000, 10**6)["evil", "r"]["loss"]) == 50
    assert len(history.spans("run")) <= 50


def test_a_run_that_floods_displaces_no_other_of_its_slice(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST", {"span": 50, "event": 50, "point": 50})
    quiet = [Event(NOW + n, "pair", "digits", 0, "hang") for n in range(20)]
    steps = [Point("pair", "digits", "loss", NOW + n, n, 0.0) for n in range(20)]
    history.add(Look(NOW, {"run": {"pair/digits": {"state": "running"}}}, {}, quiet, steps))
    for n in range(200):
        flood = Event(NOW + 60 + n, "pair", "loud", 0, "hang")
        point = Point("pair", "loud", "loss", NOW + 60 + n, n, 0.0)
        states = {"pair/loud": {"attempt": n}}
        history.add(Look(NOW + 60 + n, {"run": states}, {}, [flood], [point]))
    history.add(Look(NOW + 10_000))
    assert [one.run for one in history.events()] == ["digits"] * 20 + ["loud"] * 30
    assert history.events()[-1].at == NOW + 259
    curves = history.curves(NOW, NOW + 10_000, 10**6)
    assert len(curves["pair", "digits"]["loss"]) == 20
    assert len(curves["pair", "loud"]["loss"]) == 30
    assert history.spans("run")[0].name == "pair/digits"


def test_what_is_dated_in_the_future_is_refused(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST", {"span": 50, "event": 50, "point": 50})
    times = [NOW - 5, NOW + GAP, NOW + GAP + 1, 2e11]
    events = [Event(at, "pair", "digits", 0, "hang") for at in times]
    points = [Point("pair", "digits", "loss", at, 1, 0.0) for at in times]
    history.add(Look(NOW, events=events, points=points))
    assert [one.at for one in history.events()] == times[:2]
    assert len(history.curves(0, NOW, 10**12)["pair", "digits"]["loss"]) == 2


def test_old_rows_from_the_future_go_first(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST", {"span": 50, "event": 50, "point": 50})
    with history._writing() as db:
        db.executemany(
            "INSERT INTO event VALUES ('pair', 'digits', ?, 0, 'hang', '{}', 1)",
            [(2e11 + n,) for n in range(60)],
        )
    events = [Event(NOW + n, "pair", "digits", 0, "hang") for n in range(45)]
    history.add(Look(NOW, events=events))
    history.add(Look(NOW + 10_000))
    assert [one.at - NOW for one in history.events()][:45] == list(range(45))
    assert len(history.events()) == 50


def test_old_points_are_thinned_and_old_things_forgotten(history: History) -> None:
    points = [Point("pair", "digits", "loss", NOW + 60 * n, n, 1.0) for n in range(200)]
    events = [Event(NOW, "pair", "digits", 0, "hang")]
    history.add(Look(NOW + 12_000, events=events, points=points))
    history.add(Look(NOW + 3 * 86400))
    assert len(history.curves(NOW, NOW, 10**6)["pair", "digits"]["loss"]) in (20, 21)
    history.add(Look(NOW + 91 * 86400))
    assert history.events() == []
    assert history.curves(NOW, NOW, 10**6) == {}


def test_which_points_of_a_curve_are_read_does_not_change_with_each_look(history: History) -> None:
    points = [Point("pair", "digits", "step", NOW + at, at, float(at)) for at in range(0, 3000, 7)]
    history.add(Look(NOW + 3000, points=points))

    def read(since: float, until: float) -> list[int]:
        own = history.curves(since, until, 100)["pair", "digits"]["step"]
        return [point.step for point in own if point.at >= NOW + 100]

    first = read(NOW, NOW + 3000)
    assert 40 < len(first) <= 100
    assert all(read(NOW + later, NOW + 3000 + later) == first for later in (1, 13, 99))
