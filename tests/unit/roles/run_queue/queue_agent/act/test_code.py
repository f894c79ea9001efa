"""The frozen code of a run: only what its hash says, and only below its folder."""

from __future__ import annotations

import hashlib
import io
import os
import pwd
import tarfile
from pathlib import Path
from typing import Any

import pytest
from queue_agent.act import code
from submitters import archive

ME = pwd.getpwuid(os.getuid())


class Bucket:
    """What the queue has of code."""

    def __init__(self, data: bytes | None) -> None:
        self.data, self.asked = data, 0

    def code(self, _sha: str) -> bytes | None:
        self.asked += 1
        return self.data


def install(place: Path, data: bytes | None, sha: str = "", run: str = "one") -> Any:
    queue: Any = Bucket(data)
    wanted = sha or hashlib.sha256(data or b"").hexdigest()
    return code.install(place, run, wanted, ME, queue), queue


def leading_out(kind: bytes, name: str, target: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, target
        tar.addfile(member)
    return packed.getvalue()


def test_it_is_unpacked_once_into_a_folder_of_the_user(tmp_path: Path) -> None:
    data = archive({"train.py": "print()\n", "lib/a.py": ""})
    folder, queue = install(tmp_path, data)
    assert (folder / "train.py").read_text() == "print()\n"
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (ME.pw_uid, 0o750)
    assert queue.asked == 1
    assert sorted(path.name for path in folder.parent.iterdir()) == [folder.name]
    again: Any = Bucket(None)
    sha = hashlib.sha256(data).hexdigest()
    assert code.install(tmp_path, "one", sha, ME, again) == folder
    assert again.asked == 0


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"no archive",
        leading_out(tarfile.SYMTYPE, "link", "/etc"),
        leading_out(tarfile.SYMTYPE, "link", "../.."),
        leading_out(tarfile.REGTYPE, "../over", ""),
        leading_out(tarfile.LNKTYPE, "link", "/etc/passwd"),
        leading_out(tarfile.CHRTYPE, "device", ""),
    ],
    ids=["none", "no archive", "a link", "a link up", "a way up", "a hard link", "a device"],
)
def test_an_archive_that_is_none_or_leads_out_is_refused_for_good(
    tmp_path: Path, data: bytes | None
) -> None:
    with pytest.raises(code.CannotInstall) as error:
        install(tmp_path / "place", data)
    assert error.value.final
    assert list((tmp_path / "place").glob("*/*/*")) == []
    assert not (tmp_path / "over").exists()


def test_what_has_another_hash_is_refused(tmp_path: Path) -> None:
    with pytest.raises(code.CannotInstall, match="the archive is not"):
        install(tmp_path, archive({"a": "b"}), "f" * 64)


def test_what_another_user_has_under_the_same_name_is_not_used(tmp_path: Path) -> None:
    data = archive({"train.py": "print()\n"})
    sha = hashlib.sha256(data).hexdigest()
    folder, _queue = install(tmp_path, data)
    (folder / "train.py").write_text("print('of another')\n")
    # As the folder of another user with this name and this archive, or one that was put there.
    os.chown(folder, 4321, -1) if os.geteuid() == 0 else folder.rename(tmp_path / "one" / "x")
    again: Any = Bucket(data)
    mine = code.install(tmp_path, "one", sha, ME, again)
    assert again.asked == 1
    assert (mine / "train.py").read_text() == "print()\n"
    other = pwd.struct_passwd(("other", *ME[1:]))
    assert code.install(tmp_path, "one", sha, other, again) != mine


def test_the_newest_stay_and_what_is_in_use(tmp_path: Path) -> None:
    for number in range(code.KEPT + 3):
        folder = tmp_path / f"run-{number}" / "code"
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))
    code.prune(tmp_path, "run-0")
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"run-0", *(f"run-{number}" for number in range(3, code.KEPT + 3))}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes folders of several users")
def test_a_user_who_stops_the_removal_delays_a_start_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, asked = pwd.getpwnam("nobody"), []
    for number in range(code.KEPT + 20):
        folder = tmp_path / f"run-{number}" / "code"
        folder.mkdir(parents=True)
        os.utime(folder, (number, number))
        if number % 2:
            os.chown(folder, theirs.pw_uid, -1)
    run_as = code.as_user.run_as

    def stopped(account: pwd.struct_passwd, words: list[str], *, seconds: float) -> Any:
        if account.pw_uid != theirs.pw_uid:
            return run_as(account, words, seconds=seconds)
        asked.append(seconds)
        raise code.as_user.TimeLimitError("it took longer than its time limit")

    monkeypatch.setattr(code.as_user, "run_as", stopped)
    code.prune(tmp_path, "one")
    assert len(asked) == 1
    assert asked[0] <= 5
    left = {int(path.name.removeprefix("run-")) for path in tmp_path.iterdir()}
    assert left == {*range(1, 20, 2), *range(20, 30)}
