"""Has a run's archive written about every half minute, by processes with its user's rights.

Each round is a process of its own, and a thread waits for it: a bucket that is slow, full or
refuses delays neither the agent nor the run. What is not written yet stays in the log's files, and
nothing of it in memory.
"""

from __future__ import annotations

import contextlib
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from ..decide import archive
from ..decide.config import Config
from ..decide.values import one_line
from . import store
from .hand import Hand
from .helper import Helper

_MOST = 1 << 17
_SOON = 1.0  # seconds to the next round where one did not take everything
_HURRY = 5.0  # seconds between two rounds while the machine is being taken back
_LAST = 8.0  # seconds that the end of the agent may wait
_ALLOWED = 256.0  # results that may be written at once
_LIMITS = {"parts": 60.0, "results": 320.0}


@dataclass
class _Lane:
    """Rounds of one kind, one after the other."""

    what: str
    helper: Helper
    state: dict[str, Any] = field(default_factory=dict)
    wanted: bool = True
    """Whether a round is due although no program runs, as at the start of the agent."""
    begun: float = 0.0
    looked: float = 0.0
    due: float = 0.0
    error: str = ""
    note: str = ""
    whole_at: float | None = None
    """When the last round that took everything began, of the monotonic clock."""


class Archive:
    """What is known of a run's archive; without one it does nothing."""

    def __init__(self, config: Config, hand: Hand) -> None:
        self._config, self._hand = config, hand
        self._place = archive.prefix_of(config.archive, config.run)
        self._path = config.paths.state / "archive.json"
        self._lanes = {
            what: _Lane(what, Helper(config.user, seconds, _MOST))
            for what, seconds in _LIMITS.items()
        }
        self._stamps: Any = None
        self._allowed = _ALLOWED
        self._seen = time.monotonic()
        self._born = time.monotonic()
        self.life = ""
        self.workdir = config.workdir
        if self._place is not None:
            self._load()

    @property
    def host(self) -> str:
        """Return this worker's name, as the fleet has it."""
        number, index = self._config.place
        slices = self._config.slices
        count = len(slices[number]) if slices else len(self._config.hosts)
        name = self._config.slice or self._config.run
        return name if count == 1 else f"{name}-w{index}"

    def look(self, now: float, running: bool, hurry: bool = False) -> None:
        """Take in rounds that have ended; begin the next ones when they are due."""
        if self._place is None:
            return
        self._earn(now)
        every = _HURRY if hurry else self._config.timing.archive
        for lane in self._lanes.values():
            self._take_in(lane, now)
            if not lane.helper.is_busy and now >= min(lane.due, lane.looked + every):
                lane.looked, lane.due = now, now + self._config.timing.archive
                self._begin_if_new(lane, now, running)

    def soon(self) -> None:
        """Have what is new written at once, as an attempt has ended."""
        for lane in self._lanes.values():
            lane.wanted, lane.due = True, 0.0

    def close(self) -> None:
        """End rounds that are on: the next agent begins where the last whole one ended."""
        for lane in self._lanes.values():
            lane.helper.close()

    def finish(self) -> None:
        """Have written what can be within a few seconds, because the machine may go."""
        if self._place is None:
            return
        deadline = time.monotonic() + _LAST
        lanes = [lane for lane in self._lanes.values() if lane.what == "parts" or self._has_results]
        # A round that is on may have begun too early.
        again = [lane for lane in lanes if lane.helper.is_busy]
        for some in (lanes, again):
            for lane in some:
                if not lane.helper.is_busy and time.monotonic() < deadline:
                    self._begin(lane, time.monotonic())
            for lane in some:
                left = deadline - time.monotonic()
                self._take_in(lane, time.monotonic(), left)

    @property
    def problem(self) -> str:
        """Return what keeps the archive from being written; empty where it is not late."""
        lane = max(self._lanes.values(), key=lambda lane: bool(lane.error))
        late = self._behind(lane, time.monotonic())
        if not lane.error or late < self._config.timing.archive_late:
            return ""
        return f"archive: {late / 60:.0f}m behind: {lane.error}"

    def shown(self) -> dict[str, Any] | None:
        """Return what the status says of the archive; None where there is none."""
        if self._place is None:
            return None
        log = (self._lanes["parts"].state.get("streams") or {}).get(archive.LOG) or {}
        return {
            "address": self._config.archive,
            "life": self.life,
            "log_at": log.get("at", 0),
            "log_file": log.get("file"),
            "note": self._lanes["results"].note,
        }

    def _behind(self, lane: _Lane, now: float) -> float:
        return now - (self._born if lane.whole_at is None else lane.whole_at)

    def _earn(self, now: float) -> None:
        """Allow results as time goes by, so that their requests cost no more than was said."""
        earned = max(0.0, now - self._seen) / self._config.timing.archive
        self._allowed, self._seen = min(_ALLOWED, self._allowed + earned), now

    @property
    def _has_results(self) -> bool:
        return bool(self._config.results)

    def _begin_if_new(self, lane: _Lane, now: float, running: bool) -> None:
        """Begin a round, unless there is nothing that it could write."""
        if lane.what == "results":
            new = self._has_results and (running or lane.wanted or bool(lane.error))
        else:
            paths = (self._config.paths.log, self._config.paths.events)
            stamps = [self._hand.stamp(path) for path in paths]
            new = lane.wanted or bool(lane.error) or stamps != self._stamps
            self._stamps = stamps
        if new:
            self._begin(lane, now)
        else:
            lane.whole_at = now

    def _begin(self, lane: _Lane, now: float) -> None:
        bucket, prefix = self._place or ("", "")
        name = self._config.slice or self._config.run
        asked = {
            "what": lane.what,
            "storage": self._config.storage,
            "metadata": self._config.metadata,
            "bucket": bucket,
            "prefix": f"{prefix}{name}/{self.host}/{self.life}/",
            "log": str(self._config.paths.log),
            "declared": self._config.results,
            "workdir": self.workdir,
            "writes": int(self._allowed),
            "state": lane.state,
        }
        lane.begun, lane.wanted = now, False
        lane.helper.ask("archive", json.dumps(asked))

    def _take_in(self, lane: _Lane, now: float, seconds: float = 0.0) -> None:
        """Take in a round that has ended: its answer is the user's, and goes back to the user.

        One that is on is waited for, for so many seconds.
        """
        answer = lane.helper.answer(seconds)
        if answer is None:
            return
        lane.error = one_line(str(answer.get("error") or ""))
        lane.note = one_line(str(answer.get("note") or ""))
        more = answer.get("more") is True
        if isinstance(answer.get("state"), dict) and answer["state"] != lane.state:
            self._spend(lane, answer["state"])
            lane.state = answer["state"]
            self._save()
        if not lane.error and not more:
            lane.whole_at = lane.begun
        if more and not lane.error and lane.what == "parts":
            lane.wanted, lane.due = True, now + _SOON

    def _spend(self, lane: _Lane, state: dict[str, Any]) -> None:
        if lane.what == "results":
            before, after = lane.state.get("results") or {}, state.get("results") or {}
            if isinstance(before, dict) and isinstance(after, dict):
                new = [key for key, stamp in after.items() if before.get(key) != stamp]
                self._allowed = max(0.0, self._allowed - len(new))

    def _load(self) -> None:
        """Go on where the agent before ended, if it had the same archive."""
        kept = store.read(self._path) or {}
        if kept.get("address") == self._config.archive and isinstance(kept.get("life"), str):
            self.life = kept["life"]
            for what, lane in self._lanes.items():
                found = kept.get(what)
                lane.state = found if isinstance(found, dict) else {}
            return
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        self.life = f"{stamp}-{secrets.token_hex(4)}"
        self._save()

    def _save(self) -> None:
        kept = {what: lane.state for what, lane in self._lanes.items()}
        with contextlib.suppress(OSError):  # a full disk: what is written twice is read once
            store.write(self._path, {"address": self._config.archive, "life": self.life, **kept})
