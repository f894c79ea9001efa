"""Logs that rotate, and disks that are full."""

from __future__ import annotations

import errno
from pathlib import Path

from run_agent.act import (
    logs,
    store,
)


def test_a_log_rotates_at_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    log = logs.LogFile(str(path), limit=20, keep=2)
    log.write(b"".join(b"line %d\n" % number for number in range(9)))
    log.write(b"x" * 45 + b"\n")
    log.close()
    sizes = {item.name: item.stat().st_size for item in tmp_path.iterdir()}
    assert sizes == {"run.log": 6, "run.log.1": 20, "run.log.2": 20}
    log = logs.LogFile(str(path), limit=20, keep=2)
    log.write(b"appended\n")
    assert path.read_bytes() == b"xxxxx\nappended\n"


def test_a_full_disk_is_counted_and_forgotten_when_it_is_over(tmp_path: Path) -> None:
    health = logs.Health(str(tmp_path / "log.json"), "/var/log/run.log")
    full = OSError(errno.ENOSPC, "No space left on device")
    health.lost(10, full, now=0)
    health.lost(5, full, now=1)  # told every few seconds only
    assert store.read(tmp_path / "log.json") == {
        "error": "/var/log/run.log: No space left on device",
        "dropped_bytes": 10,
    }
    health.well(now=2)
    assert store.read(tmp_path / "log.json") == {"error": "", "dropped_bytes": 15}


def test_the_next_attempts_log_ends_the_error_of_the_one_before(tmp_path: Path) -> None:
    """It stood there until a reboot: the writer that had it was gone with its program."""
    full = OSError(errno.ENOSPC, "No space left on device")
    logs.Health(str(tmp_path / "log.json"), "/var/log/run.log").lost(10, full, now=0)
    health = logs.Health(str(tmp_path / "log.json"), "/var/log/run.log")
    health.well(now=1)
    assert store.read(tmp_path / "log.json") == {"error": "", "dropped_bytes": 10}
    health.lost(5, full, now=2)
    assert (store.read(tmp_path / "log.json") or {})["dropped_bytes"] == 15
    (tmp_path / "log.json").write_text('{"dropped_bytes": "many", "error": null}')
    assert logs.Health(str(tmp_path / "log.json"), "x").dropped == 0
