"""The page of a verdict: one HTML file without scripts, which can be sent to other people.

Texts of workers are escaped, what looks like a secret was left out when they were parsed, and a
policy forbids a browser to fetch or run anything.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible
from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Evidence,
    Process,
    Thread,
)
from jinja2 import Template
from markupsafe import Markup, escape

from ..show import html
from .case import Verdict, Worker
from .causes import FINE, WAIT
from .frames import IDLE, is_library, stand_of
from .rows import Row, rows_of
from .stand import MOST_THREADS as STAND_THREADS
from .words import doing, size

MOST_FRAMES = 8000
"""Calls on a page; of the rest it says in which file they are."""
MOST_THREADS = 40
"""Threads of a worker on a page."""
MOST_LINES = 20
"""Lines of a list of a worker."""
_HERE = Path(__file__).parent
_STYLE = _HERE / "why.css"


@dataclass(frozen=True)
class Call:
    """A call of a stack."""

    text: str
    own: bool
    """Whether it is the user's."""


@dataclass(frozen=True)
class Stack:
    """A thread with its calls."""

    title: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Part:
    """A worker on the page."""

    host: str
    title: str
    is_open: bool
    facts: tuple[tuple[str, str], ...]
    stacks: tuple[Stack, ...]
    left_out: int
    """Threads that the page does not show."""
    error: tuple[str, ...]
    log: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """A slice on the page."""

    verdict: Verdict
    rows: tuple[Row, ...]
    parts: tuple[Part, ...]

    @property
    def tone(self) -> str:
        """The colour of the answer."""
        grade = self.verdict.answer.cause.grade
        return "good" if grade == FINE else "wait" if grade == WAIT else "bad"


def html_of(verdicts: Sequence[Verdict], at: float) -> str:
    """Return the page of what was seen at a time, as one file."""
    left = MOST_FRAMES
    sections = []
    for verdict in verdicts:
        parts = []
        for one in _in_order(verdict):
            part = part_of(verdict, one, left)
            left -= sum(len(stack.calls) for stack in part.stacks)
            parts.append(part)
        sections.append(Section(verdict, tuple(rows_of(verdict)), tuple(parts)))
    stamp = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(at))
    run, style = verdicts[0].case.run, html.ours(_STYLE)
    return _template().render(sections=sections, at=stamp, run=run, style=style, policy=policy())


def _in_order(verdict: Verdict) -> list[Worker]:
    """Return the workers with evidence, those of the answer first."""
    blamed = verdict.answer.workers
    return sorted(verdict.case.seen, key=lambda one: (one.number not in blamed, one.number))


def part_of(verdict: Verdict, one: Worker, room: int) -> Part:
    """Return a worker, with at most so many calls."""
    told = one.evidence
    assert told is not None  # noqa: S101
    blamed = one.number in verdict.answer.workers
    threads = _threads(told, one)
    stacks = []
    for process, thread in threads[: MOST_THREADS if blamed else 1]:
        calls = calls_of(thread)
        room -= len(calls)
        if room < 0:
            break
        stacks.append(Stack(_title(process, thread), calls))
    return Part(
        one.host,
        doing(one.stand) if one.has_program else "has no program",
        blamed,
        tuple(facts_of(told)),
        tuple(stacks),
        sum(len(process.threads) for process in told.processes) - len(stacks),
        told.error or (),
        told.run.log_tail[-MOST_LINES:],
        (*told.run.problems, *told.notes)[:MOST_LINES],
    )


def _threads(told: Evidence, one: Worker) -> list[tuple[Process, Thread]]:
    """Return all threads, the main one of the program first, and those that only idle last."""
    main = one.standing.process
    both = [
        (process, thread)
        for process in told.processes
        for thread in process.threads[:STAND_THREADS]
    ]

    def order(pair: tuple[Process, Thread]) -> tuple[bool, bool, bool, bool]:
        process, thread = pair
        own = main is not None and process.pid == main.pid
        idle = stand_of(thread).kind == IDLE
        return (not own, thread.tid != process.pid, not thread.python, idle)

    return sorted(both, key=order)


def _title(process: Process, thread: Thread) -> str:
    words = (f"process {process.pid}", f"thread {thread.tid}", thread.name, thread.state)
    kernel = (thread.syscall, thread.wchan, thread.on)
    return ", ".join(word for word in (*words, *kernel) if word)


def calls_of(thread: Thread) -> tuple[Call, ...]:
    """Return the calls of a thread, the innermost first."""
    return tuple(
        Call(f"{one.function}  {one.file}:{one.line}", not is_library(one))
        for one in thread.python or ()
    )


def coded(text: str) -> Markup:
    """Return a text in which what stands in backticks is code; all of it is escaped."""
    parts = [str(escape(visible(part))) for part in text.split("`")]
    if len(parts) % 2 == 0:
        return Markup("`".join(parts))  # noqa: S704 - escaped
    marked = (f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
    return Markup("".join(marked))  # noqa: S704 - escaped


def facts_of(told: Evidence) -> list[tuple[str, str]]:
    """Return what else is known of a worker, for people."""
    found = [*_of_run(told), *_of_processes(told), *_of_chips(told), *_of_ports(told)]
    found += [("versions", ", ".join(f"{key} {value}" for key, value in told.versions.items()))]
    for disk in told.disk:
        left = f"{size(disk.free_bytes or 0)} of {size(disk.size_bytes or 0)} are free"
        found.append((f"disk {disk.path}", left if disk.answers else "does not answer"))
    if told.memory and told.memory.size_bytes:
        left = f"{size(told.memory.free_bytes or 0)} of {size(told.memory.size_bytes)} are free"
        found.append(("memory", left + (f"; ended: {told.memory.oom_killed}" * told.memory.oom)))
    return [(name, text) for name, text in found if text]


def _of_run(told: Evidence) -> list[tuple[str, str]]:
    run = told.run
    ages = {
        "step": run.step_age_s,
        "attempt": run.started_age_s,
        "last line of the log": run.log_age_s,
    }
    said = [f"{name} {long(age)} ago" for name, age in ages.items() if age is not None]
    ended = "" if run.exit is None else f"exit code {run.exit}"
    ended = f"signal {run.signal}" if run.signal is not None else ended
    step = "" if run.step is None else f", step {run.step}"
    return [
        ("run", f"attempt {run.attempt}, {run.state}{step}"),
        ("ages", ", ".join(said)),
        ("ended", ended),
        ("reason", run.reason),
    ]


def _of_processes(told: Evidence) -> list[tuple[str, str]]:
    found = []
    for one in told.processes[:MOST_LINES]:
        used = one.cpu_s_recent
        share = f", {used / one.looked_s:.0%} of a core" if used and one.looked_s else ""
        age = f", for {long(one.age_s)}" if one.age_s is not None else ""
        found.append((f"process {one.pid}", f"{one.command} ({one.state}{age}{share})"))
    return found


def _of_chips(told: Evidence) -> list[tuple[str, str]]:
    found = []
    if told.chips:
        held = [
            f"{one.chip} by {one.pid} {one.command} {one.user}".strip()
            for one in told.chips.holders[:MOST_LINES]
        ]
        found += [("chips", f"{told.chips.present} there"), ("held", "; ".join(held))]
    port = told.monitoring
    if port and not port.reached:
        found.append(("monitoring port", f"no answer: {port.why_not}" if port.why_not else ""))
    for core in port.cores[:MOST_LINES] if port else ():
        words = [core.state, core.program, core.hlo, f"launch {core.launch_id}", core.error]
        words += [f"{len(core.queued)} programs wait"] if core.queued else []
        found.append((f"core {core.core}", ", ".join(word for word in words if word)))
    return found


def _of_ports(told: Evidence) -> list[tuple[str, str]]:
    ports = told.ports
    listening = ", ".join(str(one.port) for one in ports.listening if one.ours)
    connecting = ", ".join(
        f"{one.address}:{one.port} {one.state}" for one in ports.connecting[:MOST_LINES]
    )
    tried = ", ".join(
        f"worker {one.worker}:{one.port} {one.result}" for one in ports.peers[:MOST_LINES]
    )
    return [("listens on", listening), ("connects to", connecting), ("ports tried", tried)]


def policy() -> str:
    """Return the Content-Security-Policy: our own style, and nothing else."""
    style = html.allowed(_STYLE)
    return f"default-src 'none'; style-src {style}; base-uri 'none'; form-action 'none'"


@cache
def _template() -> Template:
    environment = html.environment(_HERE, lstrip_blocks=True)
    environment.globals.update(coded=coded, long=long)
    return environment.get_template("why.html.j2")
