"""The rows of `tpu-fleet runs`, and what workers say."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Piece
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Channel, Result
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target
from click.testing import CliRunner

from tpu_fleet.commands import runs as runs_command
from tpu_fleet.commands.many import Many
from tpu_fleet.commands.runs import USE, as_data, cells_of, described, table_of, times_of
from tpu_fleet.commands.status import Row
from tpu_fleet.history.look import answers_seen
from tpu_fleet.history.record import stories
from tpu_fleet.history.store import History, Look
from tpu_fleet.on_worker.run_reader import BEGINNING
from tpu_fleet.page.model import page_of
from tpu_fleet.show.console import PlainConsole, wide_console
from tpu_fleet.show.table import print_tables
from tpu_fleet.top.lines import Now, by_run
from tpu_fleet.top.source import heard_in
from tpu_fleet.workers.ask import run_answers
from tpu_fleet.workers.ask.run_answers import Answers, pieces, understood
from tpu_fleet.workers.ask.run_view import views_of
from tpu_fleet.workers.ask.worker_program import reader_command
from tpu_fleet.workers.inventory import hosts as fleet_hosts
from tpu_fleet.workers.inventory.fleet_facts import FleetView
from tpu_fleet.workers.inventory.hosts import Known
from tpu_fleet.workers.inventory.names import read_names, remember

GROUPS = {
    "tpu_slice_pair": ("pair-w0", "pair-w1"),
    "tpu_slice_solo": ("solo",),
    "tpu_slice_odd_w3": ("odd-w3",),
}
STATUS: dict[str, Any] = {
    "run": "digits",
    "user": "alice",
    "state": "running",
    "attempt": 2,
    "boot_id": "b",
    "start": 1000.0,
    "end": None,
    "log_path": "/log",
}
ANSWER = {"now": 4600.0, "boot_id": "b"}


def row(*statuses: dict[str, Any], hosts: tuple[str, ...] = ("pair-w0", "pair-w1")) -> list[Any]:
    runs = []
    for host, status in zip(hosts, statuses, strict=True):
        told = json.dumps({**ANSWER, "runs": [{**STATUS, **status}]}).encode()
        result, found, _disk = understood(KNOWN, Result(host, Kind.DONE, 0, value=told))
        assert result.ok, result
        runs += found
    views = views_of(runs)
    found = zip(map(cells_of, views), views, strict=True)
    return [[*cells[:8], *cells[8 + len(USE) : -1], one.why] for cells, one in found]


def test_the_slowest_worker_tells_of_the_start() -> None:
    parts = {"wait": 2.0, "prepare": 1.0, "compile": 20.0, "first_step": 4.0}
    slow = {"worker": 1, "start_parts": {**parts, "compile": 30.0}, "start_counts": {"programs": 3}}
    fast = {"worker": 0, "start_parts": parts, "inside": {"init": 5.0, "step": 95.0, "x": 1.0}}
    runs = []
    for host, status in (("pair-w0", fast), ("pair-w1", slow)):
        told = json.dumps({**ANSWER, "runs": [{**STATUS, **status}]}).encode()
        runs += understood(KNOWN, Result(host, Kind.DONE, 0, value=told))[1]
    (view,) = views_of(runs)
    assert times_of(view) == [
        "digits on pair, attempt 2: first step after 35 s, after a wait of 2.0 s: "
        "prepare 1.0 s, compile 30 s (0 of 3 programs from the cache), the rest 4.0 s",
        "digits on pair, attempt 2: step 95.0 %, init 5.0 %",
    ]
    assert described(view)["start_parts"]["compile"] == 30.0
    assert described(view)["seconds_by_kind"] == {"init": 5.0, "step": 95.0}


def test_submitted_runs_are_marked_beside_declared_ones() -> None:
    both = [{**STATUS, "run": "lr-1", "submitted": True}, STATUS]
    told = json.dumps({**ANSWER, "runs": both}).encode()
    found = understood(KNOWN, Result("pair-w0", Kind.DONE, 0, value=told))[1]
    views = views_of(found)
    assert {one.run: cells_of(one)[-1] for one in views} == {
        "lr-1": "queue",
        "digits": "fleet file",
    }
    assert {one.run: described(one)["submitted"] for one in views} == {
        "lr-1": True,
        "digits": False,
    }
    out = io.StringIO()
    console = PlainConsole(file=out, width=160)
    print_tables(console, table_of(views))
    assert "FROM" in out.getvalue()
    print_tables(console, table_of([one for one in views if not one.submitted]))
    assert out.getvalue().count("FROM") == 1


@pytest.mark.parametrize(
    ("host", "expected"),
    [("pair-w1", ("pair", 1)), ("solo", ("solo", 0)), ("odd-w3", ("odd-w3", 0)), ("x", ("x", 0))],
)
def test_places(host: str, expected: tuple[str, int]) -> None:
    assert fleet_hosts.place_of(host, GROUPS) == expected


QUIET = {"first_step": 100, "first_step_at": 3100.0, "step": 700, "step_at": 3700.0}
PAIR = ["digits", "pair", "alice", "running", "2", "-", "-", "-", "-", "1 h", "pair-w[0-1]", ""]


@pytest.mark.parametrize(
    ("statuses", "expected"),
    [
        (({}, {}), [PAIR]),
        # They report their steps each for itself; the slowest holds up the others.
        (({"step": 40}, {"step": 38}), [[*PAIR[:5], "38-40", *PAIR[6:]]]),
        (({"step": 40}, {}), [[*PAIR[:5], "40", *PAIR[6:]]]),
        # A loss is of whoever reports one; often only one saves, or sees the folder.
        (
            ({"loss": None, "saved_at": 4000.0}, {"loss": 0.25, "saved_at": 0.0}),
            [[*PAIR[:7], "0.25", "10 min", *PAIR[9:]]],
        ),
        (
            ({"loss": "nan"}, {"loss": 3.0}),
            [[*PAIR[:3], "loss NaN", *PAIR[4:7], "nan", *PAIR[8:11], "loss is NaN"]],
        ),
        # It makes no step any more: 600 steps in 600 s, and the last one 15 min ago.
        (
            (QUIET, QUIET),
            [
                [
                    *PAIR[:3],
                    "no step",
                    *(PAIR[4], "700", "1/s", *PAIR[7:11]),
                    "no step for 15 min: tpu-fleet why digits",
                ]
            ],
        ),
        # One of them makes steps.
        (
            (QUIET, {**QUIET, "step": 1400, "step_at": 4500.0}),
            [[*PAIR[:5], "700-1400", "55.7/m", *PAIR[7:]]],
        ),
        # It hung, and its agents have noted where.
        (
            tuple(
                {"state": "restarting", "since": 4500, "reason": "hung: no output"} for _ in "ab"
            ),
            [
                [
                    *(*PAIR[:3], "restarting", *PAIR[4:9], "1 min", PAIR[10]),
                    "hung: no output; where: tpu-fleet why digits --hang",
                ]
            ],
        ),
        # They are in different states: the worst counts.
        (({}, {"boot_id": "before"}), [[*PAIR[:3], "rebooted 1/2", *PAIR[4:9], "-", *PAIR[10:]]]),
        # A queue, a reason, a full disk.
        (
            (
                {"state": "pending", "attempt": 0, "since": 4000, "reason": "waiting"},
                {"state": "pending", "attempt": 0, "since": 4100, "problems": ["full"]},
            ),
            [[*PAIR[:3], "pending", "0", *PAIR[5:9], "10 min", PAIR[10], "waiting; full"]],
        ),
        (
            tuple({"state": "pending", "queue": {"behind": "big", "user": "bob"}} for _ in "ab"),
            [[*PAIR[:3], "pending", *PAIR[4:9], "-", PAIR[10], "waits for big of bob"]],
        ),
        # It was taken out of the fleet file, which is no trouble and no stop by hand.
        (
            tuple({"state": "stopped", "reason": "told to stop", "declared": False} for _ in "ab"),
            [[*PAIR[:3], "removed", *PAIR[4:9], "-", PAIR[10], "it is no longer declared"]],
        ),
        (
            tuple({"state": "failed", "since": None, "end": 4570.0} for _ in "ab"),
            [[*PAIR[:3], "failed", *PAIR[4:9], "30 s", *PAIR[10:]]],
        ),
    ],
)
def test_rows(statuses: tuple[dict[str, Any], ...], expected: list[list[str]]) -> None:
    assert row(*statuses) == expected


@pytest.mark.parametrize("saved", [(4000.0, None), (None, 0.0), (3000.0, 4500.0)])
def test_the_last_checkpoint_is_equally_old_everywhere(
    saved: tuple[float | None, ...], tmp_path: Path
) -> None:
    told = json.dumps({**ANSWER, "runs": [STATUS]}).encode()
    answers = Answers(results=[Result("pair-w0", Kind.DONE, 0), Result("pair-w1", Kind.DONE, 0)])
    for host, at in zip(GROUPS["tpu_slice_pair"], saved, strict=True):
        told = json.dumps({**ANSWER, "runs": [{**STATUS, "saved_at": at}]}).encode()
        answers.runs += understood(KNOWN, Result(host, Kind.DONE, 0, value=told))[1]
    (in_runs,) = [described(one) for one in views_of(answers.runs)]
    heard = heard_in(answers, 0.0)
    hosts = [Row(host, "pair", *[""] * 6) for host in heard]
    (in_top,) = by_run(Now(hosts, heard, FleetView(), 0.0, None))
    look = Look(4600.0)
    answers_seen(look, answers, {host: ("pair", at) for at, host in enumerate(heard)})
    with closing(History(tmp_path / "history.db")) as history:
        history.add(look)
        (in_history,) = stories(history, 0.0, 4600.0)
        (on_page,) = page_of(history, "fleet", 4600.0).runs
    shown = {in_top.view.saved_age, in_history.saved_age, on_page.story.saved_age}
    assert shown == {in_runs["seconds_since_checkpoint"]}
    assert shown == {{4000.0: 600.0, 4500.0: 100.0}.get(max(at or 0.0 for at in saved))}


def test_each_slice_and_each_run_has_rows_of_its_own() -> None:
    rows = row({}, {"run": "a"}, {}, hosts=("solo", "solo", "pair-w0"))
    assert [cells[:2] for cells in rows] == [["a", "solo"], ["digits", "pair"], ["digits", "solo"]]


KNOWN = Known(Path("/s/ssh_config"), Fleet({}, GROUPS))


def test_what_is_no_answer_is_said() -> None:
    good = json.dumps({**ANSWER, "runs": [STATUS]}).encode()
    result, (run,), _disk = understood(KNOWN, Result("pair-w1", Kind.DONE, 0, value=good))
    assert (result.ok, run.slice, run.worker, run.age) == (True, "pair", 1, 3600.0)
    for value in (b"", b"[]", b'{"runs": [1]}', None):
        result, none, _disk = understood(KNOWN, Result("pair-w1", Kind.DONE, 0, value=value))
        assert not none
        assert "its answer is not accepted" in result.says
    broken = Result("pair-w1", Kind.DONE, 127, stderr=b"sh: x\npython3: not found\n")
    assert understood(KNOWN, broken)[0].says == "python3: not found"


@pytest.mark.parametrize(
    ("lost", "wanted"), [(False, ["digits"]), (True, ["digits", "of-another-worker"])]
)
def test_names_are_kept_for_tab_and_forgotten_when_all_have_answered(
    lost: bool, wanted: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    good = json.dumps({**ANSWER, "runs": [STATUS]}).encode()
    results = [Result("pair-w0", Kind.DONE, 0, value=good)]
    results += [Result("pair-w1", Kind.REFUSED, says="no")] if lost else []
    monkeypatch.setattr(run_answers, "on_all", lambda *_: results)
    targets = {name: Target(name, "192.0.2.1", user="ops") for name in ("pair-w0", "pair-w1")}
    known = Known(Path("/ssh_config"), Fleet(targets, GROUPS, ("/inventory",)))
    remember(("/inventory",), runs=["of-another-worker"])
    run_answers.ask_for_runs(known, list(targets))
    names = read_names(("/inventory",))
    assert names["runs"] == wanted
    assert names["slices"] == ["pair"]
    assert names["workers"] == ["pair-w0", "pair-w1"]


def test_json_names_those_without_a_result() -> None:
    lost = Result("solo", Kind.REFUSED, says="no", remedy="wait")
    told = as_data([], Answers([], [lost, Result("pair-w0", Kind.DONE, 0)]), 2)
    assert told == {
        "runs": [],
        "no_result": [{"worker": "solo", "kind": "refused", "says": "no", "remedy": "wait"}],
        "exit_code": 2,
    }


@pytest.mark.parametrize("how", [[], ["--json"]])
@pytest.mark.parametrize(("name", "code"), [("digits", 0), ("word", 1)])
def test_a_run_that_is_not_there(
    how: list[str], name: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = json.dumps({**ANSWER, "runs": [STATUS]}).encode()
    result, found, _disk = understood(KNOWN, Result("pair-w1", Kind.DONE, 0, value=good))
    monkeypatch.setattr(runs_command, "ask_for_runs", lambda *_: Answers(found, [result]))
    fleet = Fleet({name: Target(name, "::1") for name in ("pair-w1", "solo")})
    monkeypatch.setattr(Many, "workers", lambda _self: (replace(KNOWN, fleet=fleet), ["pair-w1"]))
    done = CliRunner().invoke(runs_command.runs, [*how, name])
    assert done.exit_code == code, done.output
    assert ("There is no run word on pair-w1. There is digits." in done.stderr) is (code == 1)
    if how:
        assert json.loads(done.stdout)["exit_code"] == code


# The pieces


def taken(said: bytes) -> list[tuple[Piece, bytes]]:
    async def take() -> list[tuple[Piece, bytes]]:
        channel = Channel(Target("w", "192.0.2.1"))
        channel._reader.feed_data(said)
        channel._reader.feed_eof()
        return [piece async for piece in pieces(channel)]

    return asyncio.run(take())


HEAD = BEGINNING.encode() + b"\n"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (b"", []),
        (b"Welcome!\n" + HEAD + b'{"end": ""}\n', [(Piece(end=""), b"")]),
        (HEAD + b'{"bytes": 3}\na\nb{"end": ""}\n', [(Piece(3), b"a\nb"), (Piece(end=""), b"")]),
        # The line was lost in the middle: half a piece was never there.
        (HEAD + b'{"bytes": 3}\na\n', []),
        (HEAD + b'{"at": ["7", 1, 2]}\n{"at": ["7", 2', [(Piece(at=("7", 1, 2)), b"")]),
    ],
)
def test_pieces(said: bytes, expected: list[tuple[Piece, bytes]]) -> None:
    assert taken(said) == expected


def test_nobody_makes_us_take_what_we_cannot_hold() -> None:
    with pytest.raises(AnswerError, match="bytes is '99999999999', not a whole number from 0"):
        taken(HEAD + b'{"bytes": 99999999999}\n')


def test_the_program_is_one_argument_of_a_shell() -> None:
    command = reader_command({"do": "list"}, sudo=True)
    assert command.startswith("exec sudo -n /usr/bin/python3 -I -c ")
    # sshd gives it to the shell as one argument, of which Linux takes 128 KiB.
    assert len(command) < 1 << 16


@pytest.mark.parametrize("name", ["[/x]", "\x1b]0;pwned\x07", "[red]ok", ":smile:"])
def test_what_a_process_is_called_is_no_markup(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = {**STATUS, "state": "pending", "reason": f"a chip is held by ({name}) of bob"}
    told = json.dumps({**ANSWER, "runs": [status]}).encode()
    _result, found, _disk = understood(KNOWN, Result("solo", Kind.DONE, 0, value=told))
    print_tables(wide_console(), table_of(views_of(found)))
    shown = capsys.readouterr().out
    assert name.replace("\x1b", "\ufffd").replace("\x07", "\ufffd") in shown
    assert "\x1b" not in shown


def test_the_command_does_without_ansibles_inventory() -> None:
    # Half of its time would be spent on importing that.
    asked = "import sys, tpu_fleet.commands.runs; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert "ansible.inventory.manager" not in done.stdout.split()
    assert "tpu_fleet.history.record" in done.stdout.split()
