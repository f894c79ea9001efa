"""Checkpoints as the program's parent sees them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from run_agent.act import (
    guard,
)
from run_agent.decide import program_words


def test_a_newer_file_is_seen_below_but_not_our_own(tmp_path: Path) -> None:
    (tmp_path / "10/shard").mkdir(parents=True)
    before = guard.changes(tmp_path).latest
    (tmp_path / ".tpu-fleet-attempt.digits").write_text("{}")
    assert guard.changes(tmp_path).latest == before
    os.utime(tmp_path / "10/shard", ns=(0, before + 1))
    assert guard.changes(tmp_path).latest == before + 1
    assert guard.changes(tmp_path, limit=1).seen <= 2


def written(folder: Path, name: str, at: int) -> None:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    for path in (file, *file.parents):
        if folder in path.parents:
            os.utime(path, (at, at))


@pytest.mark.parametrize(
    "half",
    [
        "200.orbax-checkpoint-tmp/default/d/1",
        "200.orbax-checkpoint-tmp-1732600000/default/d/1",
        "200/default.orbax-checkpoint-tmp-3/d/1",
        "tmp-checkpoint-200/model.safetensors",
        "tmpk3j2x0ab/state.pt",
        "step-200.pt.tmp",
        "step-200.pt.tmp.4711",
        "step-200.pt~",
        "step-200.pt.part",
        "model.ckpt-200_temp/part-00000-of-00001",
        ".step-200.pt.Xy81Za",
        ".tpu-fleet-attempt.digits",
        "events.out.tfevents.1732600000.host",
        "logs/events.out.tfevents.1732600000.host",
        "train.log",
        "metrics.jsonl",
    ],
)
@pytest.mark.parametrize("whole", ["100/default/d/1", "step-100.pt", "part-00000-of-00002"])
def test_what_is_not_whole_is_no_checkpoint(tmp_path: Path, half: str, whole: str) -> None:
    written(tmp_path, half, 2000)
    assert guard.changes(tmp_path).saved == 0
    written(tmp_path, whole, 1000)
    found = guard.changes(tmp_path)
    assert found.saved == 1000 * 10**9
    # What is being written is a sign of life all the same.
    assert half.startswith(".tpu-fleet") or found.latest == 2000 * 10**9


def test_a_checkpoint_counts_from_when_it_is_whole(tmp_path: Path) -> None:
    written(tmp_path, "1.orbax-checkpoint-tmp/d/1", 1000)
    (tmp_path / "1.orbax-checkpoint-tmp").rename(tmp_path / "1")
    assert guard.changes(tmp_path).saved == 1000 * 10**9
    # That an old one is removed is none.
    written(tmp_path, "0/d/1", 500)
    (tmp_path / "0/d/1").unlink()
    assert guard.changes(tmp_path).saved == 1000 * 10**9


def test_a_link_and_a_pipe_are_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert guard.changes(tmp_path).saved == 0
    assert guard.changes(tmp_path / "gone") == guard.Changes()


def test_of_many_files_the_newest_are_looked_at(tmp_path: Path) -> None:
    for step in range(20):
        for number in range(10):
            written(tmp_path, f"{step}/d/{number}", 1000 + step)
    assert guard.changes(tmp_path, limit=60).saved == 1019 * 10**9


def test_the_guard_names_the_last_steps_of_whole_checkpoints(tmp_path: Path) -> None:
    for step in range(0, 2000, 100):
        (tmp_path / str(step) / "state").mkdir(parents=True)
        (tmp_path / str(step) / "state" / "0.npy").touch()
    (tmp_path / "2000.orbax-checkpoint-tmp").mkdir()
    (tmp_path / "2000.orbax-checkpoint-tmp" / "1").touch()
    found = json.loads(json.dumps(guard.changes(tmp_path).steps))
    assert [step for step, _at in found] == [*range(2000 - 100 * guard.STEPS, 2000, 100)]
    assert [step for step, _at in program_words.saved_steps(found)] == [step for step, _at in found]
    assert program_words.saved_steps([[1], "x", [1.5, 2], [1, -1], [1, "x"], [10**16, 5]]) == []
    assert program_words.saved_steps({"a": 1}) == []
