"""A folder as it is: its version, what of it is sent, and what git says."""

from __future__ import annotations

import os
import subprocess
import zlib
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.snapshot import SnapshotError

from tpu_fleet.workers.sync import folder
from tpu_fleet.workers.sync.folder import keep, origin_of, version_of


def git(place: Path, *words: str) -> None:
    who = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "safe.directory=*")
    subprocess.run(["git", *who, *words], cwd=place, check=True, capture_output=True)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    place = tmp_path / "code"
    place.mkdir()
    (place / "train.py").write_text("one\n")
    (place / "model.py").write_text("two\n")
    return place


def test_contents_are_sent_as_they_are_asked_for(code: Path) -> None:
    version = version_of(code)
    model, train = (entry.identity for entry in version.entries)
    assert zlib.decompress(version.packed([train, model])) == b"one\ntwo\n"
    with pytest.raises(ValueError, match="which the folder does not have"):
        version.packed(["f" * 64])


def test_what_changes_while_it_is_sent_is_not_sent(code: Path) -> None:
    version = version_of(code)
    (code / "train.py").write_text("other\n")
    with pytest.raises(ValueError, match=r"train\.py changed while it was sent"):
        version.packed([version.entries[1].identity])


def test_a_version_is_kept_as_a_playbook_packs_it(code: Path, tmp_path: Path) -> None:
    version = version_of(code)
    keep(version, tmp_path / "kept", "toy")
    archive = tmp_path / "kept/toy.tar.gz"
    before = archive.stat().st_mtime_ns
    assert version.digest in (tmp_path / "kept/toy.json").read_text()
    keep(version, tmp_path / "kept", "toy")
    assert archive.stat().st_mtime_ns == before


def test_too_much_is_refused(code: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder.snapshot, "MAX_BYTES", 5)
    with pytest.raises(SnapshotError, match=r"Name them in \.gitignore"):
        version_of(code)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a folder another user's")
def test_no_program_that_another_user_configures_is_run(code: Path, tmp_path: Path) -> None:
    git(code, "init", "-q", "-b", "main")
    git(code, "add", "-A")
    git(code, "commit", "-qm", "first")
    mark = tmp_path / "mark"
    git(code, "config", "filter.evil.clean", f"touch {mark}; cat")
    git(code, "config", "diff.evil.textconv", f"touch {mark}; cat")
    (code / ".gitattributes").write_text("*.py filter=evil diff=evil\n")
    (code / "train.py").write_text("other\n")
    for path in (code, *code.rglob("*")):
        os.chown(path, 4321, 4321)
    found = origin_of(code)
    assert not mark.exists()
    assert (found["branch"], len(found["commit"])) == ("main", 40)
    assert "dirty" not in found
    assert [entry.path for entry in version_of(code).entries] == [
        *(".gitattributes", "model.py", "train.py"),
    ]
    assert not mark.exists()


def test_the_origin_is_the_commit_and_what_differs_from_it(
    code: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert origin_of(code) == {}
    git(code, "init", "-q", "-b", "main")
    git(code, "add", "-A")
    git(code, "commit", "-qm", "first")
    clean = origin_of(code)
    assert (clean["branch"], clean["dirty"], len(clean["commit"])) == ("main", False, 40)
    (code / "train.py").write_text("other\n")
    (code / "new.py").write_text("")
    dirty = origin_of(code)
    assert dirty["dirty"] is True
    assert "-one\n+other\n" in dirty["diff"]
    assert (dirty["new_files"], dirty["diff_left_out"]) == (["new.py"], 0)
    monkeypatch.setattr(folder, "MOST_OF_DIFF", 20)
    short = origin_of(code)
    assert len(short["diff"]) == 20
    assert short["diff_left_out"] == len(dirty["diff"]) - 20
