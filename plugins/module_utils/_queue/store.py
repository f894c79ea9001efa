# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the queue over a bucket.

A write is carried out on the condition that the object is still the one that was read. Where its
answer is lost, the object is read again: the nonce in it says whether it was this write. So a step
is done, or another was faster (None), or nothing is known (NoAnswer): then it is repeated later.
A client of the bucket repeats no write by itself.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from . import objects
from .claims import Node, Outcome, Silence
from .limits import NO_LIMITS, Limits
from .objects import (
    Definition,
    Owner,
    Signed,
    Submitted,
    Wish,
)
from .order import Serving

TRIES, PAUSE = 4, 0.5
"""How often a request is sent, and the mean seconds between."""
PAGE, FIRST_PAGE = 1000, 100
"""Objects in a page of a list."""
MOST_PAGES = 200
"""Pages that are read of one list."""
MOST_DEFINITION = 2 * objects.MOST_TEXT


class NoAnswer(Exception):
    """The bucket does not answer, or refuses. A write may have been carried out, now or later."""


class Exists(Exception):
    """There is a run of this name; the text says what to do."""


class Stored(NamedTuple):
    """An object of the bucket."""

    name: str
    """Below the queue's folder."""
    generation: int
    metageneration: int
    metadata: Mapping[str, str]
    """Custom metadata; empty where they were not asked for."""
    data: bytes = b""
    """Its content; empty in lists."""


class Bucket(Protocol):
    """The bucket, with names below the queue's folder. Every method may raise NoAnswer.

    None, or False, is returned only where the bucket said that the object is another one (412), or
    is not there (404).
    """

    def get(self, name: str) -> Stored | None:
        """Return an object with its content and both numbers; None if it is not there.

        More than objects.MOST_TEXT * 2 bytes, but of names below code/, may be cut off.
        """

    def put(
        self,
        name: str,
        data: bytes,
        metadata: Mapping[str, str],
        generation: int | None = None,
        metageneration: int | None = None,
    ) -> int | None:
        """Write an object if it has these numbers; return its generation. 0: it is not there.

        Generation None writes over any.
        """

    def patch(
        self, name: str, metadata: Mapping[str, str], generation: int, metageneration: int
    ) -> int | None:
        """Change some of the custom metadata; return the metageneration. Both numbers must fit."""

    def list(self, prefix: str, token: str = "", most: int = PAGE) -> tuple[list[Stored], str]:
        """Return objects whose names begin so, in order, without content; and the next token.

        They have their metadata.
        """

    def delete(self, name: str, generation: int | None = None) -> bool:
        """Delete an object if it has this generation; return whether it did."""


class Seen(NamedTuple):
    """A run's state, and the numbers of the object in which it was read."""

    run: Submitted
    generation: int
    metageneration: int


@dataclass
class Listing:
    """All runs of the queue."""

    runs: dict[str, Seen] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Why an object was refused, by its name."""
    sent: float = 0.0
    got: float = 0.0
    """When they were asked for, and received: seconds of CLOCK_BOOTTIME."""

    @property
    def states(self) -> list[Submitted]:
        """Return the states."""
        return [seen.run for seen in self.runs.values()]


def since_boot() -> float:
    """Return the seconds since the boot, also those in which the machine was suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # Linux
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Queue:
    """The queue in a bucket's folder. All methods may raise NoAnswer; all may be repeated."""

    def __init__(
        self,
        bucket: Bucket,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = since_boot,
        pause: Callable[[float], None] = time.sleep,
        nonce: Callable[[], str] = lambda: secrets.token_hex(16),
        choose: random.Random | None = None,
    ) -> None:
        self._bucket = bucket
        self._now, self._clock, self._pause, self._nonce = now, clock, pause, nonce
        self._random = choose or random.Random()  # noqa: S311 - who goes first of equals
        self._silence = Silence()

    # Reading

    def read(self, name: str) -> Seen | None:
        """Return a run's state; None if there is no such run. Raises Refused."""
        raise NotImplementedError

    def all(self) -> Listing:
        """Return all runs, by one list; a bad object costs only itself."""
        raise NotImplementedError

    def definition(self, sha: str) -> Signed:
        """Return what was signed under this name. Its signature is not verified; raises Refused."""
        raise NotImplementedError

    def code(self, sha: str) -> bytes | None:
        """Return an archive of code, whose SHA its reader compares; None: there is none."""
        raise NotImplementedError

    def wish(self, run: Submitted) -> Wish | None:
        """Return the wish to stop this round of a run."""
        raise NotImplementedError

    def heard(self) -> int:
        """Return a number that is another one whenever something may be to be done; once asked."""
        raise NotImplementedError

    # Submitting, stopping, retrying: by people

    def put_code(self, sha: str, data: bytes) -> None:
        """Write an archive of code, unless it is there."""
        raise NotImplementedError

    def has_code(self, sha: str) -> bool:
        """Return whether an archive of code is there, by a list of its name."""
        raise NotImplementedError

    def submit(
        self, definition: Definition, signed: Signed, turn: int, again: bool = False
    ) -> Seen:
        """Put a run into the queue, and its definition before; return its state.

        `turn` is limits.turn_of, plus one for each further run of the same sweep. Raises Exists
        if there is a run of this name: unless it has ended, and `again` says to take its place.
        Raises Refused for values that no reader would take.
        """
        raise NotImplementedError

    def stop(self, name: str, person: str) -> Submitted | None:
        """Stop a run, or ask its owner to; return the state then. None: there is no such run.

        A run that still is RUNNING in the answer ends as soon as its owner reads the wish.
        """
        raise NotImplementedError

    def retry(self, name: str, person: str) -> Submitted | None:
        """Let a failed or stopped run wait again; return its state. None: there is no such run.

        A run in another state stays as it is.
        """
        raise NotImplementedError

    # Taking, keeping and ending: by the leader of a slice

    def claim_next(
        self,
        me: Serving,
        owner: Owner,
        limit: Limits = NO_LIMITS,
        may: Callable[[Submitted], str] = lambda _run: "",
    ) -> Seen | None:
        """Take the next run that fits this slice; None if there is none.

        `may` returns why this machine must not run it, as for an unknown signature; it is asked
        last. Its program may begin when this has returned, and not before.
        """
        raise NotImplementedError

    def adopt(self, name: str, owner: Owner) -> Seen | None:
        """Return a run that this machine had before it booted, now under its present boot.

        None: it is not its own any more, and nothing of it may start here.
        """
        raise NotImplementedError

    def renew(self, mine: Seen) -> Seen | None:
        """Renew a claim; None: another has the run, or it has ended, so its program must end.

        Its Lease counts from before the call. Without an answer the claim is as it was.
        """
        raise NotImplementedError

    def finish(self, mine: Seen, outcome: Outcome) -> Seen | None:
        """End a run; None: it was another's already, and this outcome counts for nothing."""
        raise NotImplementedError

    def give_back(
        self, mine: Seen, reason: str, attempt: int = 0, failures: int | None = None
    ) -> Seen | None:
        """Let a run wait again after its program has ended here; None: it was another's already.

        If it was to be stopped, it is stopped.
        """
        raise NotImplementedError

    # Clearing up: by idle leaders, watchers and controllers

    def tend(
        self,
        here: Owner | None = None,
        held: Iterable[str] = (),
        take_after: float | None = None,
        nodes: Callable[[Owner], Node | None] | None = None,
    ) -> Listing:
        """Repair what deaths and lost answers left; return all runs as they were before.

        Hints are written and deleted as the states want it. A run is taken from an owner that is
        gone: by the machine that is `here` (None on a controller), by what the API has (`nodes`
        is asked after the state was read; None: not known), or by time, if that is set. What has
        `here` as its owner and is not `held` is given back: its claim's answer was lost.
        """
        raise NotImplementedError
