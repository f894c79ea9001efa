"""What worker 0 has compiled is on all workers before the next attempt, and on the next slice."""

from __future__ import annotations

import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
[ $TPU_FLEET_ATTEMPT = 2 ] || exit 1
"""


def test_an_entry_reaches_all_workers_and_the_next_slice(
    gang: Make, cloud: Emulator, tmp_path: Path
) -> None:
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json={"name": "lab"}, timeout=30).raise_for_status()
    (tmp_path / "entry").write_bytes(ENTRY)
    more: dict[str, Any] = {
        "archive": "gs://lab/all", "storage": cloud.url.rstrip("/"), "slice": "pair",
        "compile_cache_bytes": 10**6, "timing": {**harness.TIMING, "archive": 0.5},
    }  # fmt: skip
    workers = gang(COMPILES, **more)
    for worker in workers:
        worker.define(worker.given, {"ENTRY": str(tmp_path / "entry")})
        worker.up()
    for worker in workers:
        worker.wait(state="succeeded", attempt=2)
        assert [line[:4] for line in said(worker)] == ["cold", "warm"]
        assert worker.status()["problems"] == []
    # All of the slice is lost with its disks, and its successor's first attempt is warm.
    listing = f"{cloud.url}storage/v1/b/lab/o?prefix=all/demo/compile-cache/"
    look = lambda: requests.get(listing, timeout=30).json().get("items")  # noqa: E731
    harness.wait_until(look, "the entry in the bucket")
    for worker in workers:
        worker.stop()
        for name in ("state", "cache", "log"):
            shutil.rmtree(worker.folder / name)
        worker.up()
    for worker in workers:
        worker.wait(state="succeeded", attempt=2)
        assert [line[:4] for line in said(worker)] == ["warm", "warm"]


def said(worker: Any) -> list[str]:
    return [line for line in worker.log().splitlines() if line[:4] in ("warm", "cold")]
