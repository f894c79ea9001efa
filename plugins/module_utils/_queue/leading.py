# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the leader of a slice does with the queue: take a run, keep it, and end it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from . import claims, hours, limits, objects, order
from .access import Access
from .bucket import TRIES, Denied, NoAnswer, Stored
from .claims import TEND, Outcome
from .limits import NO_LIMITS, Held, Limits
from .objects import (
    HOLDS,
    MOST_ARMS,
    RUNS,
    STOPPED,
    WAITING,
    WAITS,
    Hold,
    Owner,
    Progress,
    Refused,
    Submitted,
)
from .order import Serving
from .seen import Listing, Seen, run_in, seen_of

FIRST_PAGE = 40
"""Runs that wait in the first page that a leader lists."""
MOST_CHECKED = 200
"""Hints of runs that have slices, of one person, that a leader verifies in one look."""
MOST_DENIED = 20
"""Runs that the bucket does not let a leader take, until it looks no further."""
DENIED = 300.0
"""Seconds for which such a run is passed over."""
LOST_ANSWER = "the answer to the claim was lost"
UNKNOWN = Progress()
_ALL = ("", 0.0, 0)
_Group = tuple[str, tuple[str, float, int]]
"""A person, and what all arms of a sweep share; _ALL: the person's other runs."""


class NoLater(Exception):
    """Raised by `may`: the slice is kept for that run, and takes no later one either."""


class Leading(Access):
    """Taking, keeping and ending runs."""

    listed: Listing | None = None
    """All runs, when they were last listed, by which chip hours are counted."""

    def claim_next(
        self,
        me: Serving,
        owner: Owner,
        limit: Limits = NO_LIMITS,
        may: Callable[[Submitted], str] = lambda _run: "",
    ) -> Seen | None:
        """Take the next run that fits this slice; None if there is none.

        `may` returns why this machine must not run it, as for an unknown signature; it is asked
        last, and may raise NoLater. The program may begin when this has returned, and not before.
        Its Lease counts from before the call, as the answer may have come long ago where the
        machine stood still. Runs whose objects the bucket does not let this account read or write
        are passed over.
        """
        self._settle(owner)
        self._denied = {name: end for name, end in self._denied.items() if end > self._clock()}
        look = _Look(self, me, limit, may)
        with contextlib.suppress(NoLater):
            for run, hint in look.in_turn(self._waiting(me, look)):
                with self._passing_over(hint, look):
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

    def renew(self, mine: Seen, progress: Progress = UNKNOWN) -> Seen | None:
        """Renew a claim; None: another has the run, or it has ended, so its program must end.

        Its Lease counts from before the call. Without an answer the claim is as it was. `progress`
        is there for all who list the runs.
        """
        mine = mine._replace(run=replace(mine.run, step=progress.step, loss=progress.loss))
        said = objects.progress_text(progress)
        for number in range(TRIES):
            beat = {"beat": self._nonce(), "progress": said}
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

    def note(self, mine: Seen, attempt: int, failures: int) -> Seen | None:
        """Write down what was counted of a run, which renews the claim as well; None as `renew`."""
        new = claims.noted(mine.run, attempt, failures, self._nonce(), self._now())
        return self._swapped(new, mine)

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

    def over_limit(
        self, run: Submitted, limit: Limits, chips: int, holds: list[Hold] | None = None
    ) -> str:
        """Return which limit a run passes with those that have slices, as `holds` or a list says.

        It is one of its person, or that of its sweep.
        """
        if not limit.counts(run):
            return ""
        found = self.holds(run.person) if holds is None else holds
        others = [one for one in found if one.run != run.name]
        arms = [one for one in others if Held(one.run, one.chips).is_with(run)]
        why = self._true(others, lambda held: limits.over(limit, run.person, held, chips))
        return why or self._true(arms, lambda held: limits.over_at_once(run, held))

    def over_hours(self, person: str, limit: Limits) -> str:
        """Return why a person has no chip hours left, by a list of all runs that is not old."""
        if limit.chip_hours is None:
            return ""
        if self.listed is None or self._clock() - self.listed.sent > 2 * TEND:
            self.listed = self.all()
        return hours.over(limit, person, self.listed.states, self._now())

    def arms(self, run: Submitted) -> list[Submitted]:
        """Return all arms of a run's sweep, as far as they are, by one list."""
        found = []
        for one in self._asking.pages(self._bucket, f"{RUNS}{run.sweep}-"):
            with contextlib.suppress(Refused):
                arm = seen_of(one, run_in(one)).run
                if (arm.person, *arm.swept) == (run.person, *run.swept):
                    found.append(arm)
        return found[:MOST_ARMS]

    def holds(self, person: str) -> list[Hold]:
        """Return the hints that a person's runs have slices."""
        found = []
        for one in self._asking.pages(self._bucket, f"{HOLDS}{person}/"):
            with contextlib.suppress(Refused):
                found.append(objects.hold_of(one.name, one.metadata))
        return found

    # Parts

    def _waiting(self, me: Serving, look: _Look) -> Iterator[tuple[Submitted, Stored]]:
        """Yield the runs that fit a slice by their hints, the next first."""
        for hint in self._asking.pages(self._bucket, WAITS, FIRST_PAGE):
            run = None
            if hint.name not in self._denied:
                with contextlib.suppress(Refused), self._passing_over(hint, look):
                    name = objects.hint_of(hint.name)
                    run = None if look.is_limited(name.person) else self._by_hint(hint, name.run)
            if run and objects.hint_name(run) == hint.name and not order.unfit(run, me):
                yield run, hint

    @contextlib.contextmanager
    def _passing_over(self, hint: Stored, look: _Look) -> Iterator[None]:
        """Pass a run over, for a while, whose objects the bucket does not let one read or write."""
        try:
            yield
        except Denied as why:
            self._denied[hint.name] = self._clock() + DENIED
            look.note_denied(why)

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
            self._stopped(seen, wish.why)
            return None
        if order.unfit(seen.run, look.me) or look.hindrance(seen.run) or look.may(seen.run):
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
        try:
            mine = self._swapped(new, seen)
        except Denied:
            self._loose.discard(new.name)
            raise
        if mine is None:
            look.lose_race()
        else:
            # Of several that claim at once, the last to look sees all that go on.
            self._hold(mine.run)
            why = self.over_limit(new, look.limit, owner.chips)
            why = why or self.over_hours(new.person, look.limit)
            if why:
                look.note(new, why)
                self._crowds.too_many(_group(new))
                back = self._free(mine.run, seen.run.reason)
                self._left(back, mine, is_news=False)
                mine = None
            else:
                self._crowds.took(_group(new))
        self._loose.discard(new.name)
        return mine

    def _true(self, found: list[Hold], judge: Callable[[list[Held]], str]) -> str:
        """Return what is judged by hints; if that is against a run, only by those that are true."""
        why = judge([Held(one.run, one.chips) for one in found])
        if not why or len(found) > MOST_CHECKED:
            return why
        return judge([one for one in map(self._held, found) if one])

    def _held(self, hold: Hold) -> Held | None:
        """Return what a hint says if it is true; else delete it."""
        known = self._compared.get(hold)
        if known:
            return known
        seen = None
        with contextlib.suppress(Denied):
            seen = self._found(hold.run)
        if seen and seen.run.owner and (seen.run.person, seen.run.claims) == (hold[0], hold[2]):
            return self._compared.put(hold, Held.of(seen.run))
        name = f"{HOLDS}{hold.person}/{hold.run}/{hold.claims}"
        self._quietly(self._bucket.delete, name)
        return None

    def _hold(self, run: Submitted) -> None:
        chips = {"chips": str(run.owner.chips if run.owner else 0)}
        with contextlib.suppress(Denied):  # there is one, if not of this claim
            self._asking.again(lambda: self._bucket.put(objects.hold_name(run), b"", chips))

    def _settle(self, owner: Owner) -> None:
        """Give back what may have been claimed, by a write whose answer was lost."""
        for name in sorted(self._loose):
            with contextlib.suppress(Denied):  # then `tend` gives it back
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
        outcome = Outcome(STOPPED, wish.why, None, attempt, failures)
        return claims.finished(run, outcome, nonce, now)

    def _left(
        self, new: Submitted | None, mine: Seen, exact: bool = False, is_news: bool = True
    ) -> Seen | None:
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
        return self._announced(done, is_news)


class _Look:
    """What one look of a leader has found out."""

    def __init__(
        self, queue: Leading, me: Serving, limit: Limits, may: Callable[[Submitted], str]
    ) -> None:
        self.me, self.limit, self.may = me, limit, may
        self._queue = queue
        self._states: dict[str, str | None] = {}
        self._holds: dict[str, list[Hold]] = {}
        self._spent: dict[str, str] = {}
        self._full: dict[_Group, str] = {}
        self._races = self._skip = self._denied = 0

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

    def note_denied(self, why: Denied) -> None:
        """Count what was denied; raise if it is much, as the bucket may refuse everything."""
        self._denied += 1
        if self._denied > MOST_DENIED:
            raise why

    def hindrance(self, run: Submitted) -> str:
        """Return why a run cannot be taken at present; empty if it can."""
        states = {name: self._state(name) for name in run.after}
        return order.held_back(run, states) or self._over_hours(run.person) or self._over(run)

    def is_limited(self, person: str) -> bool:
        """Say whether a person is known to have no more."""
        return bool(self._spent.get(person) or self._full.get((person, _ALL)))

    def note(self, run: Submitted, why: str) -> None:
        """Note why no more of what a run is one of is taken in this look."""
        self._full[_group(run)] = why

    def _state(self, name: str) -> str | None:
        if name not in self._states:
            seen = self._queue._found(name)
            self._states[name] = seen.run.state if seen else None
        return self._states[name]

    def _over_hours(self, person: str) -> str:
        if person not in self._spent:
            self._spent[person] = self._queue.over_hours(person, self.limit)
        return self._spent[person]

    def _over(self, run: Submitted) -> str:
        """Return which limit a run passes; runs of one group are the same in that."""
        group = _group(run)
        if self._queue._crowds.waits(group):
            self._full[group] = "others take what there is room for"
        if group not in self._full and self.limit.counts(run):
            self._full[group] = self._queue.over_limit(
                run, self.limit, self.me.chips, self._held_by(run.person)
            )
        return self._full.get(group, "")

    def _held_by(self, person: str) -> list[Hold]:
        """List what a person has, once in this look."""
        if person not in self._holds:
            self._holds[person] = self._queue.holds(person)
        return self._holds[person]


def _group(run: Submitted) -> _Group:
    """Return whose limit a run may pass: that of its person, or that of its sweep as well."""
    return run.person, _ALL if run.at_once is None else (*run.swept, run.at_once)


def _step(run: Submitted) -> tuple[int, int, str]:
    """Return what makes one step of a run's life: no other step has the same."""
    return run.round, run.claims, run.state
