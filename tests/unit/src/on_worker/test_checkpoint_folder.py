from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import UNFINISHED, WHOLE

from tpu_fleet import on_worker
from tpu_fleet.on_worker import checkpoint_folder
from tpu_fleet.on_worker.run_reader import BEGINNING
from tpu_fleet.workers.ask.checkpoint_folders import contents_of
from tpu_fleet.workers.ask.worker_program import folder_command, program

AT = 1_700_000_000


def written(path: Path, at: float = AT) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"12345")
    os.utime(path, (at, at))


def fill(folder: Path) -> None:
    written(folder / "100.orbax-checkpoint-tmp-1" / "d" / "0", AT)
    written(folder / "200" / "d" / "0", AT + 60)
    written(folder / "300.orbax-checkpoint-tmp-2" / "d" / "0", AT + 90)


def test_what_a_folder_holds(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "200")
    (tmp_path / "200" / "passwd").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "pipe")
    answer = json.dumps(checkpoint_folder.done(tmp_path, {})).encode()
    found = contents_of("solo", answer)
    assert [(one.name, one.state, one.at, one.size) for one in found.checkpoints] == [
        ("100.orbax-checkpoint-tmp-1", UNFINISHED, AT, 5), ("200", WHOLE, AT + 60, 5),
        ("300.orbax-checkpoint-tmp-2", UNFINISHED, AT + 90, 5),
    ]  # fmt: skip
    assert [(one.name, one.step) for one in found.leftovers] == [
        ("100.orbax-checkpoint-tmp-1", 100)
    ]


def test_only_what_is_named_and_unchanged_is_deleted(tmp_path: Path) -> None:
    fill(tmp_path / "ckpt")
    written(tmp_path / "outside" / "x", 1)
    (tmp_path / "ckpt" / "link").symlink_to(tmp_path / "outside")
    names = [
        "100.orbax-checkpoint-tmp-1",
        "300.orbax-checkpoint-tmp-2",
        "../outside",
        "link",
        "",
        "/",
    ]
    done = checkpoint_folder.done(tmp_path / "ckpt", dict.fromkeys(names, float(AT)))
    assert sorted(path.name for path in (tmp_path / "ckpt").iterdir()) == [
        "200", "300.orbax-checkpoint-tmp-2", "link",
    ]  # fmt: skip
    assert (tmp_path / "outside" / "x").exists()
    assert len(done["problems"]) == 5
    assert "written to meanwhile" in done["problems"][0]


def test_a_folder_with_very_many_files_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    monkeypatch.setattr(checkpoint_folder, "MOST", 2)
    found = contents_of("solo", json.dumps(checkpoint_folder.done(tmp_path, {})).encode())
    assert (found.is_cut, found.leftovers, len(found.checkpoints)) == (True, [], 2)
    assert (
        "is no folder"
        in contents_of(
            "solo", json.dumps(checkpoint_folder.done(tmp_path / "gone", {})).encode()
        ).problem
    )


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"[]", b"{}", b'{"files": 5, "more": false, "problems": []}', b"\xff" * 100,
        b'{"files": [], "more": "x", "problems": []}',
    ],
)  # fmt: skip
def test_an_invalid_answer_is_a_problem(answer: bytes) -> None:
    assert "not accepted" in contents_of("solo", answer).problem


def test_hostile_files_are_left_out() -> None:
    files: list[Any] = [
        ["../x", 1, 1], ["/x", 1, 1], ["\x1b", 1, 1], ["1.pt", -1, 1], ["1.pt", 1, 1e99],
        ["1.pt", True, 1], ["1.pt", 1, "x"], [1, 2, 3], "x", ["2.pt", 1, 5],
    ]  # fmt: skip
    told = {"files": files, "more": False, "problems": ["\x1b[31mno"]}
    found = contents_of("solo", json.dumps(told).encode())
    assert ([one.name for one in found.checkpoints], "\x1b" in found.problem) == (["2.pt"], False)


def test_the_program_is_sent_as_one(tmp_path: Path) -> None:
    fill(tmp_path)
    order = json.dumps({"folder": str(tmp_path), "delete": {}})
    words = [sys.executable, "-I", "-c", program(*on_worker.FOLDER), order]
    done = subprocess.run(words, capture_output=True, check=True)
    head, piece, data = done.stdout.split(b"\n", 2)
    assert (head.decode(), json.loads(piece)["bytes"]) == (BEGINNING, len(data))
    assert len(contents_of("solo", data).checkpoints) == 3
    assert folder_command({"folder": "/x"}, "alice").startswith("exec sudo -n -u alice ")
