# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse workers' answers. No I/O.

A worker may be compromised, and then chooses every byte of its answers. The functions here return
typed and bounded values, or raise AnswerError, which names the worker, the field and the value. No
other code on the controller parses a worker's answer, but `sync_words.py` what it says in a sync.

Some values come from files that a run's user can write. They refuse that one run or entry, never
the whole answer: such a run has the state REFUSED, and its reason has the field and the value.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Annotated, Any

from .._schema.values import DEPLOY_KEY_NAME, ENTRY_NAME
from .answer import (
    LARGEST,
    LAST_TIME,
    MANY,
    AnswerError,
    Read,
    Words,
    is_number,
    made,
    parsed,
    value_of,
)
from .plain_text import LINES, TEXT, hides, shown, shown_lines
from .run_times import KINDS, PARTS, counts_of, seconds_of

LARGEST_LOSS = 1e30

# Valid names of a run. The role training_run has the same rule.
IDENTITY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,255}|")
USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}\$?")
_MAYBE_USER = re.compile(USER.pattern + "|")
WORD = re.compile(r"[a-z][a-z0-9 _-]{0,63}")
_MAYBE_WORD = re.compile(WORD.pattern + "|")
SERVICE = re.compile(r"[a-z0-9][a-z0-9._-]{0,127}")
PUBLIC_KEY = re.compile(r"[a-z0-9@.-]{1,64} [A-Za-z0-9+/]{16,8192}={0,2}( [^\x00-\x1f\x7f]*)?")
ADDRESS = re.compile(r"[0-9A-Fa-f.:]{2,45}|")
URL_PATH = re.compile(r"/[A-Za-z0-9._~/%-]{0,255}")
FILE = re.compile(r"(/[A-Za-z0-9._@+-]{1,255}){1,16}|")
_NO_NUMBER = re.compile(r"nan|-?inf")
HASH = re.compile(r"[0-9A-Za-z-]{0,128}")
LOSS_TROUBLE = re.compile(r"-?[a-z]{1,20}")
"""What can be wrong with a loss: nan, inf, -inf, exploded."""


# Runs

REFUSED = "refused"
"""The state of a run whose status has an invalid value; the reason says which."""


@dataclass(frozen=True)
class Ending:
    """The end of a run according to its event log, which its user can write."""

    reason: str = ""
    tail: tuple[str, ...] = ()


CURVES, POINTS, LABEL = 4, 2000, 100
"""Curves of a run, points of a curve, and characters of its name."""
EVENTS = 20_000
PLACE = 2000
"""Characters of how far a past was read."""
EVENT = re.compile(r"[a-z][a-z-]{0,40}")
_DETAIL = frozenset({
    "exit_code", "signal", "cause", "first_step", "step", "peer", "seconds", "what", "behind",
    "user", "by", "reason", "why", "how", "program", "failed_worker", "when", "boot_id",
    "said", "version",
})  # fmt: skip
_TIMES = {"parts": PARTS, "inside": KINDS}
"""Objects of events with seconds, and their names."""


@dataclass(frozen=True)
class RunEvent:
    """An entry of a run's event log."""

    at: float
    name: str
    attempt: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Past:
    """What is new of a run's past: its user can have written all of it."""

    events: tuple[RunEvent, ...] = ()
    curves: Mapping[str, tuple[tuple[float, int, float], ...]] = field(default_factory=dict)
    """Time, step and value of each point, by name."""
    place: Any = None
    """How far it was read: goes back to the worker as it came."""


@dataclass(frozen=True)
class Archived:
    """How far a run's log is in its archive, as its agent says."""

    life: str
    """The folder of this machine there."""
    log_at: int
    """The place in the archived log up to which it is written."""
    log_file: tuple[str, int, int] | None
    """The same place on the machine, as the log reader has places."""


MOST_CHIPS = 64
LARGEST_RATE = 1e15


@dataclass(frozen=True)
class ChipUse:
    """How much of a worker's chips a run's program uses, by the runtime's monitoring port."""

    count: Annotated[int, partial(Words.number, least=1, most=MOST_CHIPS)]
    duty_cycle: Annotated[float | None, partial(Words.within, most=100.0)] = None
    """The mean of the chips, in percent."""
    memory_used: Annotated[int | None, Words.number] = None
    memory: Annotated[int | None, Words.number] = None
    """Bytes of HBM of all chips together."""


@dataclass(frozen=True)
class RunStatus:
    """A run on a worker, as its agent describes it."""

    run: Annotated[str, partial(Words.word, pattern=ENTRY_NAME)]
    user: Annotated[str, partial(Words.word, pattern=_MAYBE_USER)] = ""
    state: Annotated[str, partial(Words.word, pattern=_MAYBE_WORD)] = ""
    """The agent's word, or REFUSED."""
    attempt: Annotated[int, Words.number] = 0
    run_id: Annotated[str, partial(Words.word, pattern=IDENTITY)] = ""
    boot_id: Annotated[str, partial(Words.word, pattern=HASH)] = ""
    worker: Annotated[int, Words.number] = 0
    workers: Annotated[int, Words.number] = 0
    pid: Annotated[int | None, Words.number] = None
    step: Annotated[int | None, partial(Words.number, least=-LARGEST)] = None
    step_at: Annotated[float | None, Words.real] = None
    first_step: Annotated[int | None, partial(Words.number, least=-LARGEST)] = None
    """Where this attempt went on."""
    first_step_at: Annotated[float | None, Words.real] = None
    loss: Annotated[float | str | None, _loss] = None
    """A number, or what JSON has none for: nan, inf, -inf."""
    loss_trouble: Annotated[Mapping[str, Any] | None, _loss_trouble] = None
    """Since when the loss is no number or has exploded; `run_states.loss_said` reads it."""
    tokens_per_second: Annotated[float | None, partial(Words.within, most=LARGEST_RATE)] = None
    """Of the whole run, as its program wrote it down."""
    mfu: Annotated[float | None, partial(Words.within, most=1.0)] = None
    """The share of the chips' arithmetic that its model uses, from 0 to 1, as it wrote it down."""
    chips: Annotated[ChipUse | None, _chips] = None
    """None where no program reports on chips."""
    checkpoints_on: Annotated[str, partial(Words.text, most=20)] = ""
    """On what the checkpoints are: bucket, NFS share, data disk, own disk; empty if not known."""
    declared: Annotated[bool, Words.flag] = True
    """Whether the worker has its definition: a run that is taken out of the fleet file has none."""
    submitted: Annotated[bool, Words.flag] = False
    """Whether it came out of the queue."""
    saved_at: Annotated[float | None, Words.real] = None
    """When the newest checkpoint was written; 0 if there is none, None if it cannot be seen."""
    start: Annotated[float | None, Words.real] = None
    end: Annotated[float | None, Words.real] = None
    since: Annotated[float | None, Words.real] = None
    exit_code: Annotated[int | None, partial(Words.number, least=-LARGEST)] = None
    signal: Annotated[int | None, Words.number] = None
    reason: Annotated[str, Words.text] = ""
    bad_chips: Annotated[tuple[int, str] | None, _bad_chips] = None
    """How many starts the chips of this worker have failed, and the error; None without any."""
    stand_out: Annotated[tuple[str, ...], Words.texts] = ()
    """The workers that stand out from the others, and by what."""
    stopped_by: Annotated[str, partial(Words.text, most=100)] = ""
    """The person who keeps it stopped, with `tpu-fleet stop`; empty if it may run."""
    problems: Annotated[tuple[str, ...], Words.texts] = ()
    behind: str = ""
    behind_user: str = ""
    log_path: Annotated[str, partial(Words.text, most=4096)] = ""
    ending: Ending = field(default_factory=Ending)
    start_parts: Annotated[Mapping[str, float], _seconds(PARTS)] = field(default_factory=dict)
    """Seconds until the first step of this attempt, by `run_times.PARTS`; empty if not known."""
    start_counts: Annotated[Mapping[str, int], _counts] = field(default_factory=dict)
    """Programs compiled until then, by `run_times.COUNTS`."""
    inside: Annotated[Mapping[str, float], _seconds(KINDS)] = field(default_factory=dict)
    """Seconds of this attempt by `run_times.KINDS`; empty if not known."""
    past: Annotated[Past | None, _past] = None
    archive: Annotated[Archived | None, _archived] = None

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, without its past."""
        lists = {"problems": list(self.problems), "stand_out": list(self.stand_out)}
        told = {**asdict(replace(self, past=None)), **lists}
        del told["past"], told["archive"]
        return told


def run_status(words: Words) -> RunStatus:
    """Read a status; agents of other versions write more or fewer fields.

    An invalid value gives a status in the state REFUSED. Only an invalid name, which no user but
    root can write, refuses the answer.
    """
    name = words.word("run", ENTRY_NAME)
    try:
        queue = words.object("queue", {})
        behind = {"behind": queue.text("behind"), "behind_user": queue.text("user")}
        return made(RunStatus, words, **behind, ending=_ending(words))
    except AnswerError as error:
        known: dict[str, Any] = {"state": REFUSED}
        known["reason"] = error.says.replace("its answer", "its status", 1)
        for key in ("user", "attempt", "boot_id", "worker", "workers", "log_path", "past"):
            with contextlib.suppress(AnswerError):
                known |= value_of(RunStatus, words, key)
        return RunStatus(name, **known)


def _seconds(names: Collection[str]) -> Read:
    return lambda words, key: seconds_of(words.value[key], names)


def _counts(words: Words, key: str) -> Mapping[str, int]:
    return counts_of(words.value[key])


def _bad_chips(words: Words, key: str) -> tuple[int, str] | None:
    told = words.object(key)
    return (told.number("times", 1, 1000), told.text("said")) if told.value else None


def _archived(words: Words, key: str) -> Archived | None:
    """Read how far a run is archived; what its user can have spoilt is as if nothing were."""
    told = words.value[key]
    if not isinstance(told, Mapping):
        return None
    life, at, file = told.get("life"), told.get("log_at"), told.get("log_file")
    if not isinstance(life, str) or not HASH.fullmatch(life):
        return None
    try:
        place = None if file is None else _place(words, file)
    except AnswerError:
        place = None
    if place is None or not isinstance(at, int) or not _is_whole(at) or at < 0:
        return Archived(life, 0, None)
    return Archived(life, at, place)


def _past(words: Words, key: str) -> Past | None:
    """Read a run's past; what its user can have spoilt is left out."""
    told = words.value[key]
    if not isinstance(told, Mapping):
        return None
    events, curves, place = told.get("events"), told.get("curves"), told.get("place")
    found = [run_event(one) for one in events[-EVENTS:]] if isinstance(events, list) else []
    named = list(curves.items())[:CURVES] if isinstance(curves, Mapping) else []
    return Past(
        tuple(event for event in found if event is not None),
        {shown(name, LABEL): _points(points) for name, points in named},
        place if len(json.dumps(place)) <= PLACE else None,
    )


def _is_real(value: Any) -> bool:
    return is_number(value) and -sys.float_info.max <= value <= sys.float_info.max


def _is_time(value: Any) -> bool:
    return _is_real(value) and 0 < value < LAST_TIME


def _is_whole(value: Any) -> bool:
    return is_number(value, int) and abs(value) <= LARGEST


def run_event(told: Any) -> RunEvent | None:
    """Read an entry of a run's event log; None if it is refused."""
    if not isinstance(told, Mapping) or not _is_time(told.get("at")):
        return None
    name, attempt = told.get("event"), told.get("attempt")
    if not isinstance(name, str) or not EVENT.fullmatch(name):
        return None
    detail: dict[str, Any] = {}
    for key in _DETAIL & told.keys():
        value = told[key]
        if isinstance(value, str):
            detail[key] = shown(value, 300)
        elif _is_whole(value) or (isinstance(value, float) and _is_real(value)):
            detail[key] = value
    for key, names in _TIMES.items():
        if isinstance(told.get(key), Mapping):
            detail[key] = seconds_of(told[key], names)
    if isinstance(told.get("counts"), Mapping):
        detail["counts"] = counts_of(told["counts"])
    numbers = told.get("numbers")
    if isinstance(numbers, Mapping):
        detail["numbers"] = {
            shown(key, LABEL): float(value)
            for key, value in list(numbers.items())[:CURVES]
            if _is_real(value)
        }
    number = attempt if isinstance(attempt, int) and _is_whole(attempt) else 0
    return RunEvent(float(told["at"]), name, number, detail)


def _points(told: Any) -> tuple[tuple[float, int, float], ...]:
    points = told[-POINTS:] if _is_list(told) else []
    return tuple(
        (float(one[0]), one[1], float(one[2]))
        for one in points
        if _is_list(one)
        and len(one) == 3
        and _is_time(one[0])
        and _is_whole(one[1])
        and _is_real(one[2])
    )


def _chips(words: Words, key: str) -> ChipUse:
    """Read the use of a worker's chips; whatever has the monitoring port chose the figures."""
    told = words.object(key)
    use = made(ChipUse, told)
    if (use.memory_used or 0) > (use.memory or 0):
        told.refuse("memory_used", use.memory_used, f"at most the memory, {use.memory}")
    return use


def _loss(words: Words, key: str) -> float | str:
    """Read a loss, which the run's user chose."""
    loss = words.value[key]
    if isinstance(loss, str):
        return words.word(key, _NO_NUMBER)
    if not (is_number(loss) and abs(loss) < LARGEST_LOSS):
        words.refuse(key, loss, "a number")
    return float(loss)


def _loss_trouble(words: Words, key: str) -> Mapping[str, Any] | None:
    """Read what is wrong with a loss; what the run's user can have spoilt is left out."""
    told = words.value[key]
    if not isinstance(told, Mapping) or not LOSS_TROUBLE.fullmatch(str(told.get("what"))):
        return None
    if not _is_whole(told.get("step")) or not _is_time(told.get("at")):
        return None
    checks = {"best": _is_real, "saved_step": _is_whole, "saved_at": _is_time}
    more = {key: told[key] for key, good in checks.items() if good(told.get(key))}
    return {"what": str(told["what"]), "step": told["step"], "at": told["at"], **more}


def _ending(words: Words) -> Ending:
    """Read the end of a run; invalid values by the run's user are left out."""
    event = words.value.get("event")
    event = event if isinstance(event, Mapping) else {}
    reason, tail = event.get("reason"), event.get("tail") or words.value.get("tail") or []
    if isinstance(tail, str):
        tail = tail[-LINES * TEXT :].split("\n")
    lines = [line for line in tail[-LINES:] if isinstance(line, str)] if _is_list(tail) else []
    return Ending(
        shown(reason) if isinstance(reason, str) else "",
        tuple(line for text in lines for line in shown_lines(text, LINES))[-LINES:],
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def runs_of(worker: str, answer: str | bytes) -> list[RunStatus]:
    """Read the status files of a worker, as playbook status reads them."""
    return _runs(Words(worker, {"runs": parsed(worker, answer)}))


def _runs(words: Words, key: str = "runs") -> list[RunStatus]:
    runs: dict[str, RunStatus] = {}
    for one in words.objects(key, 1000):
        run = run_status(one)
        if run.run in runs:
            words.refuse("runs", run.run, "there once")
        runs[run.run] = run
    return list(runs.values())


@dataclass(frozen=True)
class Disk:
    """The fullest disk of a worker."""

    point: Annotated[str, Words.text]
    percent: Annotated[int, partial(Words.number, most=100)]


@dataclass(frozen=True)
class Listing:
    """All runs of a worker, with the worker's clock and boot, and its fullest disk."""

    now: Annotated[float, Words.real]
    boot_id: Annotated[str, partial(Words.word, pattern=HASH)]
    runs: tuple[RunStatus, ...]
    disk: Disk | None = None


def listing(worker: str, answer: str | bytes) -> Listing:
    """Read what `on_worker/run_reader.py` lists."""
    words = Words(worker, parsed(worker, answer))
    disk = words.object("disk", {})
    return made(
        Listing, words, runs=tuple(_runs(words)), disk=made(Disk, disk) if disk.value else None
    )


USES = 1000
"""Uses of a worker that are read: its users can start any number of processes."""


@dataclass(frozen=True)
class Standing:
    """The state of a worker and its runs."""

    now: Annotated[float, partial(Words.real, default=0.0)]
    boot_id: Annotated[str, partial(Words.word, pattern=HASH)]
    set_up: Annotated[bool, Words.flag]
    applied: Annotated[str, partial(Words.word, pattern=HASH)]
    used: Annotated[tuple[str, ...], _used]
    runs: tuple[RunStatus, ...]


def standing(worker: str, answer: str | bytes) -> Standing:
    """Read what `_host/standing.py` reports."""
    words = Words(worker, parsed(worker, answer))
    return made(Standing, words, runs=tuple(_runs(words)))


def _used(words: Words, key: str) -> tuple[str, ...]:
    return tuple(shown(one) for one in words.items(key, MANY)[:USES] if isinstance(one, str))


# Logs

_run_names = partial(Words.words, pattern=ENTRY_NAME, most=1000)


@dataclass(frozen=True)
class Piece:
    """A piece from the log reader; missing fields are None."""

    bytes: int = 0
    at: Annotated[tuple[str, int, int] | None, _at] = None
    run: Annotated[RunStatus | None, _announced] = None
    none: Annotated[tuple[str, ...] | None, _run_names] = None
    end: Annotated[str | None, partial(Words.word, pattern=_MAYBE_WORD)] = None
    error: Annotated[str | None, Words.text] = None
    remedy: Annotated[str, Words.text] = ""
    lost: Annotated[str, Words.text] = ""


def piece(worker: str, line: bytes, most: int) -> Piece:
    """Read the header line of a piece of a log, of limited size."""
    words = Words(worker, parsed(worker, line))
    return made(Piece, words, bytes=words.number("bytes", 0, most, 0))


_IDENTITY = re.compile(r"[0-9.-]{0,64}")


def _place(words: Words, at: Any) -> tuple[str, int, int]:
    if not _is_list(at) or len(at) != 3:
        words.refuse("at", at, "a file, an offset and a sum")
    told = Words(words.worker, {"file": at[0], "offset": at[1], "sum": at[2]}, "at")
    return told.word("file", _IDENTITY), told.number("offset"), told.number("sum")


def _at(words: Words, key: str) -> tuple[str, int, int]:
    return _place(words, words.value[key])


def _announced(words: Words, key: str) -> RunStatus:
    """Read the status of a run whose log is requested, which may be missing."""
    told = words.object(key)
    return run_status(told) if told.value.get("run") else RunStatus("")


# Services


@dataclass(frozen=True)
class Service:
    """A notebook, a board or another service of a worker."""

    name: Annotated[str, partial(Words.word, pattern=SERVICE)]
    user: Annotated[str, partial(Words.word, pattern=USER)]
    address: Annotated[str, partial(Words.word, pattern=ADDRESS, default="")]
    port: Annotated[int, partial(Words.number, least=1, most=65535)]
    kind: Annotated[str, partial(Words.word, pattern=_MAYBE_WORD, default="")]
    description: Annotated[str, Words.text]
    url_path: Annotated[str, partial(Words.word, pattern=URL_PATH, default="/")]
    enabled: Annotated[bool, partial(Words.flag, default=True)]
    token_file: Annotated[str, partial(Words.word, pattern=FILE, default="")]


def services_of(worker: str, answer: str | bytes) -> list[Service]:
    """Read a worker's services; those without a port are ignored."""
    return services_in(Words(worker, {"services": parsed(worker, answer)}))


def services_in(words: Words) -> list[Service]:
    """Read a list of services."""
    return [made(Service, one) for one in words.objects("services", 1000) if one.value.get("port")]


# What a run left


@dataclass(frozen=True)
class Left:
    """A result of a run: target folder, source folder, name."""

    to: str
    base: str
    name: str


@dataclass(frozen=True)
class LeftByRun:
    """What a run left on a worker, as `_host/run_left.py` reports it."""

    runs: Annotated[tuple[str, ...], partial(Words.words, pattern=ENTRY_NAME)]
    user: Annotated[str, partial(Words.word, pattern=USER)]
    """The user that may read it."""
    rsync: Annotated[bool, Words.flag]
    left: tuple[Left, ...]
    missing: Annotated[tuple[str, ...], Words.texts]


FOLDERS = ("", "results/")


def left_by_run(worker: str, answer: str | bytes) -> LeftByRun:
    """Read what a run left, to be fetched into one folder."""
    words = Words(worker, parsed(worker, answer, 1 << 26))
    rsync = words.flag("rsync")
    found = []
    for number, entry in enumerate(words.items("left", 1_000_000)):
        name = f"left[{number}]"
        if not _is_list(entry) or len(entry) != 3 or not all(isinstance(e, str) for e in entry):
            raise AnswerError(worker, name, entry, "three texts")
        to, base, path = entry
        if to not in FOLDERS:
            raise AnswerError(worker, name, to, "one of the folders '' and 'results/'")
        if not _is_plain(base) or not base.startswith("/") or ".." in base.split("/"):
            raise AnswerError(worker, name, base, "an absolute path")
        # rsync fetches a folder as a whole.
        if not inside(path) and not (rsync and path == "."):
            raise AnswerError(worker, name, path, "a path inside of a folder")
        found.append(Left(to, base, path))
    return made(LeftByRun, words, left=tuple(found))


def inside(path: str) -> bool:
    """Return whether a path stays below the folder that it begins in."""
    # Surrogates cannot be encoded.
    if not _is_plain(path) or path.startswith("-"):
        return False
    parts = path.split("/")
    return all(part not in ("", ".", "..") and len(part.encode()) < 256 for part in parts)


def _is_plain(path: str) -> bool:
    return not hides(path) and 0 < len(path) < 4096


# Keys for git


def git_users(worker: str, answer: str | bytes) -> dict[str, Any]:
    """Read the public keys that a worker's users have, as git_access.json has them."""
    return _git_users(Words(worker, parsed(worker, answer)))


def _git_users(words: Words) -> dict[str, Any]:
    users = words.object("users").named(USER, 1000)
    return {
        user: {"keys": {key: _public(one) for key, one in _keys(words).items()}}
        for user, words in users.items()
    }


def _keys(words: Words) -> dict[str, Words]:
    return words.object("keys", {}).named(DEPLOY_KEY_NAME, 100)


def _public(words: Words) -> dict[str, str]:
    return {"public": words.word("public", PUBLIC_KEY, "") if words.value.get("public") else ""}


# This computer's address, as a worker sees it


def seen_address(worker: str, answer: str | bytes) -> str:
    """Read the first word of SSH_CONNECTION: an address, never a range."""
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    first = (text if isinstance(text, str) else "").split(" ")[0]
    try:
        return str(ipaddress.ip_address(first))
    except ValueError:
        raise AnswerError(worker, "SSH_CONNECTION", text, "an address") from None


# The doctor's findings on a worker


def doctor_answer(worker: str, answer: Any) -> dict[str, Any]:
    """Read the result of the module host_doctor, or how it failed."""
    words = Words(worker, answer)
    if not words.value.get("findings"):
        ways = {key: True for key in ("failed", "unreachable", "skipped") if words.value.get(key)}
        said = words.value.get("msg")
        return {**ways, "msg": shown(said if isinstance(said, str) else "")} if ways else {}
    clock = words.object("clock", {})
    return {
        "findings": [_finding(one) for one in words.objects("findings", 1000)],
        "fixed": [_step(one) for one in words.objects("fixed", 1000, needed=False)],
        "status": words.word("status", STATUS, "ok"),
        "clock": {
            "started": clock.real("started", 0.0),
            "synchronized": clock.flag("synchronized", False)
            if clock.value.get("synchronized") is not None
            else None,
            "container": clock.text("container"),
        },
        "seconds": words.real("seconds", 0.0),
        "compare": _compare(words.object("compare", {})),
    }


STATUS = re.compile(r"ok|skipped|warn|fail")
_CHECK = re.compile(r"[a-z][a-z0-9_]{0,63}")
_THING = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+@-]{0,127}")


def _finding(words: Words) -> dict[str, str]:
    return {
        "check": words.word("check", _CHECK),
        "status": words.word("status", STATUS),
        **{key: words.text(key) for key in ("says", "remedy", "subject", "case", "fix")},
    }


def _step(words: Words) -> dict[str, str]:
    names = ("check", "subject", "problem", "did", "failed")
    return {key: words.text(key) for key in names}


def _compare(words: Words) -> dict[str, Any]:
    """Read what is compared between the workers of a slice; empty if missing."""
    if not words.value:
        return {}
    venvs, code = words.object("venvs", {}), words.object("code", {})
    runs = words.object("runs", {}).named(ENTRY_NAME, 1000)
    ports = words.object("ports", {}).named(_RUN_OR_NONE, 1000)
    return {
        "venvs": {
            name: {
                "python": one.text("python"),
                "packages": packages_of(one),
            }
            for name, one in venvs.named(_THING, 1000).items()
        },
        "code": code.texts_by_name(_THING),
        "runs": {
            name: {"definition": one.text("definition"), "attempt": one.number("attempt")}
            for name, one in runs.items()
        },
        "ports": {name: _ports(one) for name, one in ports.items()},
    }


_RUN_OR_NONE = re.compile(rf"(?:{ENTRY_NAME.pattern})?")
_RESULT = re.compile(r"open|refused|timeout|no route")


def _ports(words: Words) -> dict[str, Any]:
    """Read what a worker tried of the ports of others, for one run."""
    return {
        "worker": words.number("worker", 0, 65535),
        "hosts": list(words.words("hosts", ADDRESS, 65535)),
        "network": words.text("network", "", 63),
        "tried": words.number("tried", 0, 100_000, default=0),
        "blocked": [_blocked(words, one) for one in words.items("blocked", 100)],
    }


def _blocked(words: Words, value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) != 4:
        words.refuse("blocked", value, "a list of four")
    names = ("worker", "port", "result", "what")
    one = Words(words.worker, {name: value[place] for place, name in enumerate(names)})
    numbers = [one.number("worker", 0, 65535), one.number("port", 1, 65535)]
    return [*numbers, one.word("result", _RESULT), one.text("what", "", 100)]


def packages_of(venv: Words) -> dict[str, str]:
    """Read a venv's packages; the venv's owner can have written entries that are none."""
    told = venv.object("packages", {}).value
    return {
        name: shown(version)
        for name, version in list(told.items())[:MANY]
        if isinstance(name, str) and _THING.fullmatch(name) and isinstance(version, str)
    }


# Drills


def drill_look(worker: str, answer: Any) -> dict[str, Any]:
    """Read the state of a run, as the module drill saw it."""
    words = Words(worker, answer, "look")
    whole = ("pid", "parent", "agent_pid", "first_step", "step", "told_step")
    times = ("start", "agent_since", "first_step_at", "saved_at")
    kinds = ("attempt", "exit_code", "signal", "step")
    return {
        "now": words.real("now"),
        "machine_boot_id": words.word("machine_boot_id", HASH, ""),
        "boot_id": words.word("boot_id", HASH) if words.value.get("boot_id") else None,
        "state": words.word("state", WORD) if words.value.get("state") else "",
        "reason": words.text("reason"),
        "attempt": words.number("attempt"),
        **{key: words.flag(key, False) for key in ("program_alive", "agent_alive", "harm")},
        **{key: words.number(key, -LARGEST, default=None) for key in whole},
        **{key: words.real(key, None) for key in times},
        "history": [
            {
                "cause": one.text("cause"),
                **{key: one.number(key, -LARGEST, default=None) for key in kinds},
            }
            for one in words.objects("history", 1000, needed=False)
        ],
    }


# Workers that apply the roles to themselves

_STORED = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_ROLE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_VARIABLE = re.compile(r"[a-z_][a-z0-9_]{0,63}")
APPLIES = re.compile(r"program|need|peers|result|serves|event|begin|waiting|alive")
SHARED_MOST = 1 << 18
"""Maximum length of what one worker of a slice resolved for the others."""


def applied_word(worker: str, line: bytes) -> dict[str, Any]:
    """Read a line of a worker that applies roles to itself."""
    words = Words(worker, parsed(worker, line))
    what = words.word("say", APPLIES)
    read: dict[str, Callable[[Words], dict[str, Any]]] = {
        "need": lambda one: {
            "files": list(one.words("files", _STORED)),
            "direct": one.flag("direct", False),
        },
        "serves": lambda one: {"port": one.number("port", 0, 65535)},
        "begin": _begin,
        "waiting": lambda one: {"holder": {"who": one.object("holder", {}).text("who")}},
        "event": _applied_event,
        "result": _applied_result,
    }
    return {"say": what, **(read[what](words) if what in read else {})}


def _begin(words: Words) -> dict[str, Any]:
    return {"roles": list(words.words("roles", _ROLE, 100)), "reasons": _reasons(words)}


def _reasons(words: Words) -> list[str]:
    return list(words.texts("reasons", 1000))


def _applied_event(words: Words) -> dict[str, Any]:
    event = words.word("event", WORD)
    if event == "shared":
        name = words.word("name", _VARIABLE)
        return {"event": event, "name": name, "value": _shared(words, "value")}
    if event == "engine":
        return {"event": event, "seconds": words.number("seconds")}
    if event == "doing":
        return {"event": event, "what": words.text("what")}
    if event == "runs":
        return {"event": event, "runs": [_run_change(one) for one in words.objects("runs", 1000)]}
    if event != "task":
        return {"event": event}
    long = {
        key: "\n".join(shown_lines(words.value[key], 200, 2000))
        for key in ("msg", "stderr", "stdout", "diff")
        if words.value.get(key)
    }
    return {
        "event": event,
        "task": words.text("task"),
        "status": words.word("status", WORD),
        **long,
    }


def _run_change(words: Words) -> dict[str, Any]:
    return {
        "run": words.word("run", ENTRY_NAME),
        "does": words.word("does", re.compile(r"started|restarted|stopped|not started")),
        "why": list(words.texts("why", 50)),
        "note": words.text("note"),
    }


def _applied_result(words: Words) -> dict[str, Any]:
    counts = words.object("counts", {})
    shared = words.object("shared", {})
    has_keys = words.value.get("git_access") is not None
    return {
        "status": words.word("status", WORD),
        "counts": counts.numbers_by_name(_ROLE),
        "reasons": _reasons(words),
        "problem": "\n".join(shown_lines(words.raw("problem", ""), 40, 2000)),
        "findings": words.object("findings", {}).texts_by_name(_ROLE),
        "missed": words.flag("missed", False),
        "no_engine": words.flag("no_engine", False),
        "git_users": _git_users(words.object("git_access")) if has_keys else None,
        "roles": list(words.words("roles", _ROLE, 100)),
        "shared": {key: _shared(shared, key) for key in shared.keys_of(_VARIABLE)},
        "idle_runs": None if words.value.get("idle_runs") is None else _idle_runs(words),
    }


def _idle_runs(words: Words) -> list[dict[str, str]]:
    """Read the declared runs that do not run, each with its state and the reason."""
    runs = _runs(words, "idle_runs")
    return [{"run": run.run, "state": run.state, "reason": run.reason} for run in runs]


def _shared(words: Words, key: str) -> dict[str, Any]:
    """Read what one worker resolved for the others of its slice, which do not trust it."""
    value = words.object(key).value
    if len(json.dumps(value)) > SHARED_MOST:
        words.refuse(key, value, f"at most {SHARED_MOST} characters")
    return dict(value)


def plain(answer: Any) -> Any:
    """Return what one of these functions read as plain data, for a playbook."""
    if isinstance(answer, (list, tuple)):
        return [plain(one) for one in answer]
    if hasattr(answer, "__dataclass_fields__"):
        return plain(asdict(answer))
    if isinstance(answer, Mapping):
        return {key: plain(value) for key, value in answer.items()}
    return answer


READERS: dict[str, Callable[[str, Any], Any]] = {
    "address": seen_address,
    "git_users": git_users,
    "left": left_by_run,
    "runs": runs_of,
    "services": services_of,
    "standing": standing,
}
"""The parsers that playbooks may call, by name."""
