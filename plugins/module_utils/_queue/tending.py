# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clearing up what deaths and lost answers left, and what ended long ago."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from . import claims, objects
from .bucket import Denied, Stored
from .claims import Node
from .leading import LOST_ANSWER, Leading
from .limits import WINDOW
from .objects import ENDS, HOLDS, RUNNING, RUNS, STOP, WAITING, WAITS, Owner, Submitted, Wish
from .seen import Listing, Seen, wish_in

KEPT = WINDOW
"""Seconds after its end in which a run is in the list of all; there its chip hours are counted."""
SETTLED = 120.0
"""Seconds for which its end was seen before it is moved: a late write finds it where it was."""
MOST_MOVED = 200
"""Runs that are moved out of it at a time."""


class Tending(Leading):
    """Clearing up."""

    def take_away(self, seen: Seen, why: str) -> Seen | None:
        """Let a run wait again whose owner is gone, or stop it if there is a wish to.

        `why` is evidence of claims.py about the very state that was seen. None: it has changed, or
        was renewed, since.
        """
        return self._left(self._free(seen.run, why), seen, exact=True)

    def tend(
        self,
        here: Owner | None = None,
        held: Iterable[str] = (),
        take_after: float | None = None,
        nodes: Callable[[Owner], Node | None] = lambda _owner: None,
    ) -> Listing:
        """Repair what deaths and lost answers left; return all runs as they were before.

        Hints are written and deleted as the states want it. A run is taken from an owner that is
        gone: by the machine that is `here` (None on a controller), by what the API has (`nodes`
        is asked after the state was read; None: not known), or by time, if that is set. What has
        `here` as its owner and is not `held` is given back: the claim's answer was lost.
        """
        asked = self._asking
        hints = {one.name: one for one in asked.pages(self._bucket, WAITS)}
        holds = {one.name: one for one in asked.pages(self._bucket, HOLDS)}
        wishes = list(asked.pages(self._bucket, STOP))
        listing = self.all()
        self._silence.keep(set(listing.runs))
        by = _Evidence(here, frozenset(held), take_after, nodes)
        for seen in listing.runs.values():
            why = self._gone(seen, listing, by)
            if why:
                with contextlib.suppress(Denied):
                    self.take_away(seen, why)
        self._tend_wishes(wishes, listing)
        self._tend_hints(hints, holds, listing)
        self._move_ended(listing)
        self.listed = listing
        return listing

    # Parts

    def _gone(self, seen: Seen, listing: Listing, by: _Evidence) -> str:
        """Return why a run's owner cannot run it any more; empty if it may."""
        run, owner = seen.run, seen.run.owner
        if owner is None:
            return ""
        if by.here and owner.is_same_machine(by.here):
            return "" if run.name in by.held else LOST_ANSWER
        node = by.nodes(owner)
        quiet = self._unchanged(seen, listing)
        return (
            (by.here and claims.recreated(owner, by.here))
            or (node and claims.gone_by_api(owner, node))
            or claims.silent(owner, quiet, by.take_after)
        )

    def _tend_wishes(self, wishes: Iterable[Stored], listing: Listing) -> None:
        """Carry out the wish to stop what waits; delete those of rounds that are over."""
        for one in wishes:
            seen = listing.runs.get(one.name[len(STOP) :])
            wish = wish_in(one)
            if seen is None or wish is None or not _concerns(wish, seen.run):
                self._quietly(self._bucket.delete, one.name, one.generation)
            elif seen.run.state == WAITING:
                self._quietly(self._stopped, seen, wish.why)

    def _tend_hints(
        self, hints: dict[str, Stored], holds: dict[str, Stored], listing: Listing
    ) -> None:
        waiting = {objects.hint_name(one): one for one in listing.states if one.state == WAITING}
        running = {objects.hold_name(one): one for one in listing.states if one.state == RUNNING}
        for name, run in waiting.items():
            if name not in hints:
                self._quietly(self._hint, run)
        for name, run in running.items():
            if name not in holds:
                self._quietly(self._hold, run)
        for name in sorted((hints.keys() - waiting.keys()) | (holds.keys() - running.keys())):
            one = hints.get(name) or holds[name]
            self._quietly(self._bucket.delete, one.name, one.generation)

    def _move_ended(self, listing: Listing) -> None:
        """Move what ended long ago out of the list, unless something waits for it."""
        needed = {name for run in listing.states if run.is_open for name in run.after}
        since = self._now() - KEPT
        old = [
            seen
            for name, seen in listing.runs.items()
            if self._unchanged(seen, listing) >= SETTLED
            and (seen.run.ended_at or since) < since
            and name not in needed
        ]
        for seen in old[:MOST_MOVED]:
            self._quietly(self._move, seen)

    def _unchanged(self, seen: Seen, listing: Listing) -> float:
        """Return for how long this one saw a state as it is, by a clock that no user sets."""
        return self._silence.of(seen.run.name, *seen[1:], listing.sent, listing.got)

    def _move(self, seen: Seen) -> None:
        text = objects.run_text(seen.run)
        self._bucket.put(ENDS + seen.run.name, text.encode("ascii"), {"run": text})
        self._bucket.delete(RUNS + seen.run.name, seen.generation)


class _Evidence(NamedTuple):
    """By what `tend` judges owners."""

    here: Owner | None
    held: frozenset[str]
    take_after: float | None
    nodes: Callable[[Owner], Node | None]


def _concerns(wish: Wish, run: Submitted) -> bool:
    return run.is_open and (wish.name, wish.round) == (run.name, run.round)
