"""Chips that other processes hold, and libtpu's lock file."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from run_agent.act import (
    devices,
)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """Make a root folder with two chips, a lock file and one process."""
    for name in ("dev/accel0", "dev/vfio/0", "tmp/libtpu_lockfile", "proc/77/comm"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("python\n")
    (tmp_path / "proc/77/fd").mkdir()
    (tmp_path / "proc/self").mkdir()
    return tmp_path


@pytest.mark.parametrize("device", ["/dev/accel0", "/dev/vfio/0"])
def test_a_held_chip_is_reported_and_its_lock_left_alone(host: Path, device: str) -> None:
    (host / "proc/77/fd/5").symlink_to(device)
    text = devices.obstacle(host)
    assert text.startswith(f"{device} is held by process 77 (python) of ")
    assert (host / "tmp/libtpu_lockfile").exists()


@pytest.mark.parametrize("left", ["file", "folder", "link", "nothing"])
def test_the_lock_file_is_the_users_whatever_was_there(host: Path, left: str) -> None:
    (host / "proc/77/fd/5").symlink_to("/dev/null")
    assert devices.obstacle(host) == ""
    lock, precious = host / "tmp/libtpu_lockfile", host / "precious"
    precious.write_text("kept")
    if left != "file":
        lock.unlink()
    if left == "folder":
        (lock / "deep").mkdir(parents=True)
    elif left == "link":
        lock.symlink_to(precious)
    devices.give_lock_file(host, 2002, 2003)
    seen = lock.lstat()
    assert (stat.S_ISREG(seen.st_mode), seen.st_uid, seen.st_gid, seen.st_size) == (
        True,
        2002,
        2003,
        0,
    )
    assert (precious.read_text(), precious.stat().st_uid) == ("kept", os.getuid())
    moved = list((host / "tmp").glob(".libtpu_lockfile-moved-away-*"))
    assert [
        (one.stat().st_mode & 0o777, (one / "libtpu_lockfile/deep").is_dir()) for one in moved
    ] == ([(0o700, True)] if left == "folder" else [])


def test_a_process_names_itself_in_any_bytes(host: Path) -> None:
    (host / "proc/77/fd/5").symlink_to("/dev/accel0")
    (host / "proc/77/comm").write_bytes(b"\xff\n")
    assert devices.obstacle(host).startswith("/dev/accel0 is held by process 77 (\ufffd) of ")
