"""Whether the kernel ended a process for want of memory."""

from __future__ import annotations

import os

import pytest
from run_agent.act import memory_look

SAID = (
    "3,900,5000000,-;Out of memory: Killed process 42 (python) total-vm:1kB, anon-rss:2kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:3kB oom_score_adj:0"
)


@pytest.mark.parametrize(
    ("uid", "since", "killed"),
    [(1000, 104.0, "process 42 (python)"), (1000, 106.0, ""), (1001, 0.0, ""), (None, None, "")],
)
def test_only_a_users_processes_since_the_start(
    uid: int | None, since: float | None, killed: str
) -> None:
    records = ["6,899,1,-;x", SAID, "6,901,6000000,-;y", "broken"]
    assert memory_look.last_killed(records, uid, since, boot=100.0) == killed


def test_this_machines_memory() -> None:
    found = memory_look.memory(os.geteuid(), None, os.getpid())
    assert 0 < found["free_bytes"] < found["size_bytes"]
