"""What worker 0 has compiled is on all workers before the next attempt, and on the next slice."""

from __future__ import annotations

import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import requests
from emulator import Emulator

harness = sys.modules["run_agent_harness"]
Make = Callable[..., list[Any]]
NAME = f"jit_step-{'0f' * 32}-cache"
ENTRY = zlib.compress(b"code" * 1000)
# As JAX does: only the first process writes.
COMPILES = f"""
cd "$JAX_COMPILATION_CACHE_DIR"
[ -e {NAME} ] && echo "warm $(md5sum < {NAME})" || echo cold
[ $TPU_FLEET_WORKER = 0 ] && cp $ENTRY {NAME}
[ $TPU_FLEET_ATTEMPT = 3 ] || exit 1
"""


def start(workers: list[Any], entry: Path) -> None:
    """Start the agents; the program of worker 0 compiles this entry."""
    entry.write_bytes(ENTRY)
    for worker in workers:
        worker.define(worker.given, {"ENTRY": str(entry)})
        worker.up()


def said(workers: list[Any]) -> list[list[str]]:
    """Wait for the end; return what each attempt found, by worker."""
    found = []
    for worker in workers:
        worker.wait(state="succeeded", attempt=3)
        lines = [line[:4] for line in worker.log().splitlines()]
        found.append([line for line in lines if line in ("warm", "cold")])
    return found


def test_an_entry_reaches_all_workers(gang: Make, tmp_path: Path) -> None:
    workers = gang(COMPILES, compile_cache_bytes=10**6)
    start(workers, tmp_path / "entry")
    assert said(workers) == [["cold", "warm", "warm"], ["cold", "warm", "warm"]]
    assert [worker.status()["problems"] for worker in workers] == [[], []]
    # By the second start: the third found nothing new at worker 0, and asked for nothing.
    assert workers[1].status()["compile_cache"]["fetched"] == 1


# In CI the unit test_cache_watch.py fetches what was sent to a bucket, with the same processes.
@pytest.mark.night
def test_the_next_slice_begins_warm(gang: Make, cloud: Emulator, tmp_path: Path) -> None:
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json={"name": "lab"}, timeout=30).raise_for_status()
    more: dict[str, Any] = {
        "archive": "gs://lab/all", "storage": cloud.url.rstrip("/"), "slice": "pair",
        "compile_cache_bytes": 10**6, "timing": {**harness.TIMING, "archive": 0.5},
    }  # fmt: skip
    workers = gang(COMPILES, **more)
    start(workers, tmp_path / "entry")
    assert said(workers) == [["cold", "warm", "warm"], ["cold", "warm", "warm"]]
    listing = f"{cloud.url}storage/v1/b/lab/o?prefix=all/demo/compile-cache/"
    look = lambda: requests.get(listing, timeout=30).json().get("items")  # noqa: E731
    harness.wait_until(look, "the entry in the bucket")
    # All of the slice is lost with its disks.
    for worker in workers:
        worker.stop()
        for name in ("state", "cache", "log"):
            shutil.rmtree(worker.folder / name)
        worker.up()
    assert said(workers) == [["warm", "warm", "warm"], ["warm", "warm", "warm"]]
