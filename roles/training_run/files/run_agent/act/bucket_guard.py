"""The fence in a bucket, as the program's parent sees it, which ends the program that is shut out.

It reads the object when an attempt begins, and then every few seconds; beside another worker than
worker 0 only while that one does not answer that it reads it, as worker 0 has all ended. A bucket
that does not answer ends nothing: the attempt had the fence, and an heir waits.

A machine that was frozen comes back in the middle of a write. So whenever this process finds that
it stood still for so long that an heir may have begun, the program is stopped until the fence was
read: for half a minute at most, as a bucket may be away as well. An heir may have come right after
the fence was asked for the last time, so all is counted from then, by the clock that also counts
what a machine sleeps.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..decide import fence
from . import processes
from .bucket_requests import CannotLook
from .environment import AUTHORITIES
from .fence_object import FenceObject, shown
from .unguarded import LATE_SECONDS, NotNamed

_START_SECONDS = 8.0  # the agent waits longer for a first sign of life
_HELD_SECONDS = 30.0
_PAUSE = 0.5
_STILL = 0.75  # of what an heir waits: the rest is for the request that comes then
_SILENCE = 0.4  # of the time between two looks: worker 0 answers every second


def now() -> float:
    """Return seconds of the clock that also counts what a machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class BucketGuard:
    """Runs beside the program, as its user."""

    def __init__(self, order: dict[str, Any], say: Callable[[str], None] = print) -> None:
        self.shut_out = ""
        told, env = order["fence"], order["env"]
        os.environ.update({name: env[name] for name in AUTHORITIES & env.keys()})
        self._fence = FenceObject(told["object"])
        self._shown = shown(told["object"])
        self._mark = fence.Mark.from_json(told["mark"]) or fence.Mark(0, "")
        self._restore_below, self._env = told["restore_below"], env
        self._heard = Path(told["heard"]) if told["heard"] else None
        self._every, self._sure = float(order["look_every"]), float(told["sure"])
        self._say = say
        self._error = ""
        self._asked = now()

    def claim(self) -> str:
        """Say by whom the attempt is shut out; raise NotNamed if it may not begin yet."""
        begun = now()
        deadline = begun + _START_SECONDS
        while True:
            try:
                self._asked = now()
                found = self._fence.read_once()
                break
            except CannotLook as error:
                if now() > deadline:
                    raise NotNamed(f"the fence {self._shown} cannot be read: {error}") from None
                time.sleep(_PAUSE)
        if now() - begun > LATE_SECONDS:
            raise NotNamed(f"the fence {self._shown} was read too late")
        out = self._judged(found)
        if not out and (found is None or found.attempt < self._mark.attempt):
            raise NotNamed(f"the fence {self._shown} does not name this attempt")
        if found is not None and found.restore is not None and self._restore_below:
            place = f"{self._restore_below}/{found.restore}".rstrip("/")
            self._env["TPU_FLEET_RESTORE_DIR"] = place
        return out

    def watch(self, child: int) -> None:
        """Begin to look every few seconds."""
        threading.Thread(target=self._run, args=(child,), daemon=True).start()

    def _run(self, child: int) -> None:
        begun = processes.start_time(child)
        while not self.shut_out:
            known = self._wait()
            self._look(child, self._stood_still(known))
        # No grace: what it would save now is what it must not.
        while begun is not None and processes.start_time(child) == begun:
            self._send(child, signal.SIGKILL)
            time.sleep(0.05)

    def _wait(self) -> float:
        """Wait for the next read of the fence; return since when an heir may have come.

        In parts, as a sleep may leave a suspension out. What worker 0 answers right after this
        machine stood still does not count: it may have stood still too, and not read the fence yet.
        """
        while True:
            known = self._known()
            time.sleep(min(_PAUSE, self._every))
            due = max(self._asked + self._every, self._heard_at() + _SILENCE * self._every)
            if now() >= due or self._stood_still(known):
                return known

    def _known(self) -> float:
        """Return since when an heir may have come; worker 0 has asked a while before it answers."""
        return max(self._asked, self._heard_at() - self._every)

    def _stood_still(self, since: float) -> bool:
        """Return whether an heir that came at that time may begin before the fence is read."""
        return now() - since > _STILL * self._sure

    def _look(self, child: int, stood_still: bool) -> None:
        """Read the fence; the program is stopped meanwhile, if an heir may have begun."""
        until = now() + _HELD_SECONDS
        while True:
            if stood_still:
                self._send(child, signal.SIGSTOP)
            self._asked = now()
            self._read()
            # What was read before this process stood still is no answer.
            late = self._stood_still(self._asked)
            stood_still = stood_still or late
            if self.shut_out or not (late or (stood_still and self._error and now() < until)):
                break
            time.sleep(_PAUSE)
        if stood_still and not self.shut_out:
            self._send(child, signal.SIGCONT)

    def _read(self) -> None:
        before, self._error = self._error, ""
        try:
            self.shut_out = self._judged(self._fence.read_once())
        except CannotLook as error:
            self._error = f"the fence {self._shown} cannot be read: {error}"
        if bool(self._error) != bool(before):
            self._say(f"{self._error}; the program goes on" if self._error else "it is read again")

    def _judged(self, found: fence.Mark | None) -> str:
        return fence.shuts_out(found, self._mark.owner, self._mark.attempt)

    def _heard_at(self) -> float:
        """Return when worker 0 last answered the agent that it reads the fence; 0 if it did not."""
        if self._heard is None:
            return 0.0
        try:
            at = self._heard.stat().st_mtime
        except OSError:
            return 0.0
        return at if at <= now() else 0.0

    def _send(self, child: int, number: int) -> None:
        # The child first: to list what is below takes longer than one write may.
        processes.send([child], number, os.getuid())
        processes.send(processes.descendants(os.getpid()), number, os.getuid())
