"""Which processes hold a chip."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import chip_holders
from ansible_collections.tpu.fleet.plugins.module_utils._host.chip_holders import devices, holders


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Make a root folder with devices and no process."""
    for name in ("dev/accel0", "dev/accel1", "dev/vfio/3", "dev/vfio/vfio", "proc/self/fd"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


def process(root: Path, pid: int, *files: str) -> None:
    folder = root / "proc" / str(pid) / "fd"
    folder.mkdir(parents=True)
    for number, file in enumerate(files):
        (folder / str(number)).symlink_to(file)


def test_the_devices_are_those_of_chips(root: Path) -> None:
    assert devices(root) == ["/dev/accel0", "/dev/accel1", "/dev/vfio/3"]
    assert devices(root / "proc") == []


def test_a_chip_that_is_open_has_a_holder(root: Path) -> None:
    process(root, 10, "/dev/null", "/dev/vfio/vfio", "/home/dev/accel0", "/dev/accelerated")
    process(root, 9, "/dev/vfio/3", f"{root}/dev/accel0", "pipe:[7]", "/dev/accel/2")
    found, unseen = holders(root)
    assert [(one.pid, one.uid, one.devices) for one in found] == [
        (9, os.getuid(), ("/dev/accel/2", "/dev/accel0", "/dev/vfio/3"))
    ]
    assert unseen == 0


def test_some_open_files_are_looked_at(root: Path) -> None:
    process(root, 8, "/dev/accel0")
    process(root, 9, *["/dev/null"] * 9)
    process(root, 10, "/dev/accel0")
    found, unseen = holders(root, most=5)
    assert ([one.pid for one in found], unseen) == ([8], 2)


def test_a_chip_under_another_name_is_known_by_its_number() -> None:
    """What a container calls it differs; here /dev/null stands for a chip."""
    number = Path(os.devnull).stat().st_rdev
    with open(os.devnull) as file:
        entry = f"/proc/self/fd/{file.fileno()}"
        assert chip_holders._chip(entry, Path("/"), {number}) == os.devnull
        assert chip_holders._chip(entry, Path("/"), set()) == ""


def test_a_file_of_a_users_own_mount_is_not_looked_at(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program may never answer, and root would wait for it."""
    shm = "/dev/" + "shm"
    process(root, 9, f"{shm}/mine/file", f"{shm}/file", "/dev/mqueue/x")
    monkeypatch.setattr(chip_holders.os, "stat", lambda path: pytest.fail(f"looked at {path}"))
    entries = [entry.path for entry in os.scandir(root / "proc/9/fd")]
    assert [chip_holders._chip(entry, Path("/"), {7}) for entry in entries] == [""] * 3
