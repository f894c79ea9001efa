"""Looks at the checkpoint folder as the run's user, beside the agent's own loop.

A share whose server is away blocks every reader: here that is a child, and a thread that
waits for it. The agent itself goes on, and says what it waits for.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ..decide import fence
from ..decide.config import Config
from ..decide.values import is_whole, one_line
from . import as_user, fence_file, installed
from .folder_facts import PLACES, free_bytes, kind_of, place_of

# On a disk of its own no other machine can still be writing. All other kinds may be shared.
_OF_ONE_MACHINE = ("ext3", "ext4", "xfs", "btrfs", "overlay")
_SECONDS = 3600.0  # a share may come back


def main(words: list[str]) -> int:
    """Look, and put a name on the folder if asked to; print what was found."""
    asked = json.loads(words[0])
    path = Path(asked["path"])
    found = fence_file.read(path)
    error = ""
    if asked["owner"] and found is not None and found.owner != asked["owner"]:
        mark = fence.heir(found, asked["owner"], asked["where"], time.time())
        try:
            fence_file.write(path, mark)
            found = mark
        except OSError as trouble:
            error = f"{path}: {trouble.strerror}"
    shown = asdict(found) if found else None
    told = {"mark": shown, "free": free_bytes(path.parent), "error": error}
    told["place"] = place_of(path.parent)
    print(json.dumps({**told, "alone": kind_of(path.parent) in _OF_ONE_MACHINE}))
    return 0


class FolderLook:
    """One look at a time; the answer is there some time later."""

    def __init__(self, config: Config, path: Path) -> None:
        self._config = config
        self._path = path
        self._thread: threading.Thread | None = None
        self._answer: dict[str, Any] | None = None

    def begin(self, take_over_as: str, where: str) -> None:
        """Start to look, unless it is being done; with a name, take the folder over from others."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._answer = None
        asked = {"path": str(self._path), "owner": take_over_as, "where": where}
        self._thread = threading.Thread(target=self._run, args=(json.dumps(asked),), daemon=True)
        self._thread.start()

    def answer(self, seconds: float) -> dict[str, Any] | None:
        """Return what was found, waiting a little; None when it is not known yet."""
        if self._thread is None:
            return None
        self._thread.join(seconds)
        return None if self._thread.is_alive() else self._answer

    def _run(self, text: str) -> None:
        command = installed.command("look", text)
        try:
            done = as_user.run_as(self._config.user, command, seconds=_SECONDS, most_bytes=65536)
            self._answer = _typed(json.loads(done.out))
        except (OSError, ValueError, KeyError, RecursionError, as_user.UserError) as error:
            self._answer = {"error": f"{self._path.parent} cannot be looked at: {error}"}


def _typed(answer: Any) -> dict[str, Any]:
    """Return what a look found: its answer is the user's."""
    if not isinstance(answer, dict):
        return {"error": "no answer"}
    mark, free = answer.get("mark"), answer.get("free")
    return {
        "mark": mark if isinstance(mark, dict) else None,
        "free": free if is_whole(free) else None,
        "error": one_line(str(answer.get("error") or "")),
        "alone": answer.get("alone") is True,
        "place": answer.get("place") if answer.get("place") in PLACES else "",
    }
