"""The secret by which the workers of a gang know each other.

The controller makes it, one for each gang, and writes it where only root reads. Where no
controller did, worker 0 makes one and sends it to the workers of its slice, from root to root. The
one before is accepted until all workers have the new one, so a renewal disturbs no run.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Any

from ..act import store
from ..decide.values import is_key


def name_of(key: str) -> bytes:
    """Return a name of a key that does not reveal it."""
    return hashlib.sha256(b"tpu-fleet key " + key.encode("ascii")).digest()[:8]


def signature(key: str, context: bytes, data: bytes) -> bytes:
    """Sign a message; the context distinguishes runs, workers, directions and connections."""
    own = hmac.new(bytes.fromhex(key), b"tpu-fleet gang\0" + context, hashlib.sha256).digest()
    return hmac.new(own, data, hashlib.sha256).digest()


class Keys:
    """The key of one gang, and the one before it."""

    def __init__(self, given: str, path: Path) -> None:
        self._path = path
        self.error = ""
        data = store.read(path) or {}
        self.current = data["current"] if is_key(data.get("current")) else ""
        self.previous = data["previous"] if is_key(data.get("previous")) else ""
        self.made_here = data.get("made_here") is True
        if given and given != self.current:
            self._take(given, made_here=False)
        elif given and self.made_here:
            self.made_here = False
            self._save()

    @property
    def all(self) -> list[str]:
        """Return what is accepted, the newest first."""
        return [key for key in (self.current, self.previous) if key]

    def find(self, name: bytes) -> str | None:
        """Return the key of a name."""
        return next((key for key in self.all if hmac.compare_digest(name_of(key), name)), None)

    def make(self) -> None:
        """Make a key where no controller gave one."""
        if not self.current:
            self._take(secrets.token_hex(32), made_here=True)

    def learn(self, key: str) -> None:
        """Take the key that worker 0 has made."""
        if key != self.current:
            self._take(key, made_here=True)

    def forget_previous(self) -> None:
        """Accept only the present key: every worker has it."""
        if self.previous:
            self.previous = ""
            self._save()

    def _take(self, key: str, made_here: bool) -> None:
        self.previous, self.current, self.made_here = self.current, key, made_here
        self._save()

    def _save(self) -> None:
        data: dict[str, Any] = {
            "current": self.current,
            "previous": self.previous,
            "made_here": self.made_here,
        }
        try:
            store.write(self._path, data, mode=0o600)
            self.error = ""
        except OSError as error:  # a full disk: it is given, or made, again
            self.error = f"{self._path.name} cannot be written: {error.strerror}"
