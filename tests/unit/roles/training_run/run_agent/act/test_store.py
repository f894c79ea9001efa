"""State files on a disk and in memory."""

from __future__ import annotations

import json
from pathlib import Path

from run_agent.act import (
    store,
)


def test_a_file_that_cannot_be_kept_is_kept_in_memory(tmp_path: Path) -> None:
    (tmp_path / "disk").write_text("not a folder")
    kept = store.Kept(tmp_path / "disk/status.json", tmp_path / "memory/status.json")
    kept.save({"attempt": 1})
    assert "status.json cannot be written" in kept.error
    assert store.Kept(kept.path, kept.spare).load() == {"attempt": 1, "serial": 1}
    (tmp_path / "disk").unlink()
    kept.save({"attempt": 1})
    assert kept.error == ""
    assert store.read(kept.path) == {"attempt": 1, "serial": 2}
    assert not kept.spare.exists()


def test_each_value_is_on_a_line_of_its_own() -> None:
    data = {"state": "running", "a": [1, {"z": None, "state": "\n"}], "b": {"y": 1, "x": 0.5}}
    lines = store.text_of(data).splitlines()
    assert lines[1:-1] == [
        '  "a": [1, {"state": "\\n", "z": null}],',
        '  "b": {"x": 0.5, "y": 1},',
        '  "state": "running"',
    ]
    assert json.loads(store.text_of(data)) == data
    assert json.loads(store.text_of({})) == {}


def test_nothing_new_is_not_written(tmp_path: Path) -> None:
    kept = store.Kept(tmp_path / "a.json", tmp_path / "b.json")
    kept.save({"attempt": 1})
    kept.save({"attempt": 1})
    assert (kept.load() or {})["serial"] == 1
