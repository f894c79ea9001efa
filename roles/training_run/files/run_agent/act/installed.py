"""Where the files of the agent are on this machine, and how one of its commands is started."""

from __future__ import annotations

import sys
from pathlib import Path

FILES = Path(__file__).resolve().parents[2]


def command(*words: str) -> list[str]:
    """Return how to start a helper; the standard library is enough for it."""
    return [sys.executable, "-I", "-S", str(FILES / "tpu_fleet_run.py"), *words]
