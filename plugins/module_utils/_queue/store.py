# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the queue over a bucket.

A write is carried out on the condition that the object is still the one that was read. Where its
answer is lost, the object is read again: the nonce in it says whether it was this write. So a step
is done, or another was faster (None), or nothing is known (NoAnswer): then it is repeated later.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from . import claims, limits, objects, order
from .bucket import TRIES, Asking, Bucket, NoAnswer, Stored
from .claims import Node, Outcome, Silence
from .limits import NO_LIMITS, Held, Limits
from .objects import (
    BELL,
    CODE,
    DEFINITIONS,
    ENDS,
    HOLDS,
    RUNNING,
    RUNS,
    STOP,
    STOPPED,
    WAITING,
    WAITS,
    Definition,
    Hold,
    Owner,
    Refused,
    Signed,
    Submitted,
    Wish,
)
from .order import Serving

FIRST_PAGE = 100
"""Runs that wait, of which a leader hears first."""
MOST_CHECKED = 200
"""Hints of runs that have slices, of one person, that a leader verifies in one look."""
KEPT = 7 * 86400.0
"""Seconds after its end in which a run is in the list of all."""
MOST_MOVED = 200
"""Runs that are moved out of it at a time."""
LOST_ANSWER = "its slice did not hear that it had it"


class Exists(Exception):
    """There is a run of this name; the text says what to do."""


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
    """When they were asked for, and received: seconds of the queue's clock."""

    @property
    def states(self) -> list[Submitted]:
        """Return the states."""
        return [seen.run for seen in self.runs.values()]


def since_boot() -> float:
    """Return the seconds since the boot, also those in which the machine was suspended."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)  # of Linux
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Queue:
    """The queue in a bucket's folder, for one thread.

    All methods but those that say otherwise may raise NoAnswer, and may be called again then.
    """

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
        self._texts: dict[str, tuple[str, Submitted]] = {}
        self._loose: set[str] = set()  # what may have been claimed, by a write without an answer

    # Reading

    def read(self, name: str) -> Seen | None:
        """Return a run's state; None if there is no such run. Raises Refused."""
        found = self._asking.again(lambda: self._bucket.get(RUNS + name))
        if found is not None:
            return _seen(found, found.data)
        moved = self._asking.again(lambda: self._bucket.get(ENDS + name))
        # What is written over it is written where there is nothing.
        return _seen(moved, moved.data, ENDS)._replace(generation=0) if moved else None

    def all(self) -> Listing:
        """Return all runs but those that ended long ago, by one list.

        A bad object costs only itself.
        """
        listing = Listing(sent=self._clock())
        for found in self._asking.pages(self._bucket, RUNS):
            try:
                run = self._read_before(found)
                listing.runs[run.name] = Seen(run, found.generation, found.metageneration)
            except Refused as why:
                listing.refused[objects.one_line(found.name, 100)] = str(why)
        listing.got = self._clock()
        self._texts = {name: one for name, one in self._texts.items() if name in listing.runs}
        return listing

    def definition(self, sha: str) -> Signed:
        """Return what was signed under this name. Its signature is not verified; raises Refused."""
        found = self._asking.again(lambda: self._bucket.get(DEFINITIONS + sha))
        if found is None:
            raise Refused([f"definition: {sha} is not in the bucket: submit the run again"])
        signed = objects.signed_of(found.data)
        if objects.sha_of(signed.signed) != sha:
            raise Refused([f"definition: {sha} is not that of its text: submit the run again"])
        return signed

    def code(self, sha: str) -> bytes | None:
        """Return an archive of code, whose SHA its reader compares; None: there is none."""
        found = self._asking.again(lambda: self._bucket.get(_code_name(sha)))
        return None if found is None else found.data

    def has_code(self, sha: str) -> bool:
        """Return whether an archive of code is there."""
        return bool(self._asking.again(lambda: self._bucket.list(_code_name(sha), "", 1))[0])

    def wish(self, run: Submitted) -> Wish | None:
        """Return the wish to stop this round of a run."""
        wish = self._wish(run.name)[0]
        return wish if wish and wish.round == run.round else None

    def heard(self) -> int:
        """Return a number that is another one whenever there may be something to do; asks once."""
        found = self._bucket.get(BELL)
        return 0 if found is None else found.generation

    # Submitting, stopping, retrying: by people

    def put_code(self, sha: str, data: bytes) -> None:
        """Write an archive of code, unless it is there."""
        self._asking.again(lambda: self._bucket.put(_code_name(sha), data, {}, 0))

    def submit(
        self, definition: Definition, signed: Signed, turn: int, again: bool = False
    ) -> Seen:
        """Put a run into the queue, and its definition before; return its state.

        `turn` is limits.turn_of, plus one for each further run of the same sweep. Raises Exists
        if there is a run of this name: unless it has ended, and `again` says to take its place.
        Raises Refused for values that no reader would take.
        """
        new = objects.of_definition(definition, turn, self._nonce(), self._now())
        self._put_definition(new.definition, objects.signed_bytes(signed))
        before = self.read(definition.name)
        wanted: Submitted | None = new
        if before is not None:
            if before.run.definition == new.definition and before.run.is_open:
                return self._announced(before)  # the answer to an earlier call was lost
            wanted = claims.submitted_again(before.run, new) if again else None
        done = self._swapped(wanted, before) if wanted else None
        if done is None:
            raise _exists(before or self.read(definition.name))
        return self._announced(done)

    def stop(self, name: str, person: str) -> Submitted | None:
        """Stop a run, or ask its owner to; return the state then. None: there is no such run.

        A run that is RUNNING in the answer ends when its owner reads the wish. Raises Refused.
        """
        for _ in range(TRIES):
            seen = self.read(name)
            if seen is None or not seen.run.is_open:
                return seen and seen.run
            if seen.run.state == RUNNING:
                self._wish_to_stop(seen.run, person)
                return seen.run
            done = self._stopped(seen, person)
            if done is not None:
                return done.run
        raise NoAnswer(f"{name} changes all the time: try again")

    def retry(self, name: str, person: str) -> Submitted | None:
        """Let a failed or stopped run wait again; return its state. None: there is no such run.

        A run in another state stays as it is. Raises Refused.
        """
        listing = self.all()
        seen = listing.runs.get(name) or self.read(name)
        if seen is None:
            return None
        turn = limits.turn_of(seen.run.person, seen.run.priority, listing.states)
        new = claims.retried(seen.run, person, turn, self._nonce(), self._now())
        done = self._swapped(new, seen) if new else None
        if done is not None:
            return self._announced(done).run
        found = self.read(name)
        return found and found.run

    def ring(self) -> None:
        """Let leaders look; never raises."""
        # 429 if others do so at the same time; without it they look a little later.
        self._quietly(self._bucket.put, BELL, b"", {})

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
        last. The program may begin when this has returned, and not before. Its Lease counts from
        before the call, as the answer may have come long ago where the machine stood still.
        """
        self._settle(owner)
        look = _Look(self, me, limit, may)
        for run, hint in look.in_turn(self._waiting(me)):
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

        If it was to be stopped, it is stopped.
        """
        return self._left(self._free(mine.run, reason, attempt, failures), mine)

    # Clearing up: by idle leaders, watchers and controllers

    def take_away(self, seen: Seen, why: str) -> Seen | None:
        """Let a run wait again whose owner is gone, or stop it if it was to be stopped.

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
                self.take_away(seen, why)
        self._tend_wishes(wishes, listing)
        self._tend_hints(hints, holds, listing)
        self._move_ended(listing)
        return listing

    # Parts

    def _read_before(self, found: Stored) -> Submitted:
        """Return a state by its metadata; what the last list had is not read once more."""
        text = found.metadata.get("run", "")
        known = self._texts.get(found.name[len(RUNS) :])
        if known and known[0] == text:
            return known[1]
        run = _seen(found, _text_in(found)).run
        self._texts[run.name] = (text, run)
        return run

    def _found(self, name: str) -> Seen | None:
        """Read a run's state; a bad object is as good as none."""
        try:
            return self.read(name)
        except Refused:
            return None

    def _swapped(self, new: Submitted, before: Seen | None, exact: bool = False) -> Seen | None:
        """Write a state over another, or where there is none; None: it is another one."""
        text = objects.run_text(new)
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
            except NoAnswer:
                is_lost = True
                self._asking.wait(number)
        raise NoAnswer(f"it is not known whether {new.name} is {new.state}")

    def _by_nonce(self, new: Submitted) -> Seen | None:
        """Return the state that was written, if it is there."""
        found = self._found(new.name)
        return found if found and found.run.nonce == new.nonce else None

    # What leaders do

    def _waiting(self, me: Serving) -> Iterator[tuple[Submitted, Stored]]:
        """Yield the runs that fit a slice by their hints, the next first."""
        for hint in self._asking.pages(self._bucket, WAITS, FIRST_PAGE):
            run = self._by_hint(hint)
            if run and objects.hint_name(run) == hint.name and not order.unfit(run, me):
                yield run, hint

    def _by_hint(self, hint: Stored) -> Submitted | None:
        try:
            return objects.run_of(_text_in(hint, "run"))
        except Refused:
            pass  # its name may be right all the same
        try:
            seen = self._found(objects.hint_of(hint.name).run)
            return seen and seen.run
        except Refused:
            return None

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
        """Return a run without its owner: it waits, or is stopped if it was to be stopped."""
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

    # What people do

    def _put_definition(self, sha: str, data: bytes) -> None:
        """Write a definition; what another has put under its name is written over."""
        name, generation = DEFINITIONS + sha, 0
        for number in range(TRIES):
            try:
                if self._bucket.put(name, data, {}, generation) is not None:
                    return
                found = self._bucket.get(name)
                if found and found.data == data:
                    return
                generation = found.generation if found else 0
            except NoAnswer:
                self._asking.wait(number)
        raise NoAnswer(f"{name} is not written: try again")

    def _announced(self, seen: Seen) -> Seen:
        """Have leaders see what waits, or may wait no longer because another has ended."""
        if seen.run.state == WAITING:
            self._quietly(self._asking.again, lambda: self._hint(seen.run))
        if seen.run.state != RUNNING:
            self.ring()
        return seen

    def _hint(self, run: Submitted) -> None:
        self._bucket.put(objects.hint_name(run), b"", {"run": objects.run_text(run)})

    def _stopped(self, seen: Seen, person: str) -> Seen | None:
        new = claims.stopped(seen.run, person, self._nonce(), self._now())
        done = self._swapped(new, seen) if new else None
        return self._announced(done) if done else None

    def _wish(self, name: str) -> tuple[Wish | None, int]:
        found = self._asking.again(lambda: self._bucket.get(STOP + name))
        if found is None:
            return None, 0
        try:
            wish = objects.wish_of(found.data)
        except Refused:
            return None, found.generation
        return (wish if wish.name == name else None), found.generation

    def _wish_to_stop(self, run: Submitted, person: str) -> None:
        wish, generation = self._wish(run.name)
        if wish is None or wish.round < run.round:
            data = objects.wish_bytes(Wish(run.name, person, run.round, self._now()))
            about = {"wish": data.decode("ascii")}
            # None: another one wishes it at the same time.
            self._asking.again(lambda: self._bucket.put(STOP + run.name, data, about, generation))
        self.ring()

    def _quietly(self, do: Callable[..., object], *words: object) -> None:
        """Do what `tend` does later if it is not done now."""
        with contextlib.suppress(NoAnswer):
            do(*words)

    # What is cleared up

    def _gone(self, seen: Seen, listing: Listing, by: _Evidence) -> str:
        """Return why a run's owner cannot run it any more; empty if it may."""
        run, owner = seen.run, seen.run.owner
        if owner is None:
            return ""
        if by.here and owner.is_same_machine(by.here):
            return "" if run.name in by.held else LOST_ANSWER
        node = by.nodes(owner)
        quiet = self._silence.of(run.name, *seen[1:], listing.sent, listing.got)
        return (
            (by.here and claims.recreated(owner, by.here))
            or (node and claims.gone_by_api(owner, node))
            or claims.silent(owner, quiet, by.take_after)
        )

    def _tend_wishes(self, wishes: Iterable[Stored], listing: Listing) -> None:
        """Carry out the wish to stop what waits; delete those of rounds that are over."""
        for one in wishes:
            seen = listing.runs.get(one.name[len(STOP) :])
            wish = _wish_in(one)
            if seen is None or wish is None or not _concerns(wish, seen.run):
                self._quietly(self._bucket.delete, one.name, one.generation)
            elif seen.run.state == WAITING:
                self._stopped(seen, wish.person)

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
            if (seen.run.ended_at or since) < since and name not in needed
        ]
        for seen in old[:MOST_MOVED]:
            self._quietly(self._move, seen)

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


class _Look:
    """What one look of a leader has found out."""

    def __init__(
        self, queue: Queue, me: Serving, limit: Limits, may: Callable[[Submitted], str]
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


def _seen(found: Stored, text: bytes, where: str = RUNS) -> Seen:
    run = objects.run_of(text)
    if found.name != where + run.name:
        raise Refused([f"name: {run.name} is in the object of another name"])
    return Seen(run, found.generation, found.metageneration)


def _text_in(found: Stored, key: str = "run") -> bytes:
    return str(found.metadata.get(key, "")).encode("ascii", "replace")


def _wish_in(found: Stored) -> Wish | None:
    try:
        return objects.wish_of(_text_in(found, "wish"))
    except Refused:
        return None


def _concerns(wish: Wish, run: Submitted) -> bool:
    return run.is_open and (wish.name, wish.round) == (run.name, run.round)


def _step(run: Submitted) -> tuple[int, int, str]:
    """Return what makes one step of a run's life: no other step has the same."""
    return run.round, run.claims, run.state


def _code_name(sha: str) -> str:
    return f"{CODE}{sha}.tar.gz"


def _exists(seen: Seen | None) -> Exists:
    if seen is None:
        return Exists("there is a run of this name by now: choose another name")
    run = seen.run
    remedy = "choose another name, or stop it" if run.is_open else "choose another name, or --again"
    return Exists(f"{run.name} of {run.person} is there, and {run.state}: {remedy}")
