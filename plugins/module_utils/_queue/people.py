# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people do with the queue: submit, stop and retry runs."""

from __future__ import annotations

from . import claims, limits, objects
from .access import Access, code_name
from .bucket import TRIES, NoAnswer
from .objects import DEFINITIONS, RUNNING, STOP, Definition, Signed, Submitted, Wish
from .seen import Seen


class Exists(Exception):
    """There is a run of this name; the text says what to do."""


class People(Access):
    """Submitting, stopping and retrying."""

    def put_code(self, sha: str, data: bytes) -> None:
        """Write an archive of code, unless it is there."""
        self._asking.again(lambda: self._bucket.put(code_name(sha), data, {}, 0))

    def submit(
        self,
        definition: Definition,
        signed: Signed,
        turn: int,
        again: bool = False,
        rings: bool = True,
    ) -> Seen:
        """Put a run into the queue, and its definition before; return its state.

        `turn` is limits.turn_of, plus one for each further run of the same sweep. Raises Exists
        if there is a run of this name: unless it has ended, and `again` says to take its place.
        Raises Refused for values that no reader would take. Without `rings` the caller rings.
        """
        new = objects.of_definition(definition, turn, self._nonce(), self._now())
        self._put_definition(new.definition, objects.signed_bytes(signed))
        before = self.read(definition.name)
        wanted: Submitted | None = new
        if before is not None:
            if before.run.definition == new.definition and before.run.is_open:
                return self._announced(before, rings)  # the answer to an earlier call was lost
            wanted = claims.submitted_again(before.run, new) if again else None
        done = self._swapped(wanted, before) if wanted else None
        if done is None:
            raise _exists(before or self.read(definition.name))
        return self._announced(done, rings)

    def stop(
        self, name: str, person: str, rule: str = "", definition: str = ""
    ) -> Submitted | None:
        """Stop a run, or ask its owner to; return the state then. None: there is no such run.

        `rule` is what fleet_queue.on_result said of it, if that is why. A run of another definition
        than a given one stays as it is.

        A run that is RUNNING in the answer ends when its owner reads the wish. Raises Refused.
        """
        for _ in range(TRIES):
            seen = self.read(name)
            if seen is None or not seen.run.is_open:
                return seen and seen.run
            if definition not in ("", seen.run.definition):
                return seen.run
            if seen.run.state == RUNNING:
                self._wish_to_stop(seen.run, person, rule)
                return seen.run
            done = self._stopped(seen, Wish(name, person, seen.run.round, 0.0, rule).why)
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

    # Parts

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

    def _wish_to_stop(self, run: Submitted, person: str, rule: str) -> None:
        wish, generation = self._wish(run.name)
        if wish is None or wish.round < run.round:
            data = objects.wish_bytes(Wish(run.name, person, run.round, self._now(), rule))
            about = {"wish": data.decode("ascii")}
            # None in the answer: another one wishes it at the same time.
            self._asking.again(lambda: self._bucket.put(STOP + run.name, data, about, generation))
        self.ring()


def _exists(seen: Seen | None) -> Exists:
    if seen is None:
        return Exists("there is a run of this name by now: choose another name")
    run = seen.run
    remedy = "choose another name, or stop it" if run.is_open else "choose another name, or --again"
    return Exists(f"{run.name} of {run.person} is there, and {run.state}: {remedy}")
