# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all that is done with the queue's bucket has in common."""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable

from . import claims, objects
from .bucket import TRIES, Asking, Bucket, Denied, NoAnswer, Stored
from .claims import Silence
from .crowds import Compared, Crowds
from .objects import (
    BELL,
    CODE,
    DEFINITIONS,
    ENDS,
    RUNNING,
    RUNS,
    STOP,
    WAITING,
    Refused,
    Signed,
    Submitted,
    Wish,
)
from .seen import Listing, Seen, run_in, seen_of


def since_boot() -> float:
    """Return the seconds since the boot, also those in which the machine was suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # of Linux
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Access:
    """Reads the queue, and writes states: the base of Queue, which has its docstring."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = since_boot,
        pause: Callable[[float], None] = time.sleep,
        nonce: Callable[[], str] = lambda: secrets.token_hex(16),
        chance: random.Random | None = None,
    ) -> None:
        self._bucket = bucket
        self._now, self._clock, self._nonce = now, clock, nonce
        self.chance = chance or random.Random()  # noqa: S311 - which of two waits longer
        self._asking = Asking(pause, self.chance)
        self._silence = Silence()
        self._crowds, self._compared = Crowds(clock, self.chance), Compared(clock)
        self._denied: dict[str, float] = {}  # hints that are passed over, and until when
        self._loose: set[str] = set()  # what may have been claimed, by a write without an answer

    def read(self, name: str) -> Seen | None:
        """Return a run's state; None if there is no such run. Raises Refused."""
        found = self._asking.again(lambda: self._bucket.get(RUNS + name))
        if found is not None:
            return seen_of(found, objects.run_of(found.data))
        moved = self._asking.again(lambda: self._bucket.get(ENDS + name))
        # What is written over it is written where there is nothing.
        return (
            seen_of(moved, objects.run_of(moved.data), ENDS)._replace(generation=0)
            if moved
            else None
        )

    def all(self) -> Listing:
        """Return all runs but those that ended long ago, by one list.

        A bad object costs only itself.
        """
        listing = Listing(sent=self._clock())
        for found in self._asking.pages(self._bucket, RUNS):
            try:
                seen = seen_of(found, run_in(found))
                listing.runs[seen.run.name] = seen
            except Refused as why:
                listing.refused[objects.one_line(found.name, 100)] = str(why)
        listing.got = self._clock()
        return listing

    def definition(self, sha: str) -> Signed:
        """Return what was signed under this name. Its signature is not verified; raises Refused."""
        found = self._given(DEFINITIONS + sha)
        if found is None:
            raise Refused([f"definition: {sha} is not in the bucket: submit the run again"])
        signed = objects.signed_of(found.data)
        if objects.sha_of(signed.signed) != sha:
            raise Refused([f"definition: {sha} is not that of its text: submit the run again"])
        return signed

    def code(self, sha: str) -> bytes | None:
        """Return an archive of code, whose SHA its reader compares; None: there is none."""
        found = self._given(code_name(sha))
        return None if found is None else found.data

    def has_code(self, sha: str) -> bool:
        """Return whether an archive of code is there."""
        return bool(self._asking.again(lambda: self._bucket.list(code_name(sha), "", 1))[0])

    def wish(self, run: Submitted) -> Wish | None:
        """Return the wish to stop this round of a run."""
        wish = self._wish(run.name)[0]
        return wish if wish and wish.round == run.round else None

    def heard(self) -> int:
        """Return a number that is another one whenever there may be something to do; asks once."""
        with contextlib.suppress(Denied):
            found = self._bucket.get(BELL)
            return 0 if found is None else found.generation
        return 0

    def ring(self) -> None:
        """Let leaders look; never raises."""
        # 429 if others do so at the same time; without it they look a little later.
        self._quietly(self._bucket.put, BELL, b"", {})

    # Parts

    def _given(self, name: str) -> Stored | None:
        """Read an object; one that the bucket does not give out is as good as none."""
        with contextlib.suppress(Denied):
            return self._asking.again(lambda: self._bucket.get(name))
        return None

    def _found(self, name: str) -> Seen | None:
        """Read a run's state; a bad object is as good as none."""
        try:
            return self.read(name)
        except Refused:
            return None

    def _swapped(self, new: Submitted, before: Seen | None, exact: bool = False) -> Seen | None:
        """Write a state over another, or where there is none; None: it is another one."""
        try:
            text = objects.run_text(new)
        except Refused:
            return None  # what was read is at a bound of what may be written
        generation = before.generation if before else 0
        metageneration = before.metageneration if before and exact else None
        is_lost = False
        for number in range(TRIES):
            try:
                written = self._bucket.put(
                    RUNS + new.name, text.encode("ascii"), {"run": text}, generation, metageneration
                )
                if written is not None:
                    return Seen(new, written, 1)
                return self._by_nonce(new) if is_lost else None
            except NoAnswer as error:
                if isinstance(error, Denied) and not is_lost:
                    raise
                is_lost = True
                self._asking.wait(number)
        raise NoAnswer(f"it is not known whether {new.name} is {new.state}")

    def _by_nonce(self, new: Submitted) -> Seen | None:
        """Return the state that was written, if it is there."""
        found = self._found(new.name)
        return found if found and found.run.nonce == new.nonce else None

    def _announced(self, seen: Seen, is_news: bool = True) -> Seen:
        """Have leaders see what waits, or may wait no longer because another has ended.

        Where that is no news, because others have taken the place or ring, they look later.
        """
        if seen.run.state == WAITING:
            self._quietly(self._asking.again, lambda: self._hint(seen.run))
        if seen.run.state != RUNNING and is_news:
            self.ring()
        return seen

    def _hint(self, run: Submitted) -> None:
        self._bucket.put(objects.hint_name(run), b"", {"run": objects.run_text(run)})

    def _stopped(self, seen: Seen, why: str) -> Seen | None:
        new = claims.stopped(seen.run, why, self._nonce(), self._now())
        done = self._swapped(new, seen) if new else None
        return self._announced(done) if done else None

    def _wish(self, name: str) -> tuple[Wish | None, int | None]:
        """Return a wish, and the generation to write over; None is any."""
        try:
            found = self._asking.again(lambda: self._bucket.get(STOP + name))
            if found is None:
                return None, 0
            wish = objects.wish_of(found.data)
        except (Denied, Refused):
            return None, None
        return (wish, found.generation) if wish.name == name else (None, None)

    def _quietly(self, do: Callable[..., object], *words: object) -> None:
        """Do what `tend` does later if it is not done now."""
        with contextlib.suppress(NoAnswer):
            do(*words)


def code_name(sha: str) -> str:
    """Return the name of an archive of code."""
    return f"{CODE}{sha}.tar.gz"
