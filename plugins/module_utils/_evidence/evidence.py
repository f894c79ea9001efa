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
from typing import Any

from .._core import worker_words
from .._core.answer import LARGEST, Words, parsed
from .._core.plain_text import shown, shown_text
from .._core.worker_words import IDENTITY
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

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Thread:
    """A thread of a process, as the kernel sees it and as Python does."""

    tid: int
    name: str = ""
    state: str = ""
    """The kernel's letter: R runs, S and I sleep, D waits for a disk, T is stopped, Z has ended."""
    wchan: str = ""
    """The function in the kernel in which it waits; empty if it runs."""
    syscall: str = ""
    """The system call in which it is, such as `futex`; empty if it runs."""
    on: str = ""
    """The file, or the address, that the system call is about."""
    python: tuple[Frame, ...] | None = None
    """Its frames, the innermost first; None if Python did not say."""


@dataclass(frozen=True)
class Process:
    """A process of the run."""

    pid: int
    parent: int = 0
    state: str = ""
    command: str = ""
    age_s: float | None = None
    cpu_s_recent: float | None = None
    """Seconds of CPU time that it used while it was looked at, of `looked_s`."""
    looked_s: float | None = None
    stacks_by: str = ""
    """What gave its Python stacks: py-spy or faulthandler; empty if it has none."""
    threads: tuple[Thread, ...] = ()


@dataclass(frozen=True)
class RunSeen:
    """The run, as the worker's agent and files say."""

    name: str
    attempt: int = 0
    state: str = ""
    reason: str = ""
    run_id: str = ""
    user: str = ""
    workers: int = 0
    hang_seconds: float = 0.0
    agent: bool | None = None
    """Whether its agent lives; None if that is not known."""
    program: str = ""
    """`running` or `ended`; empty before the first attempt."""
    definition: str = ""
    """A hash of what is declared: it is the same on all workers of a gang."""
    step: int | None = None
    step_age_s: float | None = None
    """Seconds since the program was at its step for the first time."""
    step_s: float | None = None
    """Seconds for a step in this attempt, on average."""
    log_age_s: float | None = None
    """Seconds since its log was written to."""
    log_tail: tuple[str, ...] = ()
    started_age_s: float | None = None
    """Seconds since the attempt's program started."""
    exit: int | None = None
    signal: int | None = None
    problems: tuple[str, ...] = ()
    stand_out: tuple[str, ...] = ()
    """How workers stand out from the others over minutes; the leader's agent knows it."""


@dataclass(frozen=True)
class Holder:
    """A process that has a chip open, of this run or not."""

    chip: str
    pid: int
    command: str = ""
    user: str = ""
    ours: bool = False
    """Whether it is a process of the run."""


@dataclass(frozen=True)
class Chips:
    """The chips of the worker."""

    present: int = 0
    holders: tuple[Holder, ...] = ()


@dataclass(frozen=True)
class Core:
    """What libtpu's monitoring port says of one core."""

    core: int
    state: str = ""
    run_id: str = ""
    launch_id: int | None = None
    program: str = ""
    """Its fingerprint."""
    hlo: str = ""
    """Where the program stands."""
    queued: tuple[str, ...] = ()
    """The programs that wait for it, the next first, each with its launch."""
    error: str = ""


@dataclass(frozen=True)
class Monitoring:
    """The answer of libtpu's monitoring port."""

    reached: bool
    why_not: str = ""
    cores: tuple[Core, ...] = ()
    metrics: Mapping[str, float | tuple[float, ...]] = field(default_factory=dict)
    """Figures by libtpu's names; a list has one for each core or chip."""


@dataclass(frozen=True)
class Listening:
    """A TCP port on which a process of the worker listens."""

    port: int
    pid: int
    """0 if the process was not found."""
    ours: bool = False


@dataclass(frozen=True)
class Connecting:
    """A TCP connection of the run, to another machine or to the worker itself."""

    pid: int
    address: str
    port: int
    state: str
    """SYN_SENT while it is not answered, ESTABLISHED, and the others of the kernel."""
    unsent: int = 0
    """Bytes that the other side has not acknowledged."""


@dataclass(frozen=True)
class Peer:
    """A port of another worker, tried from this one."""

    worker: int
    port: int
    result: str


@dataclass(frozen=True)
class Ports:
    """What listens, what connects, and what can be reached."""

    listening: tuple[Listening, ...] = ()
    connecting: tuple[Connecting, ...] = ()
    peers: tuple[Peer, ...] = ()


@dataclass(frozen=True)
class Disk:
    """The file system of a folder that the run writes to."""

    path: str
    what: str = ""
    """`checkpoints`, `log`, `tmp` or `work`."""
    free_bytes: int | None = None
    size_bytes: int | None = None
    free_files: int | None = None
    answers: bool = True
    """Whether it answered within some seconds; a share whose server is gone does not."""


@dataclass(frozen=True)
class Memory:
    """The worker's memory."""

    free_bytes: int | None = None
    size_bytes: int | None = None
    oom: bool = False
    """Whether the kernel has ended a process of the run for want of memory, since it started."""
    oom_killed: str = ""


@dataclass(frozen=True)
class Evidence:
    """All that one worker shows of a run."""

    worker: int
    host: str
    at: float
    """Unix time at which it was gathered, by the worker's clock."""
    run: RunSeen
    took_s: float | None = None
    processes: tuple[Process, ...] = ()
    error: tuple[str, ...] | None = None
    """The last traceback in the log of this attempt."""
    chips: Chips | None = None
    monitoring: Monitoring | None = None
    ports: Ports = field(default_factory=Ports)
    disk: tuple[Disk, ...] = ()
    memory: Memory | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    """Of python, jax, jaxlib, libtpu, torch, torch_xla, and of `code`: the tree and its commit."""
    notes: tuple[str, ...] = ()
    """What could not be seen, and why."""

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, which `evidence_of` reads again."""
        return asdict(self)


def evidence(worker: str, answer: str | bytes | None) -> Evidence:
    """Parse the JSON that a worker sends; raise AnswerError."""
    return evidence_of(worker, parsed(worker, answer, bounds.ANSWER))


def evidence_of(worker: str, answer: Any) -> Evidence:
    """Read the evidence of a worker; `worker` names it in errors. Raise AnswerError."""
    words = Words(worker, answer)
    return Evidence(
        worker=words.number("worker", 0, 100_000),
        host=_required_text(words, "host"),
        at=words.real("at"),
        run=_run(words.object("run")),
        took_s=words.real("took_s", None),
        processes=_processes(words),
        error=None if words.value.get("error") is None else _lines(words, "error"),
        chips=_optional(words, "chips", _chips),
        monitoring=_optional(words, "monitoring", _monitoring),
        ports=_ports(words.object("ports", {})),
        disk=tuple(_disk(one) for one in words.objects("disk", bounds.DISKS, needed=False)),
        memory=_optional(words, "memory", _memory),
        versions=words.object("versions", {}).texts_by_name(KEY),
        notes=tuple(map(without_secrets, words.texts("notes", bounds.PROBLEMS))),
    )


def _required_text(words: Words, key: str) -> str:
    words.raw(key)
    return words.text(key, most=bounds.TEXT)


def _optional(words: Words, key: str, read: Any) -> Any:
    return None if words.value.get(key) is None else read(words.object(key))


def _lines(words: Words, key: str) -> tuple[str, ...]:
    """Return lines with their indents."""
    found = words.items(key, bounds.LINES)
    for one in found:
        if not isinstance(one, str):
            words.refuse(key, one, "text")
    lines = (without_secrets(one[: 4 * bounds.TEXT].replace("\n", " ")) for one in found)
    return tuple(shown_text(line, 1, bounds.TEXT) for line in lines)


def _no_secrets(words: Words, key: str) -> str:
    """Return a text without what looks like a secret, which is cut only afterwards."""
    value = words.raw(key, "")
    if not isinstance(value, str):
        words.refuse(key, value, "text")
    return shown(without_secrets(value[: 4 * bounds.TEXT]), bounds.TEXT)


def _run(words: Words) -> RunSeen:
    return RunSeen(
        name=words.word("name", ENTRY_NAME),
        attempt=words.number("attempt", default=0),
        state=_word(words, "state", worker_words.WORD),
        reason=words.text("reason"),
        run_id=words.word("run_id", IDENTITY, ""),
        user=words.text("user", most=40),
        workers=words.number("workers", 0, 100_000, 0),
        hang_seconds=words.real("hang_seconds", 0.0),
        agent=None if words.value.get("agent") is None else words.flag("agent"),
        program=_word(words, "program", worker_words.WORD),
        definition=words.word("definition", worker_words.HASH, ""),
        step=words.number("step", -LARGEST, default=None),
        step_age_s=words.real("step_age_s", None),
        step_s=words.real("step_s", None),
        log_age_s=words.real("log_age_s", None),
        log_tail=_lines(words, "log_tail"),
        started_age_s=words.real("started_age_s", None),
        exit=words.number("exit", -LARGEST, default=None),
        signal=words.number("signal", 0, 255, None),
        problems=words.texts("problems", bounds.PROBLEMS),
        stand_out=words.texts("stand_out", bounds.PROBLEMS),
    )


def _word(words: Words, key: str, pattern: re.Pattern[str]) -> str:
    return words.word(key, pattern, "") if words.value.get(key) else ""


def _pid(words: Words, key: str = "pid") -> int:
    return int(words.number(key, 0, 1 << 31))


def _processes(words: Words) -> tuple[Process, ...]:
    found = tuple(_process(one) for one in words.objects("processes", bounds.PROCESSES, False))
    threads = sum(len(one.threads) for one in found)
    if threads > bounds.THREADS:
        words.refuse("processes", f"{threads} threads", f"at most {bounds.THREADS} threads")
    return found


def _process(words: Words) -> Process:
    return Process(
        pid=_pid(words),
        parent=words.number("parent", 0, 1 << 31, 0),
        state=_word(words, "state", STATE),
        command=_no_secrets(words, "command"),
        age_s=words.real("age_s", None),
        cpu_s_recent=words.real("cpu_s_recent", None),
        looked_s=words.real("looked_s", None),
        stacks_by=words.word("stacks_by", BY, ""),
        threads=tuple(_thread(one) for one in words.objects("threads", bounds.THREADS, False)),
    )


def _thread(words: Words) -> Thread:
    return Thread(
        tid=_pid(words, "tid"),
        name=words.text("name", most=40),
        state=_word(words, "state", STATE),
        wchan=words.text("wchan", most=100),
        syscall=words.text("syscall", most=40),
        on=words.text("on", most=bounds.TEXT),
        python=None if words.value.get("python") is None else _frames(words),
    )


def _frames(words: Words) -> tuple[Frame, ...]:
    return tuple(_frame(words, one) for one in words.items("python", bounds.FRAMES))


def _frame(words: Words, told: Any) -> Frame:
    if not isinstance(told, (list, tuple, Mapping)) or len(told) != 3:
        words.refuse("python", told, "lists of function, file and line")
    names = ("function", "file", "line")
    one = Words(
        words.worker,
        told if isinstance(told, Mapping) else dict(zip(names, told, strict=True)),
        f"{words.name}.python",
    )
    return Frame(
        one.text("function", most=bounds.TEXT),
        one.text("file", most=bounds.TEXT),
        one.number("line", 0, 1 << 31),
    )


def _chips(words: Words) -> Chips:
    return Chips(
        present=words.number("present", 0, 1024, 0),
        holders=tuple(_holder(one) for one in words.objects("holders", bounds.HOLDERS, False)),
    )


def _holder(words: Words) -> Holder:
    return Holder(
        words.text("chip", most=100),
        _pid(words),
        _no_secrets(words, "command"),
        words.text("user", most=40),
        words.flag("ours", False),
    )


def _monitoring(words: Words) -> Monitoring:
    return Monitoring(
        reached=words.flag("reached"),
        why_not=words.text("why_not"),
        cores=tuple(_core(one) for one in words.objects("cores", bounds.CORES, False)),
        metrics=_metrics(words.object("metrics", {})),
    )


def _core(words: Words) -> Core:
    return Core(
        core=words.number("core", 0, 1024),
        state=words.text("state", most=100),
        run_id=words.text("run_id", most=100),
        launch_id=words.number("launch_id", -LARGEST, default=None),
        program=words.text("program", most=bounds.TEXT),
        hlo=words.text("hlo", most=bounds.TEXT),
        queued=words.texts("queued", bounds.QUEUED),
        error=words.text("error"),
    )


def _metrics(words: Words) -> dict[str, float | tuple[float, ...]]:
    return {key: _figures(words, key) for key in words.keys_of(KEY, bounds.METRICS)}


def _figures(words: Words, key: str) -> float | tuple[float, ...]:
    value = words.raw(key)
    if isinstance(value, (list, tuple)):
        return tuple(_figure(words, key, one) for one in words.items(key, bounds.CORES))
    return _figure(words, key, value)


def _figure(words: Words, key: str, value: Any) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not -1e18 < value < 1e18:
        words.refuse(key, value, "a number")
    return float(value)


def _ports(words: Words) -> Ports:
    return Ports(
        tuple(_listening(words, one) for one in words.items("listening", bounds.LISTENING)),
        tuple(_connecting(one) for one in words.objects("connecting", bounds.CONNECTING, False)),
        tuple(_peer(one) for one in words.objects("peers", bounds.PEERS, False)),
    )


def _listening(words: Words, told: Any) -> Listening:
    is_list = isinstance(told, (list, tuple))
    named = dict(zip(("port", "pid", "ours"), told, strict=False)) if is_list else told
    one = Words(words.worker, named, f"{words.name}.listening")
    return Listening(one.number("port", 1, 65535), _pid(one), one.flag("ours", False))


def _connecting(words: Words) -> Connecting:
    return Connecting(
        _pid(words),
        words.word("address", worker_words.ADDRESS),
        words.number("port", 0, 65535),
        words.word("state", TCP_STATE),
        words.number("unsent", 0, 1 << 40, 0),
    )


def _peer(words: Words) -> Peer:
    return Peer(
        words.number("worker", 0, 100_000),
        words.number("port", 1, 65535),
        words.word("result", RESULT),
    )


def _disk(words: Words) -> Disk:
    return Disk(
        shown(words.text("path", most=4096), bounds.TEXT),
        words.text("what", most=20),
        words.number("free_bytes", 0, 1 << 62, None),
        words.number("size_bytes", 0, 1 << 62, None),
        words.number("free_files", 0, 1 << 62, None),
        words.flag("answers", True),
    )


def _memory(words: Words) -> Memory:
    return Memory(
        words.number("free_bytes", 0, 1 << 62, None),
        words.number("size_bytes", 0, 1 << 62, None),
        words.flag("oom", False),
        words.text("oom_killed", most=bounds.TEXT),
    )
