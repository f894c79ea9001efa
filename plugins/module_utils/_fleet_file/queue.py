# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The queue of submitted runs: where it is, which slices serve it, who may do what. No I/O."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .._core.checkpoints import bucket_and_folder
from .._google.bucket_plan import PRINCIPAL, PRINCIPAL_REMEDY
from .._schema.durations import seconds_in
from .._schema.keys import Key, Problem, check_keys, text_of, texts_of
from .._schema.refs import at_least, known, known_slices
from .._schema.values import BUCKET_NAME, SYSTEM_USERS

DEFAULT_RETRIES = 3
LEAST_TAKE_AFTER = "15m"
LIMITS = {
    "chips": Key("int", description="Chips in use at a time.", default="no limit"),
    "runs": Key("int", description="Runs at a time.", default="no limit"),
    "chip_hours": Key("int", description="Chip hours in the last 7 days.", default="no limit"),
}
LEAST_EVERY = "1m"
ON_RESULT = {
    "command": Key(required=True, description="Program that names arms to stop."),
    "every": Key("duration", description="How often, and when an arm ends.", default="5m"),
}
ACCESS = ("writers", "readers")
"""The keys that say who gets access to the bucket."""
KEYS = {
    "bucket": Key(required=True, description="Bucket and folder, as `gs://my-bucket/queue`."),
    "slices": Key("list", elements="str"),
    "cross_region": Key(choices=("refuse", "allow"), default="refuse"),
    "venv": Key(description="Environment of runs that name none."),
    "user": Key(description="User of runs that name none.", default="the person"),
    "retries": Key("int", description="How often a program may fail and start again.", default="3"),
    "declared_first": Key(
        "bool", description="Whether runs of `fleet_runs` precede submitted ones.", default="true"
    ),
    "take_after": Key(
        "duration",
        description="Silence after which a slice loses its run without other evidence.",
        default="never",
    ),
    "limits": Key("dict", options=LIMITS, description="What each person may use."),
    "writers": Key(
        "list", elements="str", description="Accounts that submit, as `user:alice@example.org`."
    ),
    "readers": Key("list", elements="str", description="Accounts that only look."),
    "reserved": Key("dict", description="Slices that take only runs of these people."),
    "on_result": Key("dict", options=ON_RESULT, description="Early end of arms of sweeps."),
    "submit_as": Key("dict", description="Other users as whom a person may submit."),
    "secrets": Key("dict", description="Sets of `fleet_secrets` for runs of a person."),
}
QUEUE = {"fleet_queue": Key("dict", options=KEYS)}
_PLACE = re.compile(r"[A-Za-z0-9._/=-]*")


@dataclass(frozen=True)
class FleetQueue:
    """What the fleet file says of the queue; None is no limit, and no default."""

    bucket: str
    folder: str
    """What the names of its objects begin with; empty or with a slash at its end."""
    slices: tuple[str, ...] = ()
    """The slices that serve it; none stands for all."""
    venv: str | None = None
    user: str | None = None
    retries: int = DEFAULT_RETRIES
    declared_first: bool = True
    take_after: float | None = None
    """In seconds."""
    chips: int | None = None
    runs: int | None = None
    chip_hours: int | None = None
    reserved: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The people whose runs alone a slice takes."""
    submit_as: Mapping[str, Sequence[str]] = field(default_factory=dict)
    secrets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    access: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The accounts with access to the bucket, by `writers` and `readers`, as policies name them."""

    @classmethod
    def read(cls, raw: Any) -> FleetQueue | None:
        """Return what the variable says, whose rules hold already; None without a queue."""
        if not isinstance(raw, Mapping) or not raw:
            return None
        place = bucket_and_folder(str(raw["bucket"]))
        if place is None:
            return None
        limits = raw.get("limits") or {}
        retries, after = raw.get("retries"), raw.get("take_after")
        return cls(
            *place,
            slices=tuple(map(str, raw.get("slices") or ())),
            venv=raw.get("venv") or None,
            user=raw.get("user") or None,
            retries=DEFAULT_RETRIES if retries is None else int(retries),
            declared_first=raw.get("declared_first") is not False,
            take_after=seconds_in(str(after)) if after else None,
            chips=limits.get("chips"),
            runs=limits.get("runs"),
            access=_names_by({key: raw.get(key) for key in ACCESS}),
            chip_hours=limits.get("chip_hours"),
            reserved=_names_by(raw.get("reserved")),
            submit_as=_names_by(raw.get("submit_as")),
            secrets=_names_by(raw.get("secrets")),
        )

    def reserved_for(self, name: str) -> frozenset[str] | None:
        """Return the people whose runs alone a slice takes; None: those of all."""
        return frozenset(self.reserved[name]) if name in self.reserved else None

    def is_served_by(self, name: str) -> bool:
        """Return whether a declared slice serves it."""
        return not self.slices or name in self.slices

    @property
    def address(self) -> str:
        """The place of the queue, with `gs://`."""
        return f"gs://{self.bucket}/{self.folder}".rstrip("/")

    def users_of(self, person: str) -> list[str]:
        """Return the users as whom a person may submit."""
        return list(dict.fromkeys([person, *self.submit_as.get(person, ())]))


def _names_by(raw: Any) -> dict[str, tuple[str, ...]]:
    given = raw if isinstance(raw, Mapping) else {}
    return {str(key): tuple(map(str, names or ())) for key, names in given.items()}


def check_queue(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the queue of a fleet file."""
    queue = data.get("fleet_queue")
    # A section with nothing below it is no queue.
    problems = [] if queue == {} else check_keys("", data, QUEUE, among=())
    if problems or not isinstance(queue, Mapping) or not queue:
        return problems
    # Whether its keys are known is checked with the types of the others.
    return [
        *_place(queue),
        *_references(data, queue),
        *_numbers(queue),
        *_people(data, queue),
        *_accounts(queue),
        *_reserved(data, queue),
        *_on_result(queue),
    ]


def _place(queue: Mapping[str, Any]) -> Iterator[Problem]:
    address = text_of(queue, "bucket") or ""
    place = bucket_and_folder(address)
    good = place and BUCKET_NAME.fullmatch(place[0]) and _PLACE.fullmatch(place[1])
    if not good:
        message = "is not a bucket with a folder"
        remedy = "Write it as gs://my-bucket/queue: one bucket for all slices that serve it"
        yield Problem("fleet_queue.bucket", address, message, remedy)


def _references(data: Mapping[str, Any], queue: Mapping[str, Any]) -> Iterator[Problem]:
    yield from known_slices(data, "fleet_queue", queue)
    venv, user = text_of(queue, "venv"), text_of(queue, "user")
    if venv:
        yield from known(data, "fleet_queue.venv", venv, "venv", "fleet_venvs")
    if user:
        yield from _user(data, "fleet_queue.user", user)


def _numbers(queue: Mapping[str, Any]) -> Iterator[Problem]:
    limits = queue.get("limits") or {}
    least: dict[str, int | str] = {"retries": 0, "take_after": LEAST_TAKE_AFTER}
    rule = queue.get("on_result") or {}
    inner = {
        "": at_least(queue, least),
        "limits.": at_least(limits, dict.fromkeys(LIMITS, 1)),
        "on_result.": at_least(rule, {"every": LEAST_EVERY}),
    }
    for where, found in inner.items():
        for one in found:
            yield Problem(f"fleet_queue.{where}{one.field}", one.value, one.message, one.remedy)


def _people(data: Mapping[str, Any], queue: Mapping[str, Any]) -> Iterator[Problem]:
    for key in ("submit_as", "secrets"):
        for person, names in (queue.get(key) or {}).items():
            where = f"fleet_queue.{key}.{person}"
            yield from known(data, where, str(person), "user", "fleet_users")
            if not _is_names(names):
                yield _no_names(where, names)
                continue
            for index, name in enumerate(names):
                field_of = f"{where}[{index}]"
                if key == "submit_as":
                    yield from _user(data, field_of, name)
                else:
                    yield from known(data, field_of, name, "set of secrets", "fleet_secrets")


def _accounts(queue: Mapping[str, Any]) -> Iterator[Problem]:
    for key in ACCESS:
        for index, name in texts_of(queue, key):
            if not PRINCIPAL.fullmatch(name):
                field_of = f"fleet_queue.{key}[{index}]"
                yield Problem(field_of, name, "gets no access to a bucket", PRINCIPAL_REMEDY)


def _is_names(names: Any) -> bool:
    return isinstance(names, list) and all(isinstance(name, str) for name in names)


def _no_names(where: str, names: Any) -> Problem:
    return Problem(where, names, "is not a list of names", "Write it as [NAME, NAME]")


def _reserved(data: Mapping[str, Any], queue: Mapping[str, Any]) -> Iterator[Problem]:
    served = queue.get("slices") or ()
    for slice_, people in (queue.get("reserved") or {}).items():
        where = f"fleet_queue.reserved.{slice_}"
        yield from known(data, where, str(slice_), "slice", "fleet_slices")
        if served and slice_ not in served:
            remedy = f"Add {slice_} to fleet_queue.slices, or remove it here"
            yield Problem(where, slice_, "does not serve the queue", remedy)
        if not _is_names(people) or not people:
            yield _no_names(where, people)
            continue
        for index, person in enumerate(people):
            yield from known(data, f"{where}[{index}]", person, "user", "fleet_users")


def _on_result(queue: Mapping[str, Any]) -> Iterator[Problem]:
    command = text_of(queue.get("on_result") or {}, "command")
    if command is None:
        return
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        remedy = "Write a program with its words, as python rule.py"
        yield Problem("fleet_queue.on_result.command", command, "is no command", remedy)


def _user(data: Mapping[str, Any], where: str, name: str) -> Iterator[Problem]:
    """A submitted command may come from any person who may submit, so it is never root's."""
    if name in SYSTEM_USERS:
        message = "belongs to the system, and a person who submits would act as it"
        yield Problem(where, name, message, "Name a user of fleet_users")
    else:
        yield from known(data, where, name, "user", "fleet_users")
