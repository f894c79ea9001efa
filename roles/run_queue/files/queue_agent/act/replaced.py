"""Files that are replaced in a folder, as something that `select` can wait for: Linux' inotify."""

from __future__ import annotations

import contextlib
import ctypes
import os

_MOVED_TO = 0x80


class Replaced:
    """Looks at one folder at a time; without inotify it looks at none, and no wait ends early."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._handle = self._library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._folder, self._watch = "", -1

    def watch(self, folder: str) -> list[int]:
        """Look at this folder alone; return what is readable once a file was replaced there."""
        if self._handle < 0:
            return []
        if folder != self._folder:
            if self._watch >= 0:
                self._library.inotify_rm_watch(self._handle, self._watch)
            name = os.fsencode(folder)
            self._watch = self._library.inotify_add_watch(self._handle, name, _MOVED_TO)
            # One that is not there yet is tried again.
            self._folder = folder if self._watch >= 0 else ""
        return [self._handle]

    def take(self) -> None:
        """Take note of what was replaced by now."""
        if self._handle >= 0:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._handle, 1 << 16):
                    pass

    def close(self) -> None:
        """Look at nothing any more."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
