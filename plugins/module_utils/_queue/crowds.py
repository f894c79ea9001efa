# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Leaders that see room for a run at the same moment, and hints that one has compared. No I/O."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable

from .claims import LOOK
from .limits import Held

TRUST = 300.0
"""Seconds for which a leader takes a hint for true that it has compared with the run."""


class Crowds:
    """Lets a leader that was one too many wait, longer each time, so that leaders part."""

    def __init__(self, clock: Callable[[], float], chance: random.Random) -> None:
        self._clock, self._chance = clock, chance
        self._waits: dict[Hashable, tuple[int, float]] = {}

    def too_many(self, group: Hashable) -> None:
        """Note that others took what there was room for."""
        times = self._waits.get(group, (0, 0.0))[0] + 1
        most = min(LOOK, 2.0 ** min(times, 10))
        self._waits[group] = times, self._clock() + self._chance.uniform(0.0, most)

    def took(self, group: Hashable) -> None:
        """Note that there was room."""
        self._waits.pop(group, None)

    def waits(self, group: Hashable) -> bool:
        """Say whether the leader leaves to others what there is room for."""
        return self._clock() < self._waits.get(group, (0, 0.0))[1]


class Compared:
    """What hints say that were true when they were compared with their runs, not long ago.

    One that is not true any more only keeps a run waiting, until it is deleted or compared again.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._held: dict[Hashable, tuple[float, Held]] = {}

    def get(self, hint: Hashable) -> Held | None:
        """Return what a hint says; None: it has to be compared."""
        until, held = self._held.get(hint, (0.0, None))
        return held if self._clock() < until else None

    def put(self, hint: Hashable, held: Held) -> Held:
        """Keep what a hint says, and drop what is old."""
        now = self._clock()
        self._held = {key: value for key, value in self._held.items() if now < value[0]}
        self._held[hint] = now + TRUST, held
        return held
