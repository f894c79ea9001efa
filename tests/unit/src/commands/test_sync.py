"""What `tpu-fleet sync` says of a slice, and how it ends."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from ansible.plugins.filter.core import get_hash, to_json
from ansible_collections.tpu.fleet.plugins.module_utils._sync.order import state_hash
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from tpu_fleet.commands import sync
from tpu_fleet.commands.sync import (
    Asked,
    Board,
    broken,
    grouped,
    order_of,
    state_of,
    wait_for_save,
    would,
)
from tpu_fleet.workers.sync.declared import Declared, OnSlice
from tpu_fleet.workers.sync.folder import Version
from tpu_fleet.workers.sync.talk import Progress

WHAT = Declared(
    runs=["digits"],
    tree="toy",
    folder="/code",
    snapshots="/snapshots",
    slices=[
        OnSlice("pair", 3, {"name": "toy"}, [], {"digits": {}}, {}),
        OnSlice("solo", 3, {"name": "toy"}, [], {"digits": {}}, {}),
    ],
)
VERSION = Version(Path("/code"), [], "9f3a12c4" + "0" * 56, [])
HOSTS = {"pair": ["pair-w0", "pair-w1"], "solo": ["solo"]}


def run(**more: Any) -> dict[str, Any]:
    given = {"run": "digits", "state": "running", "attempt": 4, "next": True, "reason": ""}
    return {**given, **more}


def test_a_slice_is_shown_in_one_line_when_its_last_worker_runs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tpu_fleet.commands.sync.time.monotonic", lambda: 102.04)
    board = Board(WHAT, VERSION, 100.0, False, HOSTS)
    done = {"ready": True, "switched": True, "running": True, "runs": [run()]}
    board.progress = {
        "pair-w0": Progress(files=1, sent=812, **done),
        "pair-w1": Progress(files=1, sent=812),
        "solo": Progress(),
    }
    board.heard("pair-w0", board.progress["pair-w0"])
    assert capsys.readouterr().out == ""
    board.progress["pair-w1"].running = True
    for _twice in range(2):
        board.heard("pair-w1", board.progress["pair-w1"])
    assert capsys.readouterr().out == (
        "pair: 2 workers, 9f3a12c4, 1 file, 1.6 KiB sent, attempt 4 runs, 2.0 s\n"
    )


@pytest.mark.parametrize(
    ("there", "named", "same", "text"),
    [
        (run(), False, False, "attempt 4 runs"),
        (run(), True, False, "digits attempt 4 runs"),
        (run(state="failed"), False, False, "attempt 4 failed"),
        (run(next=False), False, True, "attempt 4 runs"),
        (
            run(next=False, state="restarting", reason="worker 1 is still stopping"),
            False,
            False,
            "next attempt is still waited for (worker 1 is still stopping)",
        ),
    ],
)
def test_what_the_run_does(there: dict[str, Any], named: bool, same: bool, text: str) -> None:
    assert state_of(there, named, same) == text


def test_the_worker_that_is_least_far_speaks_for_its_slice() -> None:
    board = Board(WHAT, VERSION, 0.0, True, HOSTS)
    board.progress = {
        "pair-w0": Progress(runs=[run()]),
        "pair-w1": Progress(runs=[run(state="restarting", next=False)]),
    }
    assert board.of_slice("pair")["runs"][0]["state"] == "restarting"


def test_equal_reasons_are_shown_once() -> None:
    assert grouped({"w0": "no room", "w1": "no room", "w2": "away"}) == [
        "w0 and 1 more: no room",
        "w2: away",
    ]


def test_what_the_worker_itself_says_is_shown() -> None:
    failed = [
        Result("w0", Kind.DONE, 1, stderr=b"hint\nsudo: a password is required\n"),
        Result("w1", Kind.DONE, 1, stderr=b"sudo: a password is required"),
        Result("w2", Kind.DONE, 3),
        Result("w3", Kind.DONE, 1, stderr=b"x"),
        Result("w4", Kind.DONE, 0, stderr=b"motd"),
    ]
    assert broken(failed, {"w3": "no room"}) == [
        "w0 and 1 more: sudo: a password is required",
        "w2: the program ended with 3",
    ]


def test_each_slice_is_asked_for_its_own() -> None:
    order = order_of(WHAT, VERSION, 1)
    assert (order["slice"], order["digest"]) == ("solo", VERSION.digest)
    assert order["runs"] == ["digits"]


def test_how_far_a_sync_came_that_failed() -> None:
    assert sync.half_done(1, 2).startswith("1 of 2 workers switched. The run waits until all have")
    # As when a disk was full once the program had begun.
    says = "The new version is on all workers. Correct what is named above."
    assert sync.half_done(2, 2) == says


def test_what_would_be_sent() -> None:
    said = {"slice": "pair", "workers": 2, "version": "9f3a12c40", "files": 1, "bytes": 90}
    assert would({**said, "same": False}) == (
        "pair: 2 workers, 9f3a12c4, 1 file, 90 bytes would be sent"
    )
    assert would({**said, "same": True}) == "pair: 2 workers, 9f3a12c4, already there"


class Enough(Exception):
    """The end of a watch, which only Ctrl-C ends."""


def test_a_burst_of_saves_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "train.py"
    file.write_text("")
    before = sync.looked_at(tmp_path)
    slept: list[float] = []
    test, really = threading.current_thread(), time.sleep

    def sleep(seconds: float) -> None:
        if threading.current_thread() is not test:
            # One that another test left.
            really(seconds)
            return
        slept.append(seconds)
        # Nothing at first, then three writes in a row.
        if 2 < len(slept) < 6:
            file.write_text("x" * len(slept))

    monkeypatch.setattr("tpu_fleet.commands.sync.time.sleep", sleep)
    wait_for_save(tmp_path, before)
    assert slept == [sync.LOOK] * 3 + [sync.REST] * 3


def test_every_save_is_synced_and_an_error_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    done: list[int] = []
    saves: list[object] = []

    def once(_asked: Asked) -> int:
        done.append(len(saves))
        if len(done) == 1:
            raise click.ClickException("train.py is too large")
        return 0

    def wait(_folder: Path, before: object) -> None:
        saves.append(before)
        if len(saves) == 3:
            raise Enough

    monkeypatch.setattr(sync, "chosen", lambda choose: (None, choose(None)))
    monkeypatch.setattr(sync, "declared", lambda _known, _runs: replace(WHAT, folder=str(tmp_path)))
    monkeypatch.setattr(Asked, "once", once)
    monkeypatch.setattr(sync, "wait_for_save", wait)
    with pytest.raises(Enough):
        Asked(["digits"]).watch()
    assert done == [0, 1, 2]
    assert "Error: train.py is too large" in capsys.readouterr().err


def test_the_state_has_the_hash_of_the_role() -> None:
    trees, versions = [{"name": "toy", "folder": "ä"}], {"toy": "d"}
    assert state_hash(trees, versions) == get_hash(
        to_json([trees, versions], sort_keys=True), "sha256"
    )
