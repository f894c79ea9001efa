"""Many small files in one step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import state as host_state
from ansible_collections.tpu.fleet.plugins.module_utils._host.work import Failed
from ansible_collections.tpu.fleet.plugins.modules import host_files


@pytest.fixture(autouse=True)
def _unprivileged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_state.os, "fchown", lambda *_: None)


def apply(path: Path, **entry: Any) -> bool:
    """Do one entry as the module does; return whether something changed."""
    values = {"state": "file", "content": "", "target": None, "mode": None, **entry}
    now, wanted = host_files.as_seen(path), host_files.as_wanted(values)
    if now == wanted:
        return False
    host_files.bring_about(path, now, wanted)
    assert host_files.as_seen(path) == wanted
    return True


def test_each_kind_is_made_once(tmp_path: Path) -> None:
    entries: list[tuple[Path, dict[str, Any]]] = [
        (tmp_path / "a" / "b", {"state": "directory", "mode": "0750"}),
        (tmp_path / "a" / "file", {"content": "x\n", "mode": "0600"}),
        (tmp_path / "link", {"state": "link", "target": str(tmp_path / "a")}),
        (tmp_path / "gone", {"state": "absent"}),
    ]
    (tmp_path / "gone").mkdir()
    assert [apply(path, **entry) for path, entry in entries] == [True] * 4
    assert [apply(path, **entry) for path, entry in entries] == [False] * 4


@pytest.mark.parametrize("change", [{"content": "y\n"}, {"mode": "0644"}])
def test_a_difference_is_put_right(tmp_path: Path, change: dict[str, str]) -> None:
    entry = {"content": "x\n", "mode": "0600"}
    assert apply(tmp_path / "file", **entry)
    assert apply(tmp_path / "file", **{**entry, **change})


def test_a_link_is_turned(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        assert apply(tmp_path / "link", state="link", target=str(tmp_path / name))
    with pytest.raises(Failed, match="does not exist"):
        apply(tmp_path / "link", state="link", target=str(tmp_path / "three"))


def test_a_folder_loses_the_files_that_no_entry_names(tmp_path: Path) -> None:
    kept = [tmp_path / "one.py", tmp_path / "room" / "two.py", tmp_path / "notes.txt"]
    old = [tmp_path / "old.py", tmp_path / "room" / "three.py"]
    outside = tmp_path.with_name("outside.py")
    (tmp_path / "room").mkdir()
    for path in (*kept, *old, outside):
        path.touch()
    entries = [{"path": str(path), "state": "file", "purge": None} for path in kept[:2]]
    entries.append({"path": str(tmp_path), "state": "directory", "purge": "*.py"})
    for entry in host_files.left_over(entries):
        assert apply(Path(entry.pop("path")), **entry)
    assert [path.exists() for path in (*kept, *old, outside)] == [True] * 3 + [False] * 2 + [True]
    assert list(host_files.left_over(entries)) == []


def test_a_folder_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "work").touch()
    with pytest.raises(Failed, match="Move it away"):
        apply(tmp_path / "kept", content="x")
    assert (tmp_path / "kept" / "work").exists()
