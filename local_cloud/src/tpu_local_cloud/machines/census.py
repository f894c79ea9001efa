"""The running machines, cheap to read often: it lists two directories."""

from __future__ import annotations

import os
import resource
import time

from .layout import Layout

_SUFFIX = ".pid"
# A file that is overwritten in place does not change its folder.
_LOOK_ANYWAY = 5.0


class Census:
    """Caches the machines' process ids, and reads only changes."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._stamp = (0, 0)
        self._fresh = True
        self._looked = 0.0
        self._known: dict[str, tuple[int, int]] = {}

    def look(self) -> dict[str, int] | None:
        """Return the process id of each machine's PID 1; None when nothing has changed."""
        stamp = self._read_stamp()
        # Read once more after a change, because two changes may have the same time.
        now = time.monotonic()
        if stamp == self._stamp and not self._fresh and now - self._looked < _LOOK_ANYWAY:
            return None
        self._fresh, self._stamp, self._looked = stamp != self._stamp, stamp, now
        known: dict[str, tuple[int, int]] = {}
        with os.scandir(self._layout.run_dir) as entries:
            for entry in entries:
                if entry.name.endswith(_SUFFIX):
                    self._read(entry, known)
        self._known = known
        return {machine_id: pid for machine_id, (_, pid) in known.items()}

    def _read_stamp(self) -> tuple[int, int]:
        try:
            folders = (self._layout.run_dir, self._layout.machines_dir)
            run, records = (folder.stat().st_mtime_ns for folder in folders)
        except FileNotFoundError:
            return (0, 0)
        return run, records

    def _read(self, entry: os.DirEntry[str], known: dict[str, tuple[int, int]]) -> None:
        machine_id = entry.name.removesuffix(_SUFFIX)
        try:
            changed = entry.stat().st_mtime_ns
            if self._known.get(machine_id, (0, 0))[0] == changed:
                known[machine_id] = self._known[machine_id]
            else:
                with open(entry.path) as file:
                    known[machine_id] = (changed, int(file.read()))
        except (OSError, ValueError):
            # Just removed, or not yet written: the next call sees it.
            self._fresh = True


def allow_many_files() -> None:
    """Raise this process's limit of open files, for a thousand machines."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
