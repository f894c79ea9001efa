# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The evidence of one worker about one run, parsed or refused. No I/O.

A worker may be compromised: each value has a type and bounds, and what is outside of them raises
AnswerError, which names worker, field and value. Texts that the run's user chose (names, commands,
frames, lines) are made safe to show; commands and lines lose what looks like a secret. Only
`worker`, `host`, `at` and `run` must be there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any

from .._core.answer import LARGEST, Read, Words, made, one, parsed, several
from .._core.plain_text import shown, shown_text
from .._core.worker_words import ADDRESS, HASH, IDENTITY, WORD
from .._schema.values import ENTRY_NAME
from . import bounds
from .secrets import without_secrets

STATE = re.compile(r"[A-Za-z]")
RESULT = re.compile(r"open|refused|timeout|no route")
TCP_STATE = re.compile(r"[A-Z][A-Z_0-9]{0,15}")
BY = re.compile(r"py-spy|faulthandler|")
KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.:/-]{0,99}")


@dataclass(frozen=True)
class Frame:
    """A call in a Python stack."""

    function: Annotated[str, _TEXT]
    file: Annotated[str, _TEXT]
    line: Annotated[int, _WHOLE]


@dataclass(frozen=True)
class Thread:
    """A thread of a process, as the kernel sees it and as Python does."""

    tid: Annotated[int, _WHOLE]
    name: Annotated[str, partial(Words.text, most=40)] = ""
    state: Annotated[str, _maybe(STATE)] = ""
    """The kernel's letter: R runs, S and I sleep, D waits for a disk, T is stopped, Z has ended."""
    wchan: Annotated[str, partial(Words.text, most=100)] = ""
    """The function in the kernel in which it waits; empty if it runs."""
    syscall: Annotated[str, partial(Words.text, most=40)] = ""
    """The system call in which it is, such as `futex`; empty if it runs."""
    on: Annotated[str, _TEXT] = ""
    """The file, or the address, that the system call is about."""
    python: Annotated[tuple[Frame, ...] | None, _frames] = None
    """Its frames, the innermost first; None if Python did not say."""


@dataclass(frozen=True)
class Process:
    """A process of the run."""

    pid: Annotated[int, _WHOLE]
    parent: Annotated[int, _WHOLE] = 0
    state: Annotated[str, _maybe(STATE)] = ""
    command: Annotated[str, _no_secrets] = ""
    age_s: Annotated[float | None, Words.real] = None
    cpu_s_recent: Annotated[float | None, Words.real] = None
    """Seconds of CPU time that it used while it was looked at, of `looked_s`."""
    looked_s: Annotated[float | None, Words.real] = None
    stacks_by: Annotated[str, partial(Words.word, pattern=BY)] = ""
    """What gave its Python stacks: py-spy or faulthandler; empty if it has none."""
    threads: Annotated[tuple[Thread, ...], several(Thread, bounds.THREADS)] = ()


@dataclass(frozen=True)
class RunSeen:
    """The run, as the worker's agent and files say."""

    name: Annotated[str, partial(Words.word, pattern=ENTRY_NAME)]
    attempt: Annotated[int, Words.number] = 0
    state: Annotated[str, _maybe(WORD)] = ""
    reason: Annotated[str, Words.text] = ""
    run_id: Annotated[str, partial(Words.word, pattern=IDENTITY)] = ""
    user: Annotated[str, partial(Words.text, most=40)] = ""
    workers: Annotated[int, partial(Words.number, most=100_000)] = 0
    hang_seconds: Annotated[float, Words.real] = 0.0
    agent: Annotated[bool | None, Words.flag] = None
    """Whether its agent lives; None if that is not known."""
    program: Annotated[str, _maybe(WORD)] = ""
    """`running` or `ended`; empty before the first attempt."""
    definition: Annotated[str, partial(Words.word, pattern=HASH)] = ""
    """A hash of what is declared: it is the same on all workers of a gang."""
    step: Annotated[int | None, partial(Words.number, least=-LARGEST)] = None
    step_age_s: Annotated[float | None, Words.real] = None
    """Seconds since the program was at its step for the first time."""
    step_s: Annotated[float | None, Words.real] = None
    """Seconds for a step in this attempt, on average."""
    log_age_s: Annotated[float | None, Words.real] = None
    """Seconds since its log was written to."""
    log_tail: Annotated[tuple[str, ...], _lines] = ()
    started_age_s: Annotated[float | None, Words.real] = None
    """Seconds since the attempt's program started."""
    exit: Annotated[int | None, partial(Words.number, least=-LARGEST)] = None
    signal: Annotated[int | None, partial(Words.number, most=255)] = None
    problems: Annotated[tuple[str, ...], _PROBLEMS] = ()
    stand_out: Annotated[tuple[str, ...], _PROBLEMS] = ()
    """How workers stand out from the others over minutes; the leader's agent knows it."""


@dataclass(frozen=True)
class Holder:
    """A process that has a chip open, of this run or not."""

    chip: Annotated[str, partial(Words.text, most=100)]
    pid: Annotated[int, _WHOLE]
    command: Annotated[str, _no_secrets] = ""
    user: Annotated[str, partial(Words.text, most=40)] = ""
    ours: Annotated[bool, Words.flag] = False
    """Whether it is a process of the run."""


@dataclass(frozen=True)
class Chips:
    """The chips of the worker."""

    present: Annotated[int, partial(Words.number, most=1024)] = 0
    holders: Annotated[tuple[Holder, ...], several(Holder, bounds.HOLDERS)] = ()


@dataclass(frozen=True)
class Core:
    """What libtpu's monitoring port says of one core."""

    core: Annotated[int, partial(Words.number, most=1024)]
    state: Annotated[str, partial(Words.text, most=100)] = ""
    run_id: Annotated[str, partial(Words.text, most=100)] = ""
    launch_id: Annotated[int | None, partial(Words.number, least=-LARGEST)] = None
    program: Annotated[str, _TEXT] = ""
    """Its fingerprint."""
    hlo: Annotated[str, _TEXT] = ""
    """Where the program stands."""
    queued: Annotated[tuple[str, ...], partial(Words.texts, most=bounds.QUEUED)] = ()
    """The programs that wait for it, the next first, each with its launch."""
    error: Annotated[str, Words.text] = ""


@dataclass(frozen=True)
class Monitoring:
    """The answer of libtpu's monitoring port."""

    reached: Annotated[bool, Words.flag]
    why_not: Annotated[str, Words.text] = ""
    cores: Annotated[tuple[Core, ...], several(Core, bounds.CORES)] = ()
    metrics: Annotated[Mapping[str, float | tuple[float, ...]], _metrics] = field(
        default_factory=dict
    )
    """Figures by libtpu's names; a list has one for each core or chip."""


@dataclass(frozen=True)
class Listening:
    """A TCP port on which a process of the worker listens."""

    port: Annotated[int, _PORT]
    pid: Annotated[int, _WHOLE]
    """0 if the process was not found."""
    ours: Annotated[bool, Words.flag] = False


@dataclass(frozen=True)
class Connecting:
    """A TCP connection of the run, to another machine or to the worker itself."""

    pid: Annotated[int, _WHOLE]
    address: Annotated[str, partial(Words.word, pattern=ADDRESS)]
    port: Annotated[int, partial(Words.number, most=65535)]
    state: Annotated[str, partial(Words.word, pattern=TCP_STATE)]
    """SYN_SENT while it is not answered, ESTABLISHED, and the others of the kernel."""
    unsent: Annotated[int, partial(Words.number, most=1 << 40)] = 0
    """Bytes that the other side has not acknowledged."""


@dataclass(frozen=True)
class Peer:
    """A port of another worker, tried from this one."""

    worker: Annotated[int, _WORKER]
    port: Annotated[int, _PORT]
    result: Annotated[str, partial(Words.word, pattern=RESULT)]


@dataclass(frozen=True)
class Ports:
    """What listens, what connects, and what can be reached."""

    listening: Annotated[tuple[Listening, ...], _listening] = ()
    connecting: Annotated[tuple[Connecting, ...], several(Connecting, bounds.CONNECTING)] = ()
    peers: Annotated[tuple[Peer, ...], several(Peer, bounds.PEERS)] = ()


@dataclass(frozen=True)
class Disk:
    """The file system of a folder that the run writes to."""

    path: Annotated[str, _path]
    what: Annotated[str, partial(Words.text, most=20)] = ""
    """`checkpoints`, `log`, `tmp` or `work`."""
    free_bytes: Annotated[int | None, _SIZE] = None
    size_bytes: Annotated[int | None, _SIZE] = None
    free_files: Annotated[int | None, _SIZE] = None
    answers: Annotated[bool, Words.flag] = True
    """Whether it answered within some seconds; a share whose server is gone does not."""


@dataclass(frozen=True)
class Memory:
    """The worker's memory."""

    free_bytes: Annotated[int | None, _SIZE] = None
    size_bytes: Annotated[int | None, _SIZE] = None
    oom: Annotated[bool, Words.flag] = False
    """Whether the kernel has ended a process of the run for want of memory, since it started."""
    oom_killed: Annotated[str, _TEXT] = ""


@dataclass(frozen=True)
class Evidence:
    """All that one worker shows of a run."""

    worker: Annotated[int, _WORKER]
    host: Annotated[str, _required_text]
    at: Annotated[float, Words.real]
    """Unix time at which it was gathered, by the worker's clock."""
    run: Annotated[RunSeen, one(RunSeen)]
    took_s: Annotated[float | None, Words.real] = None
    processes: Annotated[tuple[Process, ...], _processes] = ()
    error: Annotated[tuple[str, ...] | None, _lines] = None
    """The last traceback in the log of this attempt."""
    chips: Annotated[Chips | None, one(Chips)] = None
    monitoring: Annotated[Monitoring | None, one(Monitoring)] = None
    ports: Annotated[Ports, one(Ports)] = field(default_factory=Ports)
    disk: Annotated[tuple[Disk, ...], several(Disk, bounds.DISKS)] = ()
    memory: Annotated[Memory | None, one(Memory)] = None
    versions: Annotated[Mapping[str, str], _versions] = field(default_factory=dict)
    """Of python, jax, jaxlib, libtpu, torch, torch_xla, and of `code`: the tree and its commit."""
    notes: Annotated[tuple[str, ...], _notes] = ()
    """What could not be seen, and why."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, which `evidence_of` reads again."""
        return asdict(self)


def evidence(worker: str, answer: str | bytes | None) -> Evidence:
    """Parse the JSON that a worker sends; raise AnswerError."""
    return evidence_of(worker, parsed(worker, answer, bounds.ANSWER))


def evidence_of(worker: str, answer: Any) -> Evidence:
    """Read the evidence of a worker; `worker` names it in errors. Raise AnswerError."""
    return made(Evidence, Words(worker, answer))


# How values are read

_TEXT = partial(Words.text, most=bounds.TEXT)
_PROBLEMS = partial(Words.texts, most=bounds.PROBLEMS)
_WHOLE = partial(Words.number, most=1 << 31)
_PORT = partial(Words.number, least=1, most=65535)
_WORKER = partial(Words.number, most=100_000)
_SIZE = partial(Words.number, most=1 << 62)


def _maybe(pattern: re.Pattern[str]) -> Read:
    return lambda words, key: words.word(key, pattern) if words.value[key] else ""


def _required_text(words: Words, key: str) -> str:
    words.raw(key)
    return words.text(key, most=bounds.TEXT)


def _path(words: Words, key: str) -> str:
    return shown(words.text(key, most=4096), bounds.TEXT)


def _versions(words: Words, key: str) -> dict[str, str]:
    return words.object(key).texts_by_name(KEY)


def _notes(words: Words, key: str) -> tuple[str, ...]:
    return tuple(map(without_secrets, _PROBLEMS(words, key)))


def _lines(words: Words, key: str) -> tuple[str, ...]:
    """Return lines with their indents."""
    found = words.items(key, bounds.LINES)
    for line in found:
        if not isinstance(line, str):
            words.refuse(key, line, "text")
    lines = (without_secrets(line[: 4 * bounds.TEXT].replace("\n", " ")) for line in found)
    return tuple(shown_text(line, 1, bounds.TEXT) for line in lines)


def _no_secrets(words: Words, key: str) -> str:
    """Return a text without what looks like a secret, which is cut only afterwards."""
    value = words.raw(key, "")
    if not isinstance(value, str):
        words.refuse(key, value, "text")
    return shown(without_secrets(value[: 4 * bounds.TEXT]), bounds.TEXT)


def _processes(words: Words, key: str) -> tuple[Process, ...]:
    found = several(Process, bounds.PROCESSES)(words, key)
    threads = sum(len(process.threads) for process in found)
    if threads > bounds.THREADS:
        words.refuse(key, f"{threads} threads", f"at most {bounds.THREADS} threads")
    return found


def _frames(words: Words, key: str) -> tuple[Frame, ...]:
    return tuple(_frame(words, told) for told in words.items(key, bounds.FRAMES))


def _frame(words: Words, told: Any) -> Frame:
    if not isinstance(told, (list, tuple, Mapping)) or len(told) != 3:
        words.refuse("python", told, "lists of function, file and line")
    names = ("function", "file", "line")
    named = told if isinstance(told, Mapping) else dict(zip(names, told, strict=True))
    return made(Frame, Words(words.worker, named, f"{words.name}.python"))


def _metrics(words: Words, key: str) -> dict[str, float | tuple[float, ...]]:
    told = words.object(key)
    return {name: _figures(told, name) for name in told.keys_of(KEY, bounds.METRICS)}


def _figures(words: Words, key: str) -> float | tuple[float, ...]:
    value = words.raw(key)
    if isinstance(value, (list, tuple)):
        return tuple(_figure(words, key, each) for each in words.items(key, bounds.CORES))
    return _figure(words, key, value)


def _figure(words: Words, key: str, value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not -1e18 < value < 1e18:
        words.refuse(key, value, "a number")
    return float(value)


def _listening(words: Words, key: str) -> tuple[Listening, ...]:
    return tuple(_listens(words, told) for told in words.items(key, bounds.LISTENING))


def _listens(words: Words, told: Any) -> Listening:
    is_list = isinstance(told, (list, tuple))
    named = dict(zip(("port", "pid", "ours"), told, strict=False)) if is_list else told
    return made(Listening, Words(words.worker, named, f"{words.name}.listening"))
