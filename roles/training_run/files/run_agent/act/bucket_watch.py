"""Looks at the checkpoints in a bucket every few minutes, for the worker that leads the gang.

Each look is a process of its own, and a thread waits for it: a slow bucket never delays the agent.
"""

from __future__ import annotations

import json
from typing import Any

from ..decide import bucket_budget
from ..decide.checkpoints import bucket_and_folder
from ..decide.config import Config
from ..decide.values import is_whole, one_line
from .guard import STEPS
from .helper import Helper

_SECONDS = 60.0
_MOST = 1 << 17
_MOST_REQUESTS = 1000


class BucketWatch:
    """What is known of a run's checkpoints, where they are in a bucket."""

    def __init__(self, config: Config) -> None:
        self.error = ""
        self._config = config
        place = bucket_and_folder(config.checkpoint_dir)
        self._place = place if config.leader else None
        if place is None and config.checkpoint_dir.startswith("gs://"):
            self.error = f"{config.checkpoint_dir} is no bucket: write gs://BUCKET/FOLDER"
        self._helper = Helper(config.user, _SECONDS, _MOST, f"{config.checkpoint_dir}: ")
        self._found: dict[str, Any] = {}
        self._begun = 0.0
        self._confirmed: float | None = None
        self._due = 0.0
        self._pause = config.timing.bucket
        self._failures = 0
        self._lists = self._gets = 0
        self._may_have_grown = True  # so that an agent that begins looks once
        self._was_running: bool | None = None
        self._early: float | None = None  # when a program that has begun is looked at for once
        self._debt = bucket_budget.Debt()

    @property
    def found(self) -> dict[str, Any]:
        """Return the last look that succeeded, in the form of the guard's; empty before one."""
        return self._found

    @property
    def seconds(self) -> float:
        """Return after how many seconds everything written by now was looked at; 0 without one."""
        return self._pause + _SECONDS if self._place else 0.0

    def close(self) -> None:
        """End a look that is being done."""
        self._helper.close()

    def look(self, now: float, running: bool) -> None:
        """Take in a look that has ended; begin the next one when it is due.

        Nothing is written while no program runs, so one look after its end is the last. One soon
        after its begin shows its first checkpoint, and the looks after that one come later.
        """
        if self._place is None:
            return
        self._note_begin(now, running)
        self._may_have_grown = self._may_have_grown or running
        answer = self._helper.answer()
        if answer is not None:
            self._take(now, typed(answer))
        if not self._helper.is_busy and self._is_due(now) and self._may_have_grown:
            self._may_have_grown = running
            self._debt = self._debt.after(self._due - now)
            self._early = None
            self._begin(now)

    def _note_begin(self, now: float, running: bool) -> None:
        if running and self._was_running is False:
            self._early = now + self._config.timing.bucket_first
        self._was_running = running

    def _is_due(self, now: float) -> bool:
        early = self._early is not None and now >= self._early and not self._debt.seconds
        return now >= self._due or early

    def quiet(self, now: float, seconds: float) -> float:
        """Return for how long a program gave no sign of life, which it may give by its bucket.

        Its silence lasts no longer than until the last look: only the next one shows whether the
        bucket has grown since. A bucket that does not answer holds nothing up for long.
        """
        if self._confirmed is None or now - self._confirmed > self._pause + self.seconds:
            return seconds
        return max(0.0, seconds - (now - self._confirmed))

    def shown(self) -> dict[str, Any] | None:
        """Return what the status says of the bucket; None where there is none."""
        if self._place is None:
            return None
        return {
            **(self._found.get("checkpoint") or {}),
            "note": self._found.get("note", ""),
            "lists": self._lists,
            "gets": self._gets,
            "every_seconds": round(self._pause),
        }

    def _begin(self, now: float) -> None:
        self._begun = now
        bucket, prefix = self._place or ("", "")
        asked = {
            "storage": self._config.storage,
            "metadata": self._config.metadata,
            "bucket": bucket,
            "prefix": prefix,
            "known": self._found.get("known", {}),
        }
        self._helper.ask("bucket", json.dumps(asked))

    def _take(self, now: float, answer: dict[str, Any]) -> None:
        lists, gets = answer.get("lists", 0), answer.get("gets", 0)
        self._lists, self._gets = self._lists + lists, self._gets + gets
        self.error = answer.get("error", "")
        self._failures = self._failures + 1 if self.error else 0
        if not self.error:
            self._found, self._confirmed = answer, self._begun
        timing = self._config.timing
        spent = bucket_budget.dollars(lists, gets)
        pause = bucket_budget.pause(spent, timing.bucket_dollars, timing.bucket, self._failures)
        paid, self._debt = self._debt.paid()
        self._pause = pause + paid
        self._due = now + self._pause


def typed(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what a look found, where it is of the kind that it should be: it is the user's."""
    known, steps = answer.get("known"), answer.get("steps")
    found: dict[str, Any] = {
        "error": one_line(str(answer.get("error") or "")),
        "note": one_line(str(answer.get("note") or "")),
        "known": dict(list(known.items())[:STEPS]) if isinstance(known, dict) else {},
        "steps": steps if isinstance(steps, list) else [],
        "checkpoint": _checkpoint(answer.get("checkpoint")),
        "saved": answer.get("saved") if is_whole(answer.get("saved")) else None,
        "newest": answer.get("newest"),
    }
    for name in ("lists", "gets"):
        count = answer.get(name)
        found[name] = min(max(count, 0), _MOST_REQUESTS) if is_whole(count) else 1
    return found


def _checkpoint(found: Any) -> dict[str, Any] | None:
    if not isinstance(found, dict):
        return None
    step, size = found.get("step"), found.get("bytes")
    return {
        "name": one_line(str(found.get("name") or ""), 200),
        "step": step if is_whole(step) and 0 <= step < 10**15 else None,
        "bytes": size if is_whole(size) and 0 <= size < 1 << 63 else None,
    }
