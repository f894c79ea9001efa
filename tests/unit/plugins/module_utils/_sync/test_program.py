"""What a worker says of its own trouble while it takes a version."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._sync import program
from ansible_collections.tpu.fleet.plugins.module_utils._sync.worker import RefusedError


def disks(monkeypatch: pytest.MonkeyPatch, full: str, free: int = 0, inodes: int = 9) -> None:
    """Let the disk of one of the folders be full."""

    def statvfs(folder: str) -> SimpleNamespace:
        blocks, left = (free, inodes) if folder == full else (1 << 30, 9)
        return SimpleNamespace(f_bavail=blocks, f_frsize=1, f_files=9, f_favail=left)

    monkeypatch.setattr(program.os, "statvfs", statvfs)


@pytest.mark.parametrize(("free", "inodes"), [(100, 9), (1 << 30, 0)])
def test_a_full_disk_is_named_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, free: int, inodes: int
) -> None:
    disks(monkeypatch, "/var/lib/tpu-fleet", free, inodes)
    assert program._why(OSError(errno.ENOSPC, "No space left on device")) == (
        "no room is left in /var/lib/tpu-fleet. Find what is large: "
        "sudo du -xh --max-depth=3 /var/lib/tpu-fleet | sort -h | tail"
    )


def test_other_trouble_has_words_and_no_numbers(tmp_path: Path) -> None:
    assert program._why(RefusedError("not that")) == "not that"
    with pytest.raises(OSError, match="Errno") as caught:
        (tmp_path / "none").read_text()
    assert program._why(caught.value) == f"{tmp_path / 'none'}: No such file or directory"
