"""Has a run's compilation cache filled before an attempt, and kept in bounds and in the bucket.

The work is done by processes with the rights of the run's user (`cache_round.py`), and on worker 0
by one that serves the others of the gang (`cache_peer.py`). Nothing that goes wrong here keeps a
run from starting: it compiles then.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..decide import archive, compile_cache
from ..decide.config import Config
from ..decide.values import is_whole, one_line
from . import child, terminal
from .hand import Hand
from .helper import Helper

_MOST = 2 << 20
_FETCH_SECONDS = 60.0  # that a start waits for entries at most
_FILLS = "its compilation cache is being filled"
_SERVES_WITHIN = 10.0  # seconds within which worker 0 serves, if it does
_ROUND_SECONDS = 240.0
_SERVER_PAUSE = 30.0


class CompileCache:
    """What is known of a run's compilation cache; a run without one has nothing done."""

    def __init__(self, config: Config, hand: Hand, gang_key: Callable[[], str]) -> None:
        self._config, self._hand, self._gang_key = config, hand, gang_key
        place = archive.prefix_of(config.archive, config.run)
        # Of each gang: where the slices of a run train alone, they have a key each.
        gang = f"{place[1]}{archive.COMPILE_CACHE}/{config.fence}/" if place else ""
        self._bucket = (place[0], gang) if place else None
        self._helper = Helper(config.user, _ROUND_SECONDS + _FETCH_SECONDS, _MOST)
        self._fetches = self._again = False
        self._known: list[str] = []
        self._stamp: list[int] | None = None
        self._looked: float | None = None
        self._fetched: float | None = None
        self._waits: float | None = None  # since when a start could have had its entries
        self._server: subprocess.Popen[bytes] | None = None
        self._served = ("", 0.0)  # by which key, and when that began
        self._last_fetched = 0  # entries, before the last start
        # What named worker 0's entries, and this folder's, when all had been fetched.
        self._whole: tuple[str, list[int] | None] | None = None
        self._theirs = ""
        self.errors: list[str] = []

    def take_over(self, before: CompileCache) -> None:
        """Go on with what the watch of the agent before knew, and end that."""
        if self._about == before._about:
            self._server, before._server, self._served = before._server, None, before._served
            self._known, self._last_fetched = before._known, before._last_fetched
            self._whole = before._whole
            # A round that is on ends, and is begun again.
            if not before._helper.is_busy:
                self._looked, self._stamp = before._looked, before._stamp
        before.close()

    @property
    def folder(self) -> Path | None:
        """Return the folder; None where the run has no such cache, or its own."""
        return terminal.cache_folder(self._config)

    def look(self, now: float, idle: bool) -> None:
        """Take in a round that has ended; begin one when the program has written an entry."""
        self._take_in()
        folder = self.folder
        if folder is None:
            return
        key = self._key
        self._serve(now, key, folder)
        if self._looked is not None and now - self._looked < self._config.timing.archive:
            return
        self._looked, before = now, self._stamp
        self._stamp = self._hand.stamp(folder)
        # While nothing runs and nothing was seen before, the next start has its own round.
        if not self._helper.is_busy and self._stamp != before and not (idle and before is None):
            self._begin(folder, key, fetch=False)

    def offered(self) -> str:
        """Return what names the entries that the other workers may fetch from this one."""
        stamp = self._hand.stamp(self.folder) if self.folder else None
        return "-".join(map(str, stamp or []))

    def obstacle(self, now: float, heard: bool, theirs: str = "") -> str:
        """Say that a start waits for entries, which it does for a minute at most; else empty.

        `heard` says whether worker 0 has answered, which serves entries from then on, or soon, and
        `theirs` names its entries.
        """
        folder, key = self.folder, self._key
        if folder is None or not (self._bucket or self._peer) or not key:
            return ""
        self._take_in()
        if not heard:
            return _FILLS
        # A round that goes on may be another's, which a start does not wait for much longer either.
        waits = self._waits = now if self._waits is None else self._waits
        begun = now if self._fetched is None else self._fetched
        again = self._again and now - begun < _SERVES_WITHIN
        if not self._helper.is_busy and (self._fetched is None or again):
            self._fetched, self._theirs = begun, theirs
            if self._has_all(folder, theirs):
                return ""
            terminal.give_cache_folder(self._config)
            self._begin(folder, key, fetch=True)
        return _FILLS if self._helper.is_busy and now - waits <= _FETCH_SECONDS else ""

    def shown(self) -> dict[str, Any] | None:
        """Return what the status says of the cache; None where the agent has none to look after."""
        if self.folder is None:
            return None
        return {
            "folder": str(self.folder),
            "entries": len(self._known),
            "fetched": self._last_fetched,
            "errors": self.errors,
        }

    def forget(self) -> None:
        """Fetch once more before the next start."""
        self._fetched = self._waits = None

    def close(self) -> None:
        """End what works beside the loop."""
        self._helper.close()
        self._end_server()

    def _has_all(self, folder: Path, theirs: str) -> bool:
        """Return whether nothing has changed, here and at worker 0, since all was fetched."""
        if self._bucket or not theirs or self._whole is None or self._whole[0] != theirs:
            return False
        return self._whole[1] == self._hand.stamp(folder)

    @property
    def _key(self) -> str:
        return compile_cache.key_of(self._gang_key(), self._config.run, self._config.user)

    @property
    def _about(self) -> tuple[Any, ...]:
        """Return all on which the work depends."""
        config = self._config
        place = (config.leader, config.workers, config.port, config.hosts)
        return (self.folder, self._bucket, self._key, *place)

    @property
    def _peer(self) -> list[Any] | None:
        config = self._config
        if config.leader:
            return None
        return [config.hosts[0], config.port, config.hosts[config.worker]]

    def _begin(self, folder: Path, key: str, fetch: bool) -> None:
        config = self._config
        order = {
            "folder": str(folder),
            "limit": config.compile_cache_bytes,
            "key": key,
            "known": self._known,
            "fetch": fetch,
            "send": bool(key),
            "prune": config.leader,
            "seconds": _FETCH_SECONDS if fetch else _ROUND_SECONDS,
            "peer": self._peer,
            "storage": config.storage,
            "metadata": config.metadata,
        }
        if self._bucket is not None:
            order.update(bucket=self._bucket[0], prefix=self._bucket[1])
        self._fetches, self._again = fetch, False
        self._helper.ask("cache", given=json.dumps(order).encode())

    def _take_in(self) -> None:
        """Take in what a round says: it is the user's, and goes back to the user."""
        answer = self._helper.answer()
        if answer is None:
            return
        names = answer.get("known")
        if isinstance(names, list):
            names = [one for one in names if isinstance(one, str) and compile_cache.is_entry(one)]
            self._known = names[: compile_cache.MOST_ENTRIES]
        fetched = answer.get("fetched")
        errors = answer.get("errors", [answer.get("error", "no answer")])
        self._again = self._fetches and answer.get("again") is True
        if self._fetches and self.folder:
            self._whole = None if errors else (self._theirs, self._hand.stamp(self.folder))
        if self._fetches and is_whole(fetched):
            self._last_fetched = max(0, min(fetched, compile_cache.MOST_ENTRIES))
        self.errors = [one_line(str(one)) for one in errors][:3] if isinstance(errors, list) else []

    # The server of worker 0

    def _serve(self, now: float, key: str, folder: Path) -> None:
        config = self._config
        if not config.leader or config.workers < 2 or not key:
            return
        served, begun = self._served
        alive = self._server is not None and self._server.poll() is None
        if (alive and served == key) or (not alive and begun and now - begun < _SERVER_PAUSE):
            return
        self._end_server()
        self._served = (key, now)
        order = {
            "host": config.hosts[0],
            "port": config.port,
            "peers": config.hosts,
            "folder": str(folder),
            "key": key,
        }
        with contextlib.suppress(OSError, KeyError):
            self._server = child.begun(config.user, "cache-serve")
            if self._server.stdin is not None:
                os.write(self._server.stdin.fileno(), json.dumps(order).encode() + b"\n")

    def _end_server(self) -> None:
        server, self._server = self._server, None
        child.end(server)
