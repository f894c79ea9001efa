"""Looks at the checkpoint folder as the run's user, beside the agent's own loop.

A share whose server is away holds everybody who looks: here that is a child, and a thread that
waits for it. The agent itself goes on, and says what it waits for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, Optional

from . import fence, terminal
from .config import Config

# On a disk of its own nobody else can still be writing. All other kinds may be shared.
_OF_ONE_MACHINE = ("ext3", "ext4", "xfs", "btrfs", "overlay")
_SCRIPT = Path(__file__).resolve().parent.parent / "tpu_fleet_run.py"


def child(text: str) -> int:
    """Look, and put a name on the folder if told to; print what was found."""
    asked = json.loads(text)
    path = Path(asked["path"])
    found = fence.read(path)
    error = ""
    if asked["owner"] and found is not None and found.owner != asked["owner"]:
        mark = fence.heir(found, asked["owner"], asked["where"])
        try:
            fence.write(path, mark)
            found = mark
        except OSError as trouble:
            error = f"{path}: {trouble.strerror}"
    shown = asdict(found) if found else None
    told = {"mark": shown, "free": free_bytes(path.parent), "error": error}
    print(json.dumps({**told, "alone": kind_of(path.parent) in _OF_ONE_MACHINE}))
    return 0


def kind_of(folder: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """Return the type of the file system that a folder is on, or will be."""
    place, best, kind = os.path.realpath(str(folder)), "", ""
    for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines():
        left, _dash, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # of two on one place, the later hides the other
            best, kind = point, right.split()[0]
    return kind


def free_bytes(folder: Path) -> Optional[int]:
    """Return what an ordinary user can still write there, or in the folder that it will be in."""
    for place in (folder, *folder.parents):
        try:
            found = os.statvfs(str(place))
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return found.f_bavail * found.f_frsize
    return None


class FolderLook:
    """One look at a time; the answer is there some time later."""

    def __init__(self, config: Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._thread: Optional[threading.Thread] = None
        self._answer: Optional[Dict[str, Any]] = None

    def begin(self, take_over_as: str, where: str) -> None:
        """Start to look, unless it is being done; with a name, take the folder over from others."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._answer = None
        asked = {"path": str(self._path), "owner": take_over_as, "where": where}
        self._thread = threading.Thread(target=self._run, args=(json.dumps(asked),), daemon=True)
        self._thread.start()

    def answer(self, seconds: float) -> Optional[Dict[str, Any]]:
        """Return what was found, waiting a little; None when it is not known yet."""
        if self._thread is None:
            return None
        self._thread.join(seconds)
        return None if self._thread.is_alive() else self._answer

    def _run(self, text: str) -> None:
        command = [sys.executable, str(_SCRIPT), "look", text]
        try:
            done = subprocess.run(
                terminal.as_user(self._config.user, command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd="/",
                check=False,
            )
            answer = json.loads(done.stdout)
            self._answer = answer if isinstance(answer, dict) else {"error": "no answer"}
        except (OSError, ValueError, terminal.CannotStart) as error:
            self._answer = {"error": f"{self._path.parent} cannot be looked at: {error}"}
