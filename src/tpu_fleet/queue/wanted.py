"""What a person asks for, and the definitions that it makes, or all that is wrong with it. Pure."""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    OPTIONS,
    Definition,
    Refused,
    Submitted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import unfit
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.definition import (
    misplaced,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import Key, check_keys

from .demand import chips_of
from .fleet import QueueOfFleet
from .sweep import Arm, SubmitError, arms_of, names_of, read_sweep, unused, with_values

CHECKPOINTS = "checkpoints/"
"""Below the queue's folder: a folder for each run."""
NONE = "none"
_PLACE_OF_NAME = "{name}"


@dataclass(frozen=True)
class Wanted:
    """One run, or the runs of a sweep. What is empty or None has its default."""

    command: Sequence[str] = ()
    name: str = ""
    sweep: Mapping[str, Sequence[str]] = field(default_factory=dict)
    at_once: int | None = None
    """Runs of the sweep that may run at the same time."""
    on: Sequence[str] = ()
    """Accelerator types and slices."""
    after: Sequence[str] = ()
    priority: int = 0
    venv: str | None = None
    user: str = ""
    checkpoint_dir: str = ""
    """`none` is none."""
    retries: int | None = None
    secrets: Sequence[str] = ()
    max_hours: int | None = None
    code: str | None = None
    """A folder of this computer; `none` is none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further keys of a run."""


@dataclass(frozen=True)
class Request:
    """The fleet, the person who asks, and what is known of the queue."""

    fleet: QueueOfFleet
    person: str
    known: Mapping[str, Submitted]
    """All runs of the queue, by name."""
    again: bool = False


def definitions_of(
    wanted: Wanted, code: str | None, request: Request, now: float, others: Iterable[str] = ()
) -> list[Definition]:
    """Return the definitions of the runs; raises SubmitError with everything that is wrong.

    `code` is the hash of the frozen code. `others` are runs that are submitted with these.
    """
    arms = arms_of(wanted.sweep)
    base = wanted.name or free_name(wanted.command, request)
    names = names_of(base, len(arms), bool(wanted.sweep))
    problems = [
        *_about_command(wanted),
        *_about_names(base, names, wanted, request),
        *_about_places(wanted, request.fleet),
        *_about_person(wanted, request),
        *_about_after(wanted, names, request, others),
        *_about_checkpoints(wanted, names, arms),
    ]
    if problems:
        raise SubmitError("\n".join(problems))
    try:
        found = [
            _definition(wanted, code, request, name, arm, now, base if wanted.sweep else "")
            for name, arm in zip(names, arms, strict=True)
        ]
        for one in found:
            objects.definition_text(one)
    except Refused as error:
        raise SubmitError("\n".join(f"{why}." for why in error.why)) from error
    _refuse_unfit(found[0], request.fleet)
    return found


def _definition(
    wanted: Wanted, code: str | None, request: Request, name: str, arm: Arm, now: float, sweep: str
) -> Definition:
    queue = request.fleet.queue
    slices, types = _apart(wanted.on, request.fleet)
    return Definition(
        name=name,
        person=request.person,
        user=user_of(wanted, request),
        command=tuple(with_values(wanted.command, arm)),
        venv=venv_of(wanted, request.fleet),
        submitted_at=now,
        code=code,
        secrets=tuple(wanted.secrets),
        checkpoint_dir=_checkpoints(wanted, request, name, arm),
        retries=queue.retries if wanted.retries is None else wanted.retries,
        priority=wanted.priority,
        types=tuple(types),
        slices=tuple(slices),
        after=tuple(wanted.after),
        max_hours=wanted.max_hours,
        options=dict(wanted.options),
        sweep=sweep,
        at_once=wanted.at_once,
        parameters=arm,
    )


def user_of(wanted: Wanted, request: Request) -> str:
    """Return the user as whom a run's program runs."""
    return wanted.user or request.fleet.queue.user or request.person


def venv_of(wanted: Wanted, fleet: QueueOfFleet) -> str:
    """Return the environment of a run; empty for none."""
    given = fleet.queue.venv or "" if wanted.venv is None else wanted.venv
    return "" if given == NONE else given


def _checkpoints(wanted: Wanted, request: Request, name: str, arm: Arm) -> str | None:
    given = wanted.checkpoint_dir
    if given == NONE:
        return None
    if given:
        return with_values([given], {**arm, "name": name})[0]
    queue = request.fleet.queue
    before = request.known.get(name)
    # Another definition under an old name begins in a folder of its own.
    folder = f"{name}.{before.round + 1}" if before else name
    return f"gs://{queue.bucket}/{queue.folder}{CHECKPOINTS}{folder}"


def free_name(command: Sequence[str], request: Request) -> str:
    """Return a name that no run has, from the program of a command."""
    words = [word for word in command if word.endswith(".py")] or list(command[:1])
    stem = PurePosixPath(words[0]).stem.lower() if words else ""
    base = re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:24].lstrip("0123456789-") or "run"
    taken = {*request.known, *request.fleet.runs}
    for number in range(1, len(taken) + 2):
        name = base if number == 1 else f"{base}{number}"
        if not any(one == name or one.startswith(f"{name}-") for one in taken):
            return name
    return base


# What is wrong


def _about_command(wanted: Wanted) -> Iterator[str]:
    if not wanted.command or not wanted.command[0]:
        yield "command: it is missing. Write it after --, as -- python train.py"
    for key in unused(wanted.command, wanted.sweep) if wanted.command else ():
        yield f"--sweep {key}: the command has no {{{key}}}. Write it where the value belongs"
    if wanted.at_once is not None and not wanted.sweep:
        yield f"--at-once {wanted.at_once}: it is for a sweep. Add --sweep, or leave it out"


def _about_names(
    base: str, names: Sequence[str], wanted: Wanted, request: Request
) -> Iterator[str]:
    longest = max(names, key=len)
    if not objects.NAME.fullmatch(longest):
        yield (
            f"--name {base}: {longest} is not the name of a run. Use a-z, 0-9 and -, a letter "
            "first, 40 at most"
        )
    for name in names:
        if name in request.fleet.runs:
            yield f"--name {base}: {name} is a run of fleet_runs. Give another name"
    there = [request.known[name] for name in names if name in request.known]
    is_open = [one for one in there if one.is_open]
    if is_open and request.again:
        yield (
            f"--again: {_listed(is_open)}. Stop it first: tpu-fleet stop "
            f"{' '.join(one.name for one in is_open)}"
        )
    elif there and not request.again:
        more = "" if is_open else ", or take its place with --again"
        yield f"--name {base}: {_listed(there)}. Give another name{more}"


def _listed(runs: Sequence[Submitted]) -> str:
    told = [
        f"{one.name} exists and {'runs' if one.owner else 'is ' + one.state}" for one in runs[:3]
    ]
    more = f" and {len(runs) - 3} more" if runs[3:] else ""
    return f"{', '.join(told)}{more}"


def _apart(on: Sequence[str], fleet: QueueOfFleet) -> tuple[list[str], list[str]]:
    """Return the slices and the accelerator types among names."""
    slices = [name for name in on if name in fleet.slices]
    return slices, [name for name in on if name not in fleet.slices]


def _about_places(wanted: Wanted, fleet: QueueOfFleet) -> Iterator[str]:
    if not fleet.slices:
        yield "fleet_queue.slices: no slice serves the queue. Declare one in fleet_slices"
    types = {kind for one in fleet.slices.values() for kind in one.types}
    for name in wanted.on:
        if name in fleet.slices or name in types:
            continue
        known = [*fleet.slices, *sorted(types)]
        meant = _meant(name, known, f"There are {', '.join(known)}")
        kind = (
            "no slice that serves the queue has this type"
            if chips_of(name)
            else ("it is neither a slice that serves the queue nor the type of one")
        )
        yield f"--on {name}: {kind}. {meant}"
    venv = venv_of(wanted, fleet)
    venvs = [str(one["name"]) for one in fleet.venvs]
    if venv and venv not in venvs:
        yield f"--venv {venv}: {_unknown(venv, venvs, 'fleet_venvs')}"


def _unknown(name: str, known: Iterable[str], variable: str) -> str:
    return f"it is not in {variable}. {_meant(name, known, f'Declare it in {variable}')}"


def _meant(name: str, known: Iterable[str], otherwise: str) -> str:
    """Return the question whether a name like this is meant; without one, what else to do."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"Did you mean {near[0]}?" if near else otherwise


def _about_person(wanted: Wanted, request: Request) -> Iterator[str]:
    queue, person, user = request.fleet.queue, request.person, user_of(wanted, request)
    allowed = queue.users_of(person)
    if user not in allowed:
        yield (
            f"--as {user}: {person} may submit as {' or '.join(allowed)}. fleet_queue.submit_as "
            f"allows more: {{{person}: [{user}]}}"
        )
    elif user not in [str(one.get("name")) for one in request.fleet.users]:
        yield f"--as {user}: {_unknown(user, [], 'fleet_users')}"
    for name in wanted.secrets:
        owner = request.fleet.secrets.get(name)
        if owner is None:
            yield f"--secrets {name}: {_unknown(name, request.fleet.secrets, 'fleet_secrets')}"
        elif name not in queue.secrets.get(person, ()):
            yield (
                f"--secrets {name}: runs of {person} may not have it. fleet_queue.secrets allows "
                f"it: {{{person}: [{name}]}}"
            )
        elif owner not in (user, "root"):
            yield f"--secrets {name}: it is for {owner}, and the run is as {user}. Give --as"


def _about_after(
    wanted: Wanted, names: Sequence[str], request: Request, others: Iterable[str]
) -> Iterator[str]:
    known = {*request.known, *others} - set(names)
    for name in wanted.after:
        if name in names:
            yield f"--after {name}: a run cannot wait for itself. Name another"
        elif name in request.fleet.runs:
            yield f"--after {name}: it is a run of fleet_runs. Name a submitted one"
        elif name not in known:
            meant = _meant(name, known, "See tpu-fleet runs --queue")
            yield f"--after {name}: it is not in the queue. {meant}"


def _about_checkpoints(wanted: Wanted, names: Sequence[str], arms: Sequence[Arm]) -> Iterator[str]:
    given = wanted.checkpoint_dir
    if not given or given == NONE:
        return
    places = {
        with_values([given], {**arm, "name": name})[0]: name
        for name, arm in zip(names, arms, strict=True)
    }
    wrong = (misplaced(place, name) for place, name in places.items())
    why = next((one for one in wrong if one), "")
    if why:
        yield f"--checkpoint-dir {given}: {why}"
    if len(places) < len(names):
        yield (
            f"--checkpoint-dir {given}: several runs would write to one folder. Put "
            f"{_PLACE_OF_NAME} in it"
        )


def _refuse_unfit(definition: Definition, fleet: QueueOfFleet) -> None:
    """Refuse what no slice could ever run, by all types that each may have."""
    run = objects.of_definition(definition, 0, "0" * 32, definition.submitted_at)
    reasons = []
    for one in fleet.serving():
        kinds = fleet.slices[one.name].types or (one.type,)
        why = [unfit(run, replace(one, type=kind)) for kind in kinds]
        if "" in why:
            return
        reasons += why[:1]
    raise SubmitError(
        f"--on, --venv: no slice that serves the queue can run it: {'; '.join(reasons)}. Change "
        "--on or --venv, or declare the environment for one of them"
    )


# From a file


_TEXTS = Key("list", elements="str")
FILE_KEYS: Mapping[str, Key] = {
    **{name: Key() for name in ("name", "venv", "user", "checkpoint_dir", "code")},
    **{name: Key("int") for name in ("priority", "retries", "max_hours", "at_once")},
    **dict.fromkeys(("on", "after", "secrets"), _TEXTS),
    "command": Key("any"),
    "sweep": Key("dict"),
    **dict.fromkeys(OPTIONS, Key("any")),
}
"""The keys of an entry of a file: those of the command line, and more keys of a run."""


def wanted_of(entry: Any, where: str, defaults: Wanted) -> Wanted:
    """Return what an entry of a file asks for; keys that it lacks are as on the command line.

    Raises SubmitError.
    """
    if not isinstance(entry, Mapping):
        raise SubmitError(f"{where}: it is no run. Give it the keys command, name and others")
    # YAML reads the key `on` as true.
    entry = {"on" if key is True else key: value for key, value in entry.items()}
    problems = check_keys(f"{where}.", entry, FILE_KEYS, among=entry)
    if problems:
        raise SubmitError("\n".join(map(str, problems)))
    said = {key: value for key, value in entry.items() if key not in OPTIONS}
    for key in ("venv", "checkpoint_dir", "code"):
        if key in said:
            said[key] = NONE if said[key] is None else said[key]
    said = {key: value for key, value in said.items() if value is not None}
    if "command" in said:
        said["command"] = _words(said["command"], where)
    if "sweep" in said:
        said["sweep"] = read_sweep([_swept(key, values) for key, values in said["sweep"].items()])
    options = {key: value for key, value in entry.items() if key in OPTIONS}
    return replace(defaults, **said, options={**defaults.options, **options})


def _words(command: Any, where: str) -> list[str]:
    if isinstance(command, list) and command:
        return [str(word) for word in command]
    try:
        return shlex.split(command)
    except (ValueError, TypeError, AttributeError) as error:
        remedy = "Write it as on a command line, or as a list of words"
        raise SubmitError(f"{where}.command: {error}. {remedy}") from error


def _swept(key: Any, values: Any) -> str:
    several = isinstance(values, Sequence) and not isinstance(values, str)
    given = values if several else [values]
    return f"{key}={','.join(map(str, given))}"
