"""What all clouds of a computer share, and other users of it cannot hold."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from tpu_local_cloud.machines.layout import locked


@pytest.mark.parametrize("there", [False, True], ids=["new", "of an earlier version"])
def test_only_its_user_can_open_a_lock(tmp_path: Path, there: bool) -> None:
    path = tmp_path / "shared" / "lock"
    if there:
        path.parent.mkdir()
        path.touch(mode=0o644)
    with locked(path):
        assert path.stat().st_mode & 0o777 == 0o600
        with path.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with locked(path):
        pass
