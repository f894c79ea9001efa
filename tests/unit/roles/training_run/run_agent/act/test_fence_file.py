"""The mark in a checkpoint folder."""

from __future__ import annotations

from pathlib import Path

from run_agent.act import (
    fence_file,
)
from run_agent.decide import fence
from run_agent.decide.fence import Mark

OLD = Mark(7, "old", "digits-1", "vm-a")


def test_a_mark_is_written_and_read_and_trusted_little(tmp_path: Path) -> None:
    path = fence.path_of(str(tmp_path / "new/folder"), "digits")
    assert path is not None
    assert fence.path_of("gs://bucket/digits", "digits") is None
    assert fence_file.read(path) is None
    fence_file.write(path, OLD)
    assert fence_file.read(path) == OLD
    assert fence.floor(OLD) == 7
    for text in (
        "",
        "{",
        "[]",
        '{"attempt": "9", "owner": "x"}',
        '{"attempt": true, "owner": "x"}',
    ):
        path.write_text(text)
        assert fence_file.read(path) is None
