"""What must be true of the writers of a bucket, whatever happens (`simulation/writers.py`)."""

from __future__ import annotations

import json
from typing import Any, Protocol

from run_agent.decide import fence
from run_agent.decide.fence import Mark
from run_agent.decide.gang_state import Gang
from run_agent.decide.run_states import RUNNING

from simulation.tasks import Clockwork

HOLD = 0.75
"""Seconds after which the program on a machine that stood still is held."""
BUCKET, STILL = "bucket", "still"
"""What may keep a machine from seeing the fence: the bucket is away for it, or it stands still."""


class Seat(Protocol):
    """A machine, as the rules see it."""

    name: str
    disturbances: list[tuple[float, float, str]]

    @property
    def leads(self) -> Any:
        """Return worker 0 of its gang."""

    def is_up(self) -> bool:
        """Return whether it runs."""


class Writer(Protocol):
    """A program, as the rules see it."""

    attempt: int
    owner: str
    place: str
    is_stopped: bool

    @property
    def machine(self) -> Any:
        """Return where it runs."""


class Rules:
    """Looks at everything that matters, and notes what is broken."""

    def __init__(self, clockwork: Clockwork, name: str, promise: float, own_folders: bool) -> None:
        self.broken: list[str] = []
        self.story: list[str] = []
        self.marks: list[tuple[float, Mark]] = []
        self.crashes = 0
        self.named: dict[str, float] = {}
        """When each gang has seen that the fence names it."""
        self.begun: dict[tuple[int, str], float] = {}
        self._clockwork, self._name, self._promise = clockwork, name, promise
        self._own_folders = own_folders
        self._decided: dict[int, str] = {}
        self._asked: dict[tuple[int, str], float] = {}
        self.whole: dict[str, float] = {}
        """When each checkpoint became whole, by its folder."""

    def note(self, text: str) -> None:
        """Write a line into the story."""
        self.story.append(f"{self._clockwork.now:8.2f}  {text}")

    def broke(self, text: str) -> None:
        """Note what is broken."""
        if text not in self.broken:
            self.broken.append(text)
            self.note(f"BROKEN  {text}")

    # What agents do -----------------------------------------------------------------------------

    def agent_wrote(self, name: str, data: bytes, programs: list[Any]) -> None:
        """Take in an object that an agent has written, which may be the fence alone."""
        mark = Mark.from_json(json.loads(data)) if name == self._name else None
        if mark is None:
            self.broke(f"an agent wrote {name}")
            return
        before = self.marks[-1][1] if self.marks else Mark(0, "")
        if mark.attempt < before.attempt or (mark.attempt, before.owner) == (
            before.attempt, before.owner if mark.owner != before.owner else "",
        ):  # fmt: skip
            self.broke(f"the fence went from {before} to {mark}")
        key = (mark.attempt, mark.owner)
        if before.ended and key == (before.attempt, before.owner):
            self.broke(f"attempt {mark.attempt} had ended, and the fence names it again")
        if mark.ended and any((one.attempt, one.owner) == key for one in programs):
            self.broke(f"attempt {mark.attempt} is said to have ended, and it runs")
        self.marks.append((self._clockwork.now, mark))
        self.note(
            f"fence   {mark.attempt} {mark.owner} {mark.where} {mark.reserved=} {mark.ended=}"
        )

    def searched_from(self, claim: dict[str, Any] | None) -> None:
        """Note when the search for the last whole checkpoint begins that a claim may write."""
        if claim is not None:
            key = (claim["mark"]["attempt"], claim["mark"]["owner"])
            self._asked[key] = self._clockwork.now

    def decided(self, gang: Gang) -> None:
        """See what a leader has decided."""
        if gang.phase == RUNNING:
            owner = self._decided.setdefault(gang.attempt, gang.owner)
            if owner != gang.owner:
                self.broke(f"attempt {gang.attempt} was decided by {owner} and {gang.owner}")
        if len(gang.failures) > self.crashes:
            self.broke(f"a failure of the program was counted of none: {gang.reason}")

    # What programs do ---------------------------------------------------------------------------

    def started(self, one: Writer, asked: float, restore: str) -> None:
        """See a program start, of which the fence was asked since a time."""
        now, key = self._clockwork.now, (one.attempt, one.owner)
        self.note(f"start   attempt {one.attempt} of {one.owner} on {one.machine.name} {restore}")
        self.begun.setdefault(key, now)
        if not any((m.attempt, m.owner) == key and not m.reserved for m in self._named(asked)):
            self.broke(f"attempt {one.attempt} started although the fence names it not")
        if self._own_folders:
            self._restores(one, restore)

    def _named(self, since: float) -> list[Mark]:
        """Return what the fence has said since a time."""
        before = [mark for at, mark in self.marks if at <= since]
        return before[-1:] + [mark for at, mark in self.marks if at > since]

    def _restores(self, one: Writer, restore: str) -> None:
        """Nothing is lost: it restores from the last attempt that had a whole checkpoint."""
        asked = self._asked.get((one.attempt, one.owner), self._clockwork.now)
        asked = min([asked, *(at for at, m in self.marks if m.attempt == one.attempt)])
        numbers = [
            number
            for folder, at in self.whole.items()
            if at < asked and (number := fence.number_of(folder.split("/")[1])) is not None
        ]
        best = max((number for number in numbers if number < one.attempt), default=0)
        found = fence.number_of(restore.rpartition("/")[2]) or 0
        if found < best:
            self.broke(f"attempt {one.attempt} lost attempt {best}: it restores from {restore!r}")

    def saves(self, one: Writer) -> None:
        """See a program write."""
        key = (one.attempt, one.owner)
        begun = [at for other, at in self.begun.items() if other != key and other >= (key[0], "")]
        if not begun:
            return
        now, since = self._clockwork.now, min(begun)
        allowed = since + 0.5
        bucket, still = (self._last(one, kind) for kind in (BUCKET, STILL))
        if bucket is not None:
            allowed = max(since, bucket, still or 0.0) + self._promise
        elif still is not None:
            allowed = max(since, still) + HOLD
        if now > allowed:
            self.broke(
                f"attempt {one.attempt} on {one.machine.name} wrote {now - since:.1f} s after a "
                f"later one had begun, and {now - allowed:.1f} s after it was to have ended"
            )

    def look_at(self, one: Writer) -> None:
        """See a program that runs: one that is over ends soon."""
        since = self._shut_out_since(one)
        if since is None or not one.machine.is_up() or one.is_stopped:
            return
        last = [self._last(one, kind) or 0.0 for kind in (BUCKET, STILL)]
        if self._clockwork.now > max(since, *last) + self._promise:
            self.broke(f"attempt {one.attempt} on {one.machine.name} runs on")

    def _shut_out_since(self, one: Writer) -> float | None:
        for at, mark in self.marks:
            if fence.shuts_out(mark, one.owner, one.attempt):
                return at
        return None

    def _last(self, one: Writer, kind: str) -> float | None:
        """Return when what kept its machines from the fence ended, if it matters."""
        since = self._shut_out_since(one) or self._clockwork.now
        machines = [one.machine] if kind == STILL else [one.machine, one.machine.leads]
        ends = [
            min(end, self._clockwork.now)
            for machine in machines
            for begun, end, what in machine.disturbances
            if what == kind and end > since - 25.0 and begun <= self._clockwork.now
        ]
        return max(ends, default=None)

    def became_whole(self, one: Writer, folder: str, parts: dict[str, tuple[int, str]]) -> None:
        """See a mark written: all parts are there, and of one attempt, where each has a folder."""
        self.whole[folder] = self._clockwork.now
        if self._own_folders and set(parts.values()) != {(one.attempt, one.owner)}:
            self.broke(f"{folder} is whole and mixed: {parts}")

    def overwrites(self, one: Writer, name: str) -> None:
        """See an object written that was there."""
        if self._own_folders and any(name.startswith(f"{folder}/") for folder in self.whole):
            self.broke(f"attempt {one.attempt} wrote over {name}, which was whole")

    def deletes(self, folder: str, programs: list[Any]) -> None:
        """See a person delete what is left over."""
        if folder in self.whole:
            self.broke(f"{folder}, which is whole, was deleted as a leftover")
        if self._own_folders and any(one.writing == folder for one in programs):
            self.broke(f"{folder}, which is being written, was deleted as a leftover")
