"""Computers on which real code runs in a time that is made up: tasks, clocks, and machines.

A task is a greenlet: what it calls may sleep at any depth, and others go on meanwhile. Time passes
only while all of them sleep. A machine can stand still, with its clocks or without them; what was
due meanwhile happens when it goes on.
"""

from __future__ import annotations

import heapq
import time as _time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import greenlet

START = 1_700_000_000.0
"""What a right clock shows when a world begins, in seconds since 1970."""


class Ended(BaseException):
    """The task is gone, in the middle of whatever it did."""


class Host:
    """What a task runs on."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_there = True
        self.frozen_since: float | None = None
        self.is_asleep = False
        """Whether the clock that does not count sleep stands still too."""
        self.slept = 0.0
        self.wall_ahead = 0.0
        self.late: list[tuple[float, Task]] = []
        self.tasks: list[Task] = []


class Task:
    """One process, or a thread of one."""

    def __init__(self, host: Host, body: Callable[[], None], parent: Task | None = None) -> None:
        self.host = host
        self.is_over = False
        self.is_held = False
        self.held_at: float | None = None
        self.children: list[Task] = []
        self.ends: list[Callable[[], None]] = []
        if parent is not None:
            parent.children.append(self)
        host.tasks.append(self)
        self._body = body
        self.let = greenlet.greenlet(self._run)

    def _run(self) -> None:
        try:
            self._body()
        except Ended:
            pass
        finally:
            self._finish()

    def _finish(self) -> None:
        self.is_over = True
        self.host.tasks.remove(self)
        for child in self.children:
            child.end()
        for end in self.ends:
            end()

    def end(self) -> None:
        """End it where it stands, with what it has begun."""
        if self.is_over:
            return
        if greenlet.getcurrent() is self.let:
            raise Ended
        if self.let:
            self.let.parent = greenlet.getcurrent()
            self.let.throw(Ended)
        else:
            self._finish()


class Clockwork:
    """The time of a world, and whose turn it is."""

    def __init__(self) -> None:
        self.now = 0.0
        self.host: Host | None = None
        self.task: Task | None = None
        self._due: list[tuple[float, int, Task]] = []
        self._count = 0

    def spawn(
        self, host: Host, body: Callable[[], None], parent: Task | None = None, after: float = 0.0
    ) -> Task:
        """Begin a task."""
        task = Task(host, body, parent)
        self._later(self.now + after, task)
        return task

    def sleep(self, seconds: float) -> None:
        """Let others go on."""
        assert self.task is not None
        self._later(self.now + max(0.0, seconds), self.task)
        self.task.let.parent.switch()

    @contextmanager
    def on(self, host: Host) -> Iterator[None]:
        """Do something, for which no time passes, on another host."""
        before, self.host = self.host, host
        try:
            yield
        finally:
            self.host = before

    def run(self, until: float) -> None:
        """Let time pass."""
        while self._due and self._due[0][0] <= until:
            due, _count, task = heapq.heappop(self._due)
            self.now = max(self.now, due)
            if task.is_over or not task.host.is_there:
                continue
            if task.host.frozen_since is not None:
                task.host.late.append((due, task))
            elif task.is_held:
                task.held_at = due
            else:
                self._turn(task)
        self.now = until

    def freeze(self, host: Host, asleep: bool) -> None:
        """Let a host stand still."""
        if host.frozen_since is None:
            host.frozen_since, host.is_asleep = self.now, asleep

    def thaw(self, host: Host) -> None:
        """Let it go on; who slept by the clock that stood still has as long to sleep as before."""
        if host.frozen_since is None:
            return
        still = self.now - host.frozen_since
        since, host.frozen_since = host.frozen_since, None
        late, host.late = sorted(host.late, key=lambda one: one[0]), []
        if host.is_asleep:
            host.slept += still
            self._due = [
                (due + still if task.host is host else due, count, task)
                for due, count, task in self._due
            ]
            heapq.heapify(self._due)
        for due, task in late:
            left = due - since if host.is_asleep else 0.0
            self._later(self.now + left, task)

    def kill(self, host: Host) -> None:
        """Let everything on a host end, as a loss of its power does."""
        while host.tasks:
            host.tasks[0].end()
        host.late, host.frozen_since = [], None

    def hold(self, task: Task) -> None:
        """Do what SIGSTOP does."""
        task.is_held = True

    def let_go(self, task: Task) -> None:
        """Do what SIGCONT does."""
        task.is_held = False
        if task.held_at is not None:
            task.held_at = None
            self._later(self.now, task)

    def _later(self, due: float, task: Task) -> None:
        self._count += 1
        heapq.heappush(self._due, (due, self._count, task))

    def _turn(self, task: Task) -> None:
        self.task, self.host = task, task.host
        task.let.parent = greenlet.getcurrent()
        try:
            task.let.switch()
        finally:
            self.task = self.host = None


class HostTime:
    """The module `time`, as the host whose turn it is has it."""

    CLOCK_BOOTTIME = _time.CLOCK_BOOTTIME
    strftime = staticmethod(_time.strftime)
    gmtime = staticmethod(_time.gmtime)

    def __init__(self, clockwork: Clockwork) -> None:
        self._clockwork = clockwork

    def sleep(self, seconds: float) -> None:
        """Let others go on."""
        self._clockwork.sleep(seconds)

    def monotonic(self) -> float:
        """Return seconds, without those in which the host was asleep."""
        host = self._clockwork.host
        return 1000.0 + self._clockwork.now - (host.slept if host else 0.0)

    def clock_gettime(self, _which: Any) -> float:
        """Return seconds with those in which it was asleep."""
        return 1000.0 + self._clockwork.now

    def time(self) -> float:
        """Return what the host takes for the time."""
        host = self._clockwork.host
        return START + self._clockwork.now + (host.wall_ahead if host else 0.0)
