# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wait with a limit, a back-off with jitter, and a clock that a test can replace."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from .errors import WaitTimeout

T = TypeVar("T")


class Clock(Protocol):
    """The clock that a wait uses."""

    def now(self) -> float:
        """Return seconds that never decrease."""

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""


def boottime() -> float:
    """Return the seconds since boot; they cannot be set, and count while a laptop sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SystemClock:
    """The real time."""

    def now(self) -> float:
        """Return seconds that never decrease."""
        return boottime()

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""
        time.sleep(seconds)


@dataclass(frozen=True)
class Backoff:
    """Delays that grow from `first` by `factor` up to `most`, each up to `jitter` shorter."""

    first: float = 1.0
    factor: float = 1.5
    most: float = 30.0
    jitter: float = 0.5
    chance: Callable[[], float] = random.random

    def delays(self) -> Iterator[float]:
        """Yield the delays, without end."""
        delay = self.first
        while True:
            yield delay * (1.0 - self.jitter * self.chance())
            delay = min(delay * self.factor, self.most)


# Of silence, before it is said what is waited for: more often at first.
REMINDERS = Backoff(first=5.0, factor=2.0, jitter=0.0)


@dataclass(frozen=True)
class Seen(Generic[T]):
    """The result of one poll: the state in words, and the value once it exists."""

    state: str
    done: bool = False
    value: T | None = None


def wait_for(
    look: Callable[[float], Seen[T]],
    *,
    what: str,
    timeout: float,
    clock: Clock,
    backoff: Backoff,
) -> T | None:
    """Poll until the value exists; `look` gets the seconds waited so far."""
    start = clock.now()
    for delay in backoff.delays():
        elapsed = clock.now() - start
        seen = look(elapsed)
        if seen.done:
            return seen.value
        left = timeout - (clock.now() - start)
        if left <= 0:
            raise WaitTimeout(what, seen.state, timeout)
        # The last poll is at the limit, not after it.
        clock.sleep(min(delay, left))
    return None
