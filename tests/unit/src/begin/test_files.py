"""The files of a new fleet: all or none, and over no other."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tpu_fleet.begin.answers import LINE_FOR_EDITORS, Answers
from tpu_fleet.begin.files import EDITOR, files_of, write_all

FILES = {Path("a/b"): "1", Path("c"): "2", EDITOR: "3"}


def test_all_are_written(tmp_path: Path) -> None:
    written = write_all(tmp_path / "new", FILES)
    assert [path.read_text() for path in written] == ["1", "2", "3"]


def test_none_is_written_when_one_is_there(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("mine")
    with pytest.raises(FileExistsError):
        write_all(tmp_path, FILES)
    assert (tmp_path / "c").read_text() == "mine"
    assert not (tmp_path / "a/b").exists()


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "c").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_all(tmp_path, FILES)
    assert not (tmp_path / "elsewhere").exists()


def test_editors_find_the_schema() -> None:
    """By the first line of the file, and in VS Code by the settings."""
    files = files_of(Answers(project="lab"))
    fleet = Path("inventory/group_vars/all/fleet.yml")
    relative = LINE_FOR_EDITORS.partition("$schema=")[2]
    assert files[fleet].startswith(LINE_FOR_EDITORS)
    assert Path(os.path.normpath(fleet.parent / relative)) in files
    (schema,) = json.loads(files[EDITOR])["yaml.schemas"]
    assert Path(schema) in files
