# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the leader of a slice does with the queue: take a run, keep it, and end it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator

from . import claims, limits, objects, order
from .access import Access
from .bucket import TRIES, NoAnswer, Stored
from .claims import Outcome
from .limits import NO_LIMITS, Held, Limits
from .objects import HOLDS, RUNS, STOPPED, WAITING, WAITS, Hold, Owner, Refused, Submitted
from .order import Serving
from .seen import Seen, run_in

FIRST_PAGE = 100
"""Runs that wait in the first page that a leader lists."""
MOST_CHECKED = 200
"""Hints of runs that have slices, of one person, that a leader verifies in one look."""
LOST_ANSWER = "the answer to the claim was lost"


class Leading(Access):
    """Taking, keeping and ending runs."""

    def claim_next(
        self,
        me: Serving,
        owner: Owner,
        limit: Limits = NO_LIMITS,
        may: Callable[[Submitted], str] = lambda _run: "",
    ) -> Seen | None:
        """Take the next run that fits this slice; None if there is none.

        `may` returns why this machine must not run it, as for an unknown signature; it is asked
        last. The program may begin when this has returned, and not before. Its Lease counts from
        before the call, as the answer may have come long ago where the machine stood still.
        """
        self._settle(owner)
        look = _Look(self, me, limit, may)
        for run, hint in look.in_turn(self._waiting(me, look)):
            mine = self._taken(run, hint, owner, look)
            if mine is not None:
                return mine
        return None

    def adopt(self, name: str, owner: Owner) -> Seen | None:
        """Return a run that this machine had before it booted, now under its present boot.

        None: it is not its own any more, and nothing of it may start here.
        """
        seen = self._found(name)
        new = claims.adopted(seen.run, owner, self._nonce(), self._now()) if seen else None
        return self._swapped(new, seen) if new else None

    def renew(self, mine: Seen) -> Seen | None:
        """Renew a claim; None: another has the run, or it has ended, so its program must end.

        Its Lease counts from before the call. Without an answer the claim is as it was.
        """
        for number in range(TRIES):
            beat = {"beat": self._nonce()}
            try:
                changed = self._bucket.patch(RUNS + mine.run.name, beat, *mine[1:])
                if changed is not None:
                    return mine._replace(metageneration=changed)
                # Perhaps by an earlier renewal of this claim, whose answer was lost.
                found = self._found(mine.run.name)
                if found is None or found.generation != mine.generation:
                    return None
                mine = mine._replace(metageneration=found.metageneration)
            except NoAnswer:
                self._asking.wait(number)
        raise NoAnswer(f"the claim of {mine.run.name} is not renewed")

    def finish(self, mine: Seen, outcome: Outcome) -> Seen | None:
        """End a run; None: it was another's already, and this outcome counts for nothing."""
        return self._left(claims.finished(mine.run, outcome, self._nonce(), self._now()), mine)

    def give_back(
        self, mine: Seen, reason: str, attempt: int = 0, failures: int | None = None
    ) -> Seen | None:
        """Let a run wait again after its program has ended here; None: it was another's already.

        If there is a wish to stop it, it is stopped.
        """
        return self._left(self._free(mine.run, reason, attempt, failures), mine)

    def over_limit(self, person: str, limit: Limits, chips: int, but: str = "") -> str:
        """Return which limit one more run of a person passes, beside those that have slices."""
        if limit == NO_LIMITS:
            return ""
        found = [one for one in self._holds(person) if one.run != but]
        why = limits.over(limit, person, [Held(one.run, one.chips) for one in found], chips)
        if not why:
            return ""
        held = [one for one in map(self._held, found[:MOST_CHECKED]) if one]
        return limits.over(limit, person, held, chips) if len(found) <= MOST_CHECKED else why

    # Parts

    def _waiting(self, me: Serving, look: _Look) -> Iterator[tuple[Submitted, Stored]]:
        """Yield the runs that fit a slice by their hints, the next first."""
        for hint in self._asking.pages(self._bucket, WAITS, FIRST_PAGE):
            with contextlib.suppress(Refused):
                name = objects.hint_of(hint.name)
                run = None if look.is_limited(name.person) else self._by_hint(hint, name.run)
                if run and objects.hint_name(run) == hint.name and not order.unfit(run, me):
                    yield run, hint

    def _by_hint(self, hint: Stored, name: str) -> Submitted | None:
        """Return the run that a hint has; if that is bad, the one that it names."""
        try:
            return run_in(hint)
        except Refused:
            seen = self._found(name)
            return seen and seen.run

    def _taken(self, run: Submitted, hint: Stored, owner: Owner, look: _Look) -> Seen | None:
        """Take a run that a hint names, unless something stands against it."""
        if look.hindrance(run):
            return None
        seen = self._found(run.name)
        if seen is None or seen.run.state != WAITING or objects.hint_name(seen.run) != hint.name:
            self._quietly(self._bucket.delete, hint.name, hint.generation)
            return None
        wish = self.wish(seen.run)
        if wish:
            self._stopped(seen, wish.person)
            return None
        if look.hindrance(seen.run) or look.may(seen.run):
            return None
        mine = self._claimed(seen, owner, look)
        if mine:
            self._quietly(self._bucket.delete, hint.name, hint.generation)
        return mine

    def _claimed(self, seen: Seen, owner: Owner, look: _Look) -> Seen | None:
        """Claim a run, and keep it if the limit of its person holds with all others' claims."""
        new = claims.claimed(seen.run, owner, self._nonce(), self._now())
        if new is None:
            return None
        self._loose.add(new.name)
        mine = self._swapped(new, seen)
        if mine is None:
            look.lose_race()
        else:
            # Of several that claim at once, the last to look sees all that go on.
            self._hold(mine.run)
            why = self.over_limit(new.person, look.limit, owner.chips, new.name)
            if why:
                self.give_back(mine, why)
                mine = None
        self._loose.discard(new.name)
        return mine

    def _holds(self, person: str) -> list[Hold]:
        found = []
        for one in self._asking.pages(self._bucket, f"{HOLDS}{person}/"):
            with contextlib.suppress(Refused):
                found.append(objects.hold_of(one.name, one.metadata))
        return found

    def _held(self, hold: Hold) -> Held | None:
        """Return what a hint says if it is true; else delete it."""
        seen = self._found(hold.run)
        if seen and seen.run.owner and (seen.run.person, seen.run.claims) == (hold[0], hold[2]):
            return Held(hold.run, seen.run.owner.chips)
        name = f"{HOLDS}{hold.person}/{hold.run}/{hold.claims}"
        self._quietly(self._bucket.delete, name)
        return None

    def _hold(self, run: Submitted) -> None:
        chips = {"chips": str(run.owner.chips if run.owner else 0)}
        self._asking.again(lambda: self._bucket.put(objects.hold_name(run), b"", chips))

    def _settle(self, owner: Owner) -> None:
        """Give back what may have been claimed, by a write whose answer was lost."""
        for name in sorted(self._loose):
            seen = self._found(name)
            if seen and seen.run.owner and seen.run.owner.is_same_machine(owner):
                self.give_back(seen, LOST_ANSWER)
            self._loose.discard(name)

    def _free(
        self, run: Submitted, reason: str, attempt: int = 0, failures: int | None = None
    ) -> Submitted | None:
        """Return a run without its owner: it waits, or is stopped if there is a wish to stop it."""
        wish = self.wish(run)
        nonce, now = self._nonce(), self._now()
        if wish is None:
            return claims.given_back(run, reason, nonce, now, attempt, failures)
        outcome = Outcome(STOPPED, f"stopped by {wish.person}", None, attempt, failures)
        return claims.finished(run, outcome, nonce, now)

    def _left(self, new: Submitted | None, mine: Seen, exact: bool = False) -> Seen | None:
        """Write the state of a run that its owner has no more."""
        if new is None:
            return None
        done = self._swapped(new, mine, exact)
        if done is None:
            # Perhaps by an earlier call, whose answer was lost.
            done = self._found(new.name)
            if done is None or _step(done.run) != _step(new):
                return None
        self._quietly(self._bucket.delete, objects.hold_name(mine.run))
        return self._announced(done)


class _Look:
    """What one look of a leader has found out."""

    def __init__(
        self, queue: Leading, me: Serving, limit: Limits, may: Callable[[Submitted], str]
    ) -> None:
        self.limit, self.may = limit, may
        self._queue, self._me = queue, me
        self._states: dict[str, str | None] = {}
        self._limits: dict[str, str] = {}
        self._races = self._skip = 0

    def in_turn(
        self, found: Iterable[tuple[Submitted, Stored]]
    ) -> Iterator[tuple[Submitted, Stored]]:
        """Yield what was found; after each lost race some are put off, so that leaders part."""
        put_off = []
        for one in found:
            if self._skip:
                self._skip -= 1
                put_off.append(one)
            else:
                yield one
        yield from put_off

    def lose_race(self) -> None:
        """Put some of the next runs off: others take them at this moment."""
        self._races += 1
        self._skip = self._queue.chance.randrange(2 ** min(self._races, 8))

    def hindrance(self, run: Submitted) -> str:
        """Return why a run cannot be taken at present; empty if it can."""
        states = {name: self._state(name) for name in run.after}
        return order.held_back(run, states) or self._limited(run.person)

    def is_limited(self, person: str) -> bool:
        """Say whether a person is known to have no more."""
        return bool(self._limits.get(person))

    def _state(self, name: str) -> str | None:
        if name not in self._states:
            seen = self._queue._found(name)
            self._states[name] = seen.run.state if seen else None
        return self._states[name]

    def _limited(self, person: str) -> str:
        if person not in self._limits:
            why = self._queue.over_limit(person, self.limit, self._me.chips)
            self._limits[person] = why
        return self._limits[person]


def _step(run: Submitted) -> tuple[int, int, str]:
    """Return what makes one step of a run's life: no other step has the same."""
    return run.round, run.claims, run.state
