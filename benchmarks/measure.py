"""Measure commands, and show and keep what was found: for all benchmarks here.

A small process of its own starts each command (this file, run as a program). The kernel counts a
process from its fork on, so a command of a benchmark that holds much data would be charged for
that memory; and what a command leaves running, such as ssh's shared connections, becomes a child
of the small process, whose CPU then counts as well.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Cost:
    """What one command took: seconds, CPU seconds, and the MiB of its largest process."""

    wall: float
    cpu: float
    peak_memory: float


@dataclass(frozen=True)
class Line:
    """One line of a benchmark's promises: a figure, and how large it may be."""

    what: str
    figure: float
    most: float

    @property
    def reached(self) -> bool:
        """Say whether the promise is kept."""
        return self.figure <= self.most


def measured(
    argv: Sequence[str | Path],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    output: Path | None = None,
) -> Cost:
    """Run a command and return what it took; end the benchmark when the command fails.

    What it prints goes to the file `output`, if one is given.
    """
    words = [str(word) for word in argv]
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-measure-") as name:
        told, result = Path(name) / "stderr", Path(name) / "result"
        said = output or Path(name) / "stdout"
        small = [sys.executable, "-I", "-S", __file__, str(result), *words]
        with said.open("wb") as out, told.open("wb") as errors:
            code = subprocess.run(
                small, stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=env, cwd=cwd
            ).returncode
        if code:
            shown = said.read_text()[-4000:] + told.read_text()[-4000:]
            sys.exit(f"{' '.join(words)} failed ({code}):\n{shown}")
        return Cost(**json.loads(result.read_text()))


def interleaved(rows: Mapping[str, Callable[[], Cost]], repeat: int = 5) -> dict[str, list[Cost]]:
    """Measure all rows once, then all again …: what else the computer does meets all alike."""
    runs: dict[str, list[Cost]] = {name: [] for name in rows}
    for number in range(repeat):
        for name, run in rows.items():
            runs[name].append(run())
            if sys.stderr.isatty():
                print(f"\r{number + 1}/{repeat} {name:<60.60}", end="\r", file=sys.stderr)
    return runs


def medians(runs: Sequence[Cost]) -> Cost:
    """Return the median of each figure."""
    return Cost(
        *(
            statistics.median(getattr(run, name) for run in runs)
            for name in ("wall", "cpu", "peak_memory")
        )
    )


def table(runs: Mapping[str, Sequence[Cost]], yardstick: str) -> str:
    """Return the medians of all rows, and how many times those of the yardstick they are."""
    base = medians(runs[yardstick])
    width = max(map(len, runs)) + 2
    heads = ("wall s", "CPU s", "max MiB", "wall", "CPU", "memory")
    lines = [" " * width + "".join(f"{head:>9}" for head in heads)]
    for name, costs in runs.items():
        cost = medians(costs)
        figures = f"{cost.wall:9.2f}{cost.cpu:9.2f}{cost.peak_memory:9.0f}"
        ratios = (
            f"{mine / other:8.2f}x" if other else f"{'-':>9}"
            for mine, other in zip(asdict(cost).values(), asdict(base).values(), strict=True)
        )
        lines.append(f"{name:<{width}}{figures}{''.join(ratios)}")
    return "\n".join(lines)


def promises(lines: Sequence[Line]) -> str:
    """Return each line with its figure, and whether it is reached."""
    return "\n".join(
        f"{'reached    ' if line.reached else 'NOT REACHED'} {line.what}: "
        f"{line.figure:.3g} (at most {line.most:g})"
        for line in lines
    )


def record(
    path: Path | None,
    benchmark: str,
    runs: Mapping[str, Sequence[Cost]],
    lines: Sequence[Line] = (),
    **facts: Any,
) -> None:
    """Write everything as JSON, so that runs can be compared; without a path do nothing."""
    if path is None:
        return
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.strip()
    data = {
        "benchmark": benchmark,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "computer": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "python": platform.python_version(),
            "load": os.getloadavg(),
        },
        "facts": facts,
        "medians": {name: asdict(medians(costs)) for name, costs in runs.items()},
        "runs": {name: [asdict(cost) for cost in costs] for name, costs in runs.items()},
        "lines": [{**asdict(line), "reached": line.reached} for line in lines],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n")


def _cpu_of_those_left() -> float:
    """Return the CPU seconds of what the command left running, which are our children now."""
    left = Path("/proc/self/task", str(os.getpid()), "children").read_text().split()
    ticks = 0
    for child in left:
        # user and system time of the process, and of those that it waited for
        fields = Path("/proc", child, "stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def _run_and_count(result: Path, argv: list[str]) -> int:
    """Run a command as the child of this small process, and write down what it took."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    started = time.monotonic()
    code = subprocess.run(argv, check=False).returncode
    wall = time.monotonic() - started
    left = _cpu_of_those_left()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = Cost(wall, used.ru_utime + used.ru_stime + left, used.ru_maxrss / 1024)
    result.write_text(json.dumps(asdict(cost)))
    return code


if __name__ == "__main__":
    sys.exit(_run_and_count(Path(sys.argv[1]), sys.argv[2:]))
