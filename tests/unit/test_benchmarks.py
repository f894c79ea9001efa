"""Each benchmark still starts: it finds all that it imports, and reads its arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# The others are modules of these, or have no arguments.
STARTED = sorted(
    path.name for path in BENCHMARKS.glob("*.py") if "ArgumentParser(" in path.read_text()
)


def test_benchmarks_are_found() -> None:
    assert {"inventory.py", "pod.py", "poll.py"} <= set(STARTED)


@pytest.mark.parametrize("name", STARTED)
def test_a_benchmark_shows_its_arguments(name: str) -> None:
    # In a process of its own: each one changes the paths of imports and of collections.
    argv = [sys.executable, BENCHMARKS / name, "--help"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert f"usage: {name}" in done.stdout
