"""Submit runs: freeze the code, sign the definitions, write them into the bucket.

`tpu_fleet.submit` is this for programs, and `tpu-fleet submit` for people; `tpu_fleet.submitted`
is what became of the runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host.snapshot import SnapshotError
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import turn_of
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    Definition,
    Refused,
    Signed,
    Submitted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Place, places
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Exists, Queue

from ..workers.inventory.read import read_inventory
from .code import Frozen, freeze
from .fleet import QueueOfFleet, queue_of
from .sign import Signer, SignError, signer_of
from .sweep import SubmitError
from .view import look
from .wanted import NONE, Request, Wanted, definitions_of, free_name, wanted_of

__all__ = ["NoAnswer", "Submission", "SubmitError", "submit", "submit_numbered", "submitted"]
AT_ONCE = 8
"""Runs that are signed and written at the same time."""
RING_SECONDS = 1.0
"""Between two times that idle slices are made to look, while runs are written."""


@dataclass
class Submission:
    """What is submitted, or would be."""

    definitions: list[Definition]
    codes: list[Frozen]
    """The code of the runs, each once."""
    runs: list[Submitted] = field(default_factory=list)
    """Their states, once they are in the queue."""
    places: Mapping[str, Place] = field(default_factory=dict)
    """Where each stands, and why it waits."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a run was not submitted, by its name."""

    @property
    def names(self) -> list[str]:
        """Return the names of the runs that are in the queue."""
        return [one.name for one in self.runs]

    def to_dict(self) -> dict[str, Any]:
        """Return it for programs."""
        reasons = {name: place.reason for name, place in self.places.items()}
        return {
            "runs": [{**asdict(one), "why": reasons.get(one.name)} for one in self.definitions],
            "submitted": self.names,
            "failed": self.failed,
        }


@dataclass
class Submitting:
    """One call of `submit`: the fleet, the person, and what is in the queue."""

    fleet: QueueOfFleet
    signer: Signer
    folder: Path
    """Where the code is, if a run does not name its own folder."""
    again: bool = False
    without: Sequence[Path] = ()
    """Folders that are no part of the code, beside the fleet's."""
    known: dict[str, Submitted] = field(default_factory=dict)
    """The runs that were in the queue before, by name."""
    _codes: dict[Path, Frozen] = field(default_factory=dict)

    @classmethod
    def here(
        cls, key: str | None, folder: Path, again: bool, without: Sequence[Path] = ()
    ) -> Submitting:
        """Return it for the fleet in this folder; raises what `submit` does."""
        fleet = queue_of(read_inventory())
        return cls(fleet, signer_of(fleet.users, key, fleet.login_key), folder, again, without)

    def prepared(self, wanted: Sequence[Wanted], queue: Queue) -> Submission:
        """Return the definitions with their frozen code; nothing is written.

        Raises SubmitError, with everything that is wrong with all of them, and NoAnswer.
        """
        self.known = {one.name: one for one in queue.all().states}
        found, wrong = self._definitions(wanted)
        if wrong:
            raise SubmitError("\n".join(dict.fromkeys(wrong)))
        states = states_of(found, self.known.values())
        return Submission(found, list(self._codes.values()), places=self._places(states))

    def _definitions(self, wanted: Sequence[Wanted]) -> tuple[list[Definition], list[str]]:
        found: list[Definition] = []
        wrong: list[str] = []
        for one in wanted:
            # What comes later in a file may wait for what stands before.
            before = [made.name for made in found]
            request = Request(self.fleet, self.signer.person, self.known, self.again)
            try:
                new = definitions_of(one, self._code_of(one), request, time.time(), before)
            except SubmitError as error:
                wrong += str(error).splitlines()
                continue
            twice = [made.name for made in new if made.name in before]
            wrong += [f"name: {name} is there twice. Give each run its own" for name in twice]
            found += new
        return found, wrong

    def _code_of(self, wanted: Wanted) -> str | None:
        if wanted.code == NONE:
            return None
        folder = (self.folder / Path(wanted.code or ".").expanduser()).resolve()
        if folder not in self._codes:
            try:
                self._codes[folder] = freeze(folder, [self.fleet.folder, *self.without])
            except (OSError, SnapshotError) as error:
                raise SubmitError(
                    f"--code {folder}: it cannot be packed: {error}. Name the folder of the code, "
                    f"or {NONE}"
                ) from error
        return self._codes[folder].sha

    def _places(self, new: Sequence[Submitted]) -> Mapping[str, Place]:
        runs = {**self.known, **{one.name: one for one in new}}.values()
        return places(runs, self.fleet.serving(runs), self.fleet.limits, now=time.time())

    def send(self, submission: Submission, queue: Queue) -> None:
        """Write code, definitions and states; why a run was not written is in the submission.

        Raises SignError for the first of them, and NoAnswer, while nothing is in the queue yet.
        """
        first = self._signed(submission.definitions[0])
        for code in submission.codes:
            if not queue.has_code(code.sha):
                queue.put_code(code.sha, code.data)
        turns = [one.turn for one in states_of(submission.definitions, self.known.values())]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            sent = [
                pool.submit(self._sent, queue, definition, turn, first if not number else None)
                for number, (definition, turn) in enumerate(
                    zip(submission.definitions, turns, strict=True)
                )
            ]
            # A bucket takes about one write of an object in a second.
            while wait(sent, RING_SECONDS).not_done:
                queue.ring()
        queue.ring()
        for definition, one in zip(submission.definitions, sent, strict=True):
            state = one.result()
            if isinstance(state, str):
                submission.failed[definition.name] = state
            else:
                submission.runs.append(state)
        submission.places = self._places(submission.runs)

    def _signed(self, definition: Definition) -> Signed:
        text = objects.definition_text(definition)
        return Signed(text, self.signer.sign(text))

    def _sent(
        self, queue: Queue, definition: Definition, turn: int, signed: Signed | None
    ) -> Submitted | str:
        """Return the state of a run that is in the queue now, or why it is not."""
        try:
            signed = signed or self._signed(definition)
            return queue.submit(definition, signed, turn, self.again, rings=False).run
        except (Exists, NoAnswer, Refused, SignError) as error:
            return str(error)


def states_of(definitions: Sequence[Definition], known: Iterable[Submitted]) -> list[Submitted]:
    """Return the states that runs would have, one after the other in turn."""
    runs, found = list(known), []
    for one in definitions:
        turn = turn_of(one.person, one.priority, runs)
        found.append(objects.of_definition(one, turn, "0" * 32, one.submitted_at))
        runs.append(found[-1])
    return found


def submit(
    command: Sequence[str] | str,
    *,
    name: str = "",
    sweep: Mapping[str, Sequence[Any]] | None = None,
    at_once: int | None = None,
    on: Sequence[str] = (),
    after: Sequence[str] = (),
    priority: int = 0,
    venv: str | None = None,
    user: str = "",
    checkpoint_dir: str = "",
    retries: int | None = None,
    secrets: Sequence[str] = (),
    max_hours: int | None = None,
    code: str | None = None,
    key: str | None = None,
    again: bool = False,
    dry_run: bool = False,
    **options: Any,
) -> Submission:
    """Submit a run, or those of a sweep, to the queue of the fleet in this folder.

    A command is a list of words; a text is split as a shell would. `{KEY}` in it gets each value of
    `sweep`, as {"lr": [1e-3, 3e-4]}, and at most `at_once` of these runs run at a time. `on` has
    accelerator types and slices, `code` a folder (this one by default, "none" for none), `key` the
    file of an SSH key, `options` more keys of a run, as `hang_after="30m"`. `priority` is from 0 to
    9, and 9 goes first; `max_hours` is in hours.

    Raises SubmitError with all mistakes, QueueError and PlayError for a fleet without a queue,
    SignError without a key, and NoAnswer if the bucket does not answer. Of several runs, those that
    the bucket did not take are in `failed` of what is returned.
    """
    given: dict[str, Any] = {
        "name": name, "on": list(on), "after": list(after), "priority": priority, "user": user,
        "checkpoint_dir": checkpoint_dir, "retries": retries, "secrets": list(secrets),
        "max_hours": max_hours, "code": code, "venv": venv, "at_once": at_once,
        "sweep": dict(sweep or {}), **options,
    }  # fmt: skip
    wanted = wanted_of(
        {"command": command if isinstance(command, str) else list(command)}
        | {one: value for one, value in given.items() if value not in (None, "", [], {})},
        "submit",
        Wanted(),
    )
    work = Submitting.here(key, Path.cwd(), again)
    queue = work.fleet.opened()
    submission = work.prepared([wanted], queue)
    if not dry_run:
        work.send(submission, queue)
    return submission


def submit_numbered(
    entries: Sequence[Mapping[str, Any]],
    name: str,
    *,
    parameters: Sequence[Mapping[str, str]],
    first: int = 1,
    at_once: int | None = None,
    key: str | None = None,
    again: bool = False,
    without: Sequence[Path] = (),
) -> Submission:
    """Submit the arms NAME-1, NAME-2, … of a sweep, whose other keys are as in a file.

    They are numbered from `first`; `parameters` has the values of each. Folders of `without` are no
    part of the code. Raises what `submit` does, before anything is submitted.
    """
    work = Submitting.here(key, Path.cwd(), again, without)
    named = [{**entry, "name": f"{name}-{n}"} for n, entry in enumerate(entries, first)]
    wanted = [wanted_of(entry, entry["name"], Wanted()) for entry in named]
    queue = work.fleet.opened()
    submission = work.prepared(wanted, queue)
    submission.definitions = _arms(submission.definitions, name, at_once, parameters)
    work.send(submission, queue)
    return submission


def _arms(
    definitions: Sequence[Definition],
    sweep: str,
    at_once: int | None,
    parameters: Sequence[Mapping[str, str]],
) -> list[Definition]:
    """Return the definitions as arms of one sweep; raises SubmitError."""
    now = time.time()
    found = [
        replace(one, sweep=sweep, at_once=at_once, parameters=values, submitted_at=now)
        for one, values in zip(definitions, parameters, strict=True)
    ]
    try:
        for one in found:
            objects.definition_text(one)
    except Refused as error:
        raise SubmitError("\n".join(f"{why}." for why in error.why)) from error
    return found


def unused_name(wish: str) -> str:
    """Return a name like a wish, with which no run of the fleet in this folder begins."""
    fleet = queue_of(read_inventory())
    known = {one.name: one for one in fleet.opened().all().states}
    return free_name([f"{wish}.py"], Request(fleet, "", known))


def submitted() -> list[dict[str, Any]]:
    """Return the submitted runs of the fleet in this folder, as `runs --queue --json` shows them.

    Raises QueueError and PlayError for a fleet without a queue, NoAnswer if the bucket does not
    answer.
    """
    fleet = queue_of(read_inventory())
    found: list[dict[str, Any]] = look(fleet, fleet.opened(), time.time()).to_dict()["runs"]
    return found
