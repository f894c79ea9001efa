"""Small JSON files that are there whole or not at all, also on a full disk."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..decide.values import json_object
from . import as_user

if TYPE_CHECKING:
    from ..decide.config import Paths


def read(path: Path) -> dict[str, Any] | None:
    """Return a file's object; None when it is missing or broken."""
    try:
        return json_object(path.read_bytes())
    except OSError:
        return None


def write(path: Path, data: dict[str, Any], mode: int = 0o644) -> None:
    """Replace a file in one step; file and name are on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    as_user.write_plain(str(path), text_of(data).encode("utf-8"), mode)


def text_of(data: dict[str, Any]) -> str:
    """Return an object as text with each of its values on a line, indented by two spaces.

    So the apply agent finds the state (`glance.run_words`).
    """
    # `indent` would take the encoder that is written in Python, a part of each restart's time.
    lines = (
        f"  {json.dumps(name)}: {json.dumps(data[name], sort_keys=True)}" for name in sorted(data)
    )
    return "{\n" + ",\n".join(lines) + "\n}\n"


class Kept:
    """A JSON file on the disk, with a second home in memory for when the disk is full."""

    def __init__(self, path: Path, spare: Path) -> None:
        self.path = path
        self.spare = spare
        self.error = ""
        self._last: dict[str, Any] | None = None

    def load(self) -> dict[str, Any] | None:
        """Return the newer of the two."""
        found = [data for data in (read(self.path), read(self.spare)) if data is not None]
        if not found:
            return None
        newest = max(found, key=lambda data: int(data.get("serial", 0)))
        self._last = newest
        return newest

    def save(self, data: dict[str, Any]) -> None:
        """Write when something changed; a disk that takes nothing is noted, never fatal."""
        before = self._last or {}
        same = {k: v for k, v in before.items() if k != "serial"} == data
        if same and not self.error:
            return
        entry = dict(data, serial=int(before.get("serial", 0)) + 1)
        try:
            write(self.path, entry)
            self.error = ""
            with contextlib.suppress(OSError):
                self.spare.unlink()
        except OSError as error:
            self.error = f"{self.path.name} cannot be written: {error.strerror}"
            with contextlib.suppress(OSError):
                write(self.spare, entry)
        self._last = entry


def status_of(paths: Paths) -> Kept:
    """Return a run's status."""
    return Kept(paths.state / "status.json", paths.runtime / "status.json")
