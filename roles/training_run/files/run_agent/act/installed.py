"""Where the files of the agent are on this machine, and how one of its commands is started."""

from __future__ import annotations

import sys
from pathlib import Path

FILES = Path(__file__).resolve().parents[2]


def command(*words: str) -> list[str]:
    """Return how to start a command of `cli.py`, or the hand."""
    return [sys.executable, "-I", str(FILES / "tpu_fleet_run.py"), *words]
