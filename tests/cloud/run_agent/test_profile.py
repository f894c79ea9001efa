"""A profile of a run of JAX on CPUs: all workers, the same steps, and the run goes on."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from example_python import example_python

from tpu_fleet.workers.profile.bring import Answer, Bringer, Moment

harness = sys.modules["run_agent_harness"]
PROGRAM = Path(__file__).with_name("profiled.py")
RECORDER = (
    "import sys; from tpu_fleet.on_worker import limits, profiler; limits.begin(); "
    "sys.exit(profiler.main(sys.argv[1]))"
)
PLACES = {
    "state": "var/lib/tpu-fleet/runs/demo",
    "runtime": "run/tpu-fleet/runs/demo",
    "log": "var/log/tpu-fleet/runs/demo",
}


class LocalChannel:
    """The streams of a process in the place of those of a connection."""

    def __init__(self, name: str, process: asyncio.subprocess.Process) -> None:
        assert process.stdin and process.stdout
        self.target = SimpleNamespace(name=name)
        self.readline = process.stdout.readline
        self.readexactly = process.stdout.readexactly
        self._input = process.stdin

    async def write(self, data: bytes) -> None:
        self._input.write(data)
        await self._input.drain()


def as_on_a_machine(worker: Any) -> Path:
    """Have a worker keep its files where a machine has them, below a folder that is returned."""
    root = worker.folder / "machine"
    for name, place in PLACES.items():
        (root / place).mkdir(parents=True)
        (worker.folder / {"runtime": "r"}.get(name, name)).symlink_to(root / place)
    (root / "proc").symlink_to("/proc")
    paths = {name: str(root / place) for name, place in PLACES.items()}
    worker.define({**worker.given, "paths": {**paths, "log": f"{paths['log']}/run.log"}})
    return root


async def recorded(roots: Sequence[Path], folder: Path, seconds: float) -> list[Answer]:
    bringer = Bringer(Moment(len(roots)), folder)
    order = json.dumps({"run": "demo", "seconds": seconds, "most_bytes": 1 << 28})

    async def of(number: int, root: Path) -> Answer:
        words = (sys.executable, "-c", RECORDER, str(root), order)
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe)
        try:
            return await bringer.talk(LocalChannel(f"pair-w{number}", process))  # type: ignore[arg-type]
        finally:
            assert await process.wait() == 0

    return list(await asyncio.gather(*(of(*one) for one in enumerate(roots))))


def steps(worker: Any) -> list[int]:
    return [int(step) for step in re.findall(r"^step (\d+)", worker.log(), re.MULTILINE)]


def test_all_workers_record_the_same_steps_and_the_run_goes_on(
    gang: Callable[..., list[Any]], tmp_path: Path
) -> None:
    hosts = [f"127.0.0.{number}" for number in range(2, 6)]
    command = f"exec {example_python()} {PROGRAM}"
    workers = gang(command, workers=4, hosts=hosts)
    roots = [as_on_a_machine(worker) for worker in workers]
    for worker in workers:
        worker.up()
    for worker in workers:
        harness.wait_until(lambda worker=worker: len(steps(worker)) > 20, "twenty steps")

    answers = asyncio.run(recorded(roots, tmp_path, 2.0))
    print(answers)
