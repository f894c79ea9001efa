"""What is frozen of a folder, and what is said of it."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.snapshot import MARKER, SnapshotError

from tpu_fleet.queue.code import changed_in, freeze


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text("print(1)\n")
    (tmp_path / ".gitignore").write_text("*.npz\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def names(data: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return archive.getnames()


def test_equal_files_make_an_equal_archive_without_what_git_ignores(folder: Path) -> None:
    first = freeze(folder)
    (folder / "big.npz").write_text("x")
    assert freeze(folder).sha == first.sha == hashlib.sha256(first.data).hexdigest()
    assert names(first.data) == [".gitignore", "train.py", MARKER]
    assert first.changes() == []
    commit = str(first.origin["commit"])[:7]
    assert first.summary().startswith(f"code {commit}, ")
    assert first.summary().endswith(f"frozen as {first.sha[:8]}")


def test_what_differs_from_the_commit_is_named(folder: Path) -> None:
    before = freeze(folder)
    (folder / "train.py").write_text("print(2)\nprint(3)\n")
    (folder / "new.py").write_text("")
    now = freeze(folder)
    assert now.sha != before.sha
    assert now.changes() == [" M train.py +2 -1", "?? new.py"]
    assert "+ 2 changed files" in now.summary()


def test_many_changes_are_counted(folder: Path) -> None:
    for number in range(20):
        (folder / f"new{number:02}.py").write_text("")
    lines = freeze(folder).change_lines()
    assert len(lines) == 13
    assert lines[-1] == "and 8 more files"


def test_the_fleet_itself_is_no_part_of_the_code(folder: Path) -> None:
    inventory = folder / "inventory"
    (inventory / "group_vars").mkdir(parents=True)
    (inventory / "group_vars" / "all.yml").write_text("secret: x")
    found = freeze(folder, [inventory])
    assert not any("inventory" in name for name in names(found.data))
    assert found.warnings == ["inventory/ is left out of the code"]
    with pytest.raises(SnapshotError, match="only files of the fleet"):
        freeze(inventory, [inventory])


def test_links_stay_unless_they_lead_out(folder: Path) -> None:
    (folder / "near").symlink_to("train.py")
    (folder / "far").symlink_to("../elsewhere.cfg")
    (folder / "whole").symlink_to("/etc/hosts")
    found = freeze(folder)
    assert {"near", "far", "whole"} & {*names(found.data)} == {"near"}
    assert found.warnings == [
        f"{name} is left out of the code: it is a link that leads out of the folder"
        for name in ("far", "whole")
    ]


def test_without_git(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x")
    found = freeze(tmp_path)
    assert found.summary().startswith(f"code of {tmp_path.name} (no commit), ")
    (tmp_path / "gone").mkdir()
    with pytest.raises(SnapshotError):
        freeze(tmp_path / "gone")


def test_a_difference_is_counted_by_file() -> None:
    diff = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1,2 @@\n-a\n+b\n+c\ndiff --git a/y b/z\n"
    assert changed_in(diff) == [" M x +2 -1", " M z +0 -0"]
