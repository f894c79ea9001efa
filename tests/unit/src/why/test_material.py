"""The folder with what was seen is written, and read again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Evidence,
    evidence_of,
)
from run_evidence import QUEUE_GET, STEP, seen

from tpu_fleet.why.material import Shown, for_people, read, write


def shown(number: int, **run: Any) -> Shown:
    told = seen(number, QUEUE_GET, run=run)
    return Shown(told["host"], evidence_of(told["host"], told), "text\n")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "why-1"
    both = (shown(0), shown(1))
    write(folder, both, {"verdicts": []}, "<html>")
    kept = read(folder, "digits")
    assert [(one.host, one.evidence) for one in kept.shown] == [
        (one.host, one.evidence) for one in both
    ]
    assert kept.problems == ()
    assert read(folder, "other").shown == ()


def test_no_worker_names_a_file_elsewhere(tmp_path: Path) -> None:
    evil = Shown("../../evil", shown(0).evidence)
    write(tmp_path / "why", [evil], {}, "")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["why", "why.html", "why.json"]


def test_notes_that_fetch_has_brought_are_read(tmp_path: Path) -> None:
    for host, name, number, attempt in (
        ("pod-w0", "hang-1", 0, 1),
        ("pod-w0", "hang-2", 0, 2),
        ("pod-w1", "hang-2", 1, 2),
        # Its worker has written none of the last attempt.
        ("pod-w2", "hang-1", 2, 1),
    ):
        folder = tmp_path / "digits" / host
        folder.mkdir(parents=True, exist_ok=True)
        told = seen(number, STEP, run={"attempt": attempt})
        (folder / f"{name}.json").write_text(json.dumps(told))
        archived = folder / "archive" / "20261125T220000Z"
        archived.mkdir(parents=True, exist_ok=True)
        (archived / f"{name}.json").write_text(json.dumps(told))
    (tmp_path / "digits" / "pod-w0" / "status.json").write_text("{}")
    kept = read(tmp_path, "digits")
    found = [(one.host, one.evidence.run.attempt) for one in kept.shown]
    assert found == [("pod-w0", 2), ("pod-w1", 2)]


def test_looks_of_different_times_are_not_mixed(tmp_path: Path) -> None:
    for number, at in ((0, 100.0), (1, 100.0)):
        place = tmp_path / "why-1"
        write(place, [replace(shown(number), evidence=at_time(number, at))], {}, "")
    write(tmp_path / "why-2", [replace(shown(0), evidence=at_time(0, 200.0))], {}, "")
    (tmp_path / "pod-w1" / "results").mkdir(parents=True)
    (tmp_path / "pod-w1" / "results" / "loss.json").write_text("[1, 2]")
    kept = read(tmp_path, "digits")
    assert [(one.host, one.evidence.at) for one in kept.shown] == [("pod-w0", 200.0)]
    assert kept.problems == ()


def at_time(number: int, at: float) -> Evidence:
    return replace(shown(number).evidence, at=at)


def test_a_file_that_is_no_evidence_is_named(tmp_path: Path) -> None:
    (tmp_path / "pod-w0.json").write_text('{"worker": -1}')
    (tmp_path / "pod-w1.json").write_text("no json")
    kept = read(tmp_path, "digits")
    assert kept.shown == ()
    assert len(kept.problems) == 2
    assert all("its answer is not accepted" in line for line in kept.problems)


def test_a_text_for_people_has_no_secret_and_no_endless_line() -> None:
    assert for_people("a --api-key=abc\nb " + "x" * 5000).splitlines()[0] == "a --api-key=***"
    assert max(map(len, for_people("x" * 5000).splitlines())) == 1000
    assert for_people("a\x1b]52;c;eA==\x07\tb\nc") == "a\ufffd]52;c;eA==\ufffd\tb\nc"
