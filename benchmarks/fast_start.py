#!/usr/bin/env python3
"""How long a run needs from the begin of an attempt to its first step, with its cache and without.

    .venv/bin/python benchmarks/fast_start.py [--workers 2] [--times 2] [--json FILE]

Real run agents look after one run of a program of JAX that compiles for 20 s or more on CPUs
(slow_compile.py). All attempts are of this one run. After its first step a program is killed, and
the next attempt finds the compilation cache as the agents leave it, or none, in turn. JAX writes
entries on worker 0 alone, so what other workers find came over the network. Counted is by
the agents' own events, for the slowest worker; the yardstick is a start without a cache.

A Python with JAX is made once in .cache; TPU_FLEET_EXAMPLE_PYTHON names another one.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import ROOT, Cost, Line, promises, record

sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tests" / "cloud" / "run_agent"))

from example_python import example_python
from harness import Worker, clean_up
from waiting import wait_until

COLD, WITHOUT, WITH = "first attempt", "restart without", "restart with cache"
PARTS = ("prepare", "import", "compile", "first_step")
LEAST_COMPILATION = 20.0
MOST_SHARE = 0.5
"""Of a start without a cache, what one with it may take."""
SECONDS = 900.0


def run_of(base: Path, workers: int, port: int, layers: int) -> list[Worker]:
    """Return the workers of the run; none is up yet."""
    program = f"exec {example_python()} {ROOT}/benchmarks/slow_compile.py {layers}"
    definition: dict[str, Any] = {
        "run": "fast",
        "command": program,
        "hosts": [f"127.0.0.{number + 2}" for number in range(workers)],
        "port": port,
        "coordinator_port": port + 1,
        "peer_port": port + 2,
        "grace_seconds": 1,
        # Each failure is the first one.
        "fail_fast_seconds": 0,
        "retries": 1000,
        "compile_cache_bytes": 1 << 30,
        "timing": {"lost": 60.0},
    }
    return [Worker(base, index, definition) for index in range(workers)]


def started(workers: list[Worker], attempt: int) -> dict[str, Any]:
    """Wait for the first step of an attempt on all workers; return the event of the slowest."""

    def told() -> list[dict[str, Any]]:
        found = [
            event
            for worker in workers
            for event in worker.events("first-step")
            if event["attempt"] == attempt
        ]
        return found if len(found) == len(workers) else []

    found = wait_until(told, f"the first step of attempt {attempt}", SECONDS)
    return dict(max(found, key=lambda event: event["seconds"]))


def again(workers: list[Worker], attempt: int, cached: bool) -> None:
    """End an attempt on its last worker; without a cache for the next one, take it away."""
    pid = workers[-1].wait_running(attempt)
    if not cached:
        for worker in workers:
            shutil.rmtree(worker.folder / "cache")
    os.kill(pid, signal.SIGKILL)


def measure(base: Path, workers: int, times: int, port: int, layers: int) -> dict[str, list[Any]]:
    """Return what each start needed, by its kind."""
    found: dict[str, list[Any]] = {COLD: [], WITHOUT: [], WITH: []}
    here = run_of(base, workers, port, layers)
    try:
        for worker in here:
            worker.up()
        found[COLD].append(started(here, 1))
        for number, kind in enumerate([WITH, WITHOUT] * times, start=1):
            again(here, number, kind == WITH)
            found[kind].append(started(here, number + 1))
            print(f"{kind}: {found[kind][-1]['seconds']:.1f} s", file=sys.stderr)
    finally:
        clean_up(here)
    return found


def median(events: list[dict[str, Any]], part: str = "") -> float:
    """Return the median of the seconds, or of a part of them."""
    return statistics.median(
        float(event["parts"].get(part, 0.0) if part else event["seconds"]) for event in events
    )


def shown(found: dict[str, list[Any]]) -> str:
    """Draw a table: seconds to the first step, of what they consist, the ratio."""
    base = median(found[WITHOUT])
    heads = ("seconds", *(part.replace("_", " ") for part in PARTS), "ratio")
    lines = [" " * 20 + "".join(f"{head:>12}" for head in heads)]
    for kind, events in found.items():
        figures = [median(events), *(median(events, part) for part in PARTS)]
        row = "".join(f"{figure:12.1f}" for figure in figures)
        lines.append(f"{kind:<20}{row}{median(events) / base:11.2f}x")
    return "\n".join(lines)


def main() -> None:
    """Measure, and say whether the promises are kept."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2, choices=(1, 2, 4, 8))
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--layers", type=int, default=400)
    parser.add_argument("--port", type=int, default=23_200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    base = Path(tempfile.mkdtemp(prefix="fs"))
    try:
        found = measure(base, options.workers, options.times, options.port, options.layers)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print(shown(found))
    compiled = median(found[WITHOUT], "compile")
    lines = [
        Line(
            "share of a start without a cache",
            median(found[WITH]) / median(found[WITHOUT]),
            MOST_SHARE,
        ),
        Line("seconds less than 20 of compilation", LEAST_COMPILATION - compiled, 0.0),
    ]
    print(promises(lines))
    costs = {k: [Cost(one["seconds"], 0.0, 0.0) for one in events] for k, events in found.items()}
    facts = {"workers": options.workers, "layers": options.layers}
    record(options.json, "fast start", costs, lines, **facts, starts=found)


if __name__ == "__main__":
    main()
