"""The same files, the same archive; nothing that does not belong to the code."""

from __future__ import annotations

import os
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import snapshot as _snapshot
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import (
    act as _code_apply,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.code_checkout import (
    plan as _code_trees,
)
from ansible_collections.tpu.fleet.plugins.modules import code_snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in (
        "train.py",
        "lib/model.py",
        "lib/__pycache__/model.pyc",
        ".venv/bin/python",
        "data.bin",
    ):
        path = tmp_path / "code" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "code/train.py").chmod(0o755)
    (tmp_path / "code/link").symlink_to("lib/model.py")
    return tmp_path / "code"


def snapshot(folder: Path, check: bool = False, **more: Any) -> dict[str, Any]:
    params = {
        "name": "digits",
        "folder": str(folder),
        "snapshot_dir": str(folder.parent / "snapshots"),
        "max_bytes": 1000,
        **more,
    }
    return code_snapshot.run(params, check)


def names(result: dict[str, Any]) -> list[str]:
    with tarfile.open(result["archive"]) as archive:
        return archive.getnames()


def test_it_packs_what_belongs_to_the_code_and_the_marker_last(folder: Path) -> None:
    result = snapshot(folder)
    assert names(result) == ["data.bin", "lib/model.py", "link", "train.py", _snapshot.MARKER]
    with tarfile.open(result["archive"]) as archive:
        assert archive.getmember("train.py").mode == 0o755
        assert archive.getmember("data.bin").mode == 0o644
        assert archive.getmember("link").linkname == "lib/model.py"


def test_the_same_files_give_the_same_archive(folder: Path) -> None:
    first = snapshot(folder)
    data = Path(first["archive"]).read_bytes()
    assert first["changed"]
    (folder / "train.py").touch()
    again = snapshot(folder)
    assert (again["changed"], again["digest"]) == (False, first["digest"])
    other = snapshot(folder, snapshot_dir=str(folder.parent / "other"))
    assert Path(other["archive"]).read_bytes() == data


@pytest.mark.parametrize("change", ["content", "mode", "name", "link"])
def test_every_difference_counts(folder: Path, change: str) -> None:
    before = snapshot(folder)
    if change == "content":
        (folder / "train.py").write_text("other")
    elif change == "mode":
        (folder / "train.py").chmod(0o644)
    elif change == "name":
        (folder / "train.py").rename(folder / "trainer.py")
    else:
        (folder / "link").unlink()
        (folder / "link").symlink_to("train.py")
    result = snapshot(folder)
    assert result["changed"]
    assert result["digest"] != before["digest"]
    assert result["diff"]["before"] != result["diff"]["after"]


def test_check_mode_writes_nothing(folder: Path) -> None:
    assert snapshot(folder, check=True)["changed"]
    assert not (folder.parent / "snapshots").exists()


@pytest.mark.parametrize("foreign", ["0", "1"])
def test_what_git_ignores_is_left_out(
    folder: Path, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    # As if the folder were somebody else's.
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", foreign)
    (folder / ".gitignore").write_text("*.bin\n")
    expected = [".gitignore", "lib/model.py", "link", "train.py", _snapshot.MARKER]
    assert names(snapshot(folder)) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"at": "/nowhere"}, "/nowhere is not a folder"),
        ({"max_bytes": 3}, r"more than max_bytes 3\. The largest: lib/model\.py \(12 bytes\)"),
    ],
)
def test_what_cannot_be_packed_is_said(folder: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(_snapshot.SnapshotError, match=message):
        snapshot(Path(options.pop("at", folder)), snapshot_dir="/nowhere", **options)


def test_it_is_unpacked_below_a_repository_that_ignores_it(folder: Path, tmp_path: Path) -> None:
    packed = snapshot(folder)
    home = tmp_path / "home"
    tree = _code_trees.Tree("code", "me", str(home / "code"))
    Path(tree.releases).mkdir(parents=True)
    subprocess.run(["git", "init", "--quiet", str(home)], check=True)
    (home / ".gitignore").write_text("*\n")
    with Path(packed["archive"]).open("rb") as archive:
        _code_apply.unpack(tree, packed["digest"], os.dup(archive.fileno()))
    release = tree.release(packed["digest"])
    assert _code_apply.content_of(tree, release) == packed["digest"]
    assert _code_apply.changes_in(release) == _code_apply.additions_in(release) == []
