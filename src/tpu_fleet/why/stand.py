"""Where a worker stands: which of its processes is the program, and what its threads do. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ansible_collections.tpu.fleet.plugins.module_utils._evidence.evidence import (
    Evidence,
    Process,
    Thread,
)

from .frames import CHILD, DATA, IDLE, LOCK, SLEEP, UNKNOWN, Stand, stand_of

MOST_THREADS = 200
"""Threads of a process that are looked at: its worker sends those with a Python stack first."""


@dataclass(frozen=True)
class Beside:
    """Another thread of the run on a worker, with where it stands."""

    process: Process
    stand: Stand


@dataclass(frozen=True)
class Standing:
    """Where the program of a worker stands."""

    process: Process | None = None
    stand: Stand = field(default_factory=lambda: Stand(UNKNOWN))
    """Of its main thread."""
    beside: tuple[Beside, ...] = ()
    """The other threads that have a line of the user, and do not only wait for work."""

    @property
    def locked(self) -> tuple[Stand, ...]:
        """Where threads of the program wait for locks, if at least two of them do."""
        if self.process is None or self.stand.kind != LOCK:
            return ()
        those = [one.stand for one in self.beside if one.process.pid == self.process.pid]
        found = [one for one in (self.stand, *those) if is_at_lock(one)]
        return tuple(found) if len(found) > 1 else ()

    @property
    def behind(self) -> Beside | None:
        """What feeds a program that waits for data, if one line does that."""
        if self.stand.kind != DATA:
            return None
        those = [one for one in self.beside if one.stand.kind != DATA]
        return those[0] if len({one.stand.at for one in those}) == 1 else None


def is_at_lock(stand: Stand) -> bool:
    """Return whether a thread wants a lock; one that waits for an event or a thread does not."""
    return stand.kind == LOCK and not stand.call.endswith((".wait", ".join"))


def standing_of(one: Evidence) -> Standing:
    """Say where the program of a worker stands."""
    process = program_of(one)
    if process is None:
        return Standing()
    main = main_thread(process)
    stand = stand_of(main) if main else Stand(UNKNOWN)
    return Standing(process, stand, tuple(_beside(one, process, main)))


def program_of(one: Evidence) -> Process | None:
    """Return the process that trains: that which has a chip open, or the first with Python stacks.

    A launcher, which only waits for its child, is not it.
    """
    with_stacks = [process for process in one.processes if _has_stack(process)]
    holders = {each.pid for each in one.chips.holders if each.ours} if one.chips else set()
    holding = [process for process in with_stacks if process.pid in holders]
    found = _oldest(holding or with_stacks) or _oldest(_no_shells(one.processes))
    return _below(found, with_stacks) if found else None


def _has_stack(process: Process) -> bool:
    return any(thread.python for thread in process.threads)


def _oldest(processes: Sequence[Process]) -> Process | None:
    """Return the process that began first; of those that began together the first of the list."""
    return max(processes, key=lambda process: process.age_s or 0.0, default=None)


def _no_shells(processes: Sequence[Process]) -> Sequence[Process]:
    """Leave out shells and tmux, unless there is nothing else."""
    words = ("sh", "bash", "dash", "tmux", "timeout", "env")
    those = [one for one in processes if _program(one) not in words]
    return those or processes


def _program(process: Process) -> str:
    return (process.command.split() or [""])[0].rpartition("/")[2].lstrip("-").rstrip(":")


def _below(found: Process, with_stacks: Sequence[Process]) -> Process:
    """Go from a launcher to the process that it waits for."""
    seen: set[int] = set()
    while found.pid not in seen:
        seen.add(found.pid)
        main = main_thread(found)
        children = [one for one in with_stacks if one.parent == found.pid]
        if main is None or not children or stand_of(main).kind != CHILD:
            break
        found = _oldest(children) or found
    return found


def main_thread(process: Process) -> Thread | None:
    """Return the thread that began the process; without one the first with a stack."""
    by_id = [one for one in process.threads if one.tid == process.pid]
    return next(
        (one for one in [*by_id, *process.threads] if one.python), by_id[0] if by_id else None
    )


def _beside(one: Evidence, program: Process, main: Thread | None) -> Iterator[Beside]:
    """Yield what else stands in a line of the user: threads of the program, and its children."""
    for process in sorted(one.processes, key=lambda each: each.pid != program.pid):
        if process.pid != program.pid and process.parent != program.pid:
            continue
        for thread in process.threads[:MOST_THREADS]:
            if thread is main or not thread.python:
                continue
            stand = stand_of(thread)
            own = process.pid == program.pid
            if stand.place and stand.kind not in ((IDLE, SLEEP, UNKNOWN) if own else (IDLE,)):
                yield Beside(process, stand)
