"""One worker's loop: look, report, be told, do the one thing that is due, write the status."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
import time
from dataclasses import asdict, replace
from http.server import ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Optional

from . import devices, gang, member, processes, secrets, status, store, terminal, wire
from .config import Config, load
from .leader import Leader


class Agent:
    """Runs until SIGTERM; SIGHUP makes it begin anew with new code or a new definition."""

    def __init__(self, path: Path) -> None:
        self.config: Config = load(path)
        self.leaving = False
        self.reloading = False
        self.trying_again = False
        self.boot_id = processes.boot_id()
        self.order: Optional[member.Order] = None
        self.answered = time.monotonic()
        self.born = time.monotonic()
        self.signalled: Optional[float] = None
        self.cause = ""
        self.blocked = ""
        self.deaf = ""
        self.checked: Optional[float] = None
        paths = self.config.paths
        paths.state.mkdir(parents=True, exist_ok=True)
        self.kept = store.Kept(paths.state / "status.json", paths.runtime / "status.json")
        self.memory = status.Memory.from_json(self.kept.load() or {}, self.config.definition)
        # A run keeps the code that it began with; another definition begins anew.
        if self.memory.workdir and Path(self.memory.workdir).is_dir():
            self.config = replace(self.config, workdir=self.memory.workdir)
        self.secrets = secrets.Keeper(self.config)
        self.leader = Leader(self.config) if self.config.leader else None

    def run(self) -> bool:
        """Look after the run; return whether a new agent shall take over."""
        signal.signal(signal.SIGTERM, self._leave)
        signal.signal(signal.SIGINT, self._leave)
        signal.signal(signal.SIGHUP, self._reload)
        signal.signal(signal.SIGUSR1, self._try_again)
        server: Optional[ThreadingHTTPServer] = None
        tick = self.config.timing.tick
        while True:
            begun = time.monotonic()
            if self.leader and self.config.workers > 1 and server is None:
                server = self._serve()
            if self.trying_again and self.leader:
                self.trying_again = False
                self.leader.again()
            self._look()
            self.reloading = self.reloading or self.secrets.changed()
            self._exchange()
            todo = self._decide()
            self._act(todo)
            self._write_status()
            if todo == member.EXIT:
                if server is not None:
                    time.sleep(min(tick * 2, 2.0))  # let the peers hear that we leave
                return False
            if self.reloading:
                return True
            time.sleep(max(0.0, tick - (time.monotonic() - begun)))

    def _leave(self, _number: int, _frame: Optional[FrameType]) -> None:
        self.leaving = True

    def _reload(self, _number: int, _frame: Optional[FrameType]) -> None:
        self.reloading = True

    def _try_again(self, _number: int, _frame: Optional[FrameType]) -> None:
        self.trying_again = True

    def _serve(self) -> Optional[ThreadingHTTPServer]:
        if self.leader is None:
            return None
        own = self.config.hosts[self.config.worker]
        try:
            server = wire.serve(own, self.config.port, self.config.hosts, self.leader.answer)
        except OSError as error:  # the address may come up after us
            self.deaf = f"cannot listen on {own}:{self.config.port}: {error.strerror}"
            if error.errno == errno.EADDRINUSE:
                self.deaf += "; give the run another port"
            return None
        self.deaf = ""
        return server

    def _local(self) -> member.Local:
        now = time.monotonic()
        return member.Local(
            definition=self.config.definition,
            last_started=self.memory.attempt,
            program=self.memory.program,
            exit_code=self.memory.exit_code,
            leaving=self.leaving,
            silence=now - self.answered,
            stopping_for=None if self.signalled is None else now - self.signalled,
            ended=self.memory.ended,
        )

    def _decide(self) -> str:
        timing = self.config.timing
        return member.decide(self.order, self._local(), timing.lost, self.config.grace_seconds)

    def _look(self) -> None:
        """Learn what became of the program, also of one that an earlier agent started."""
        if self.memory.program != "running":
            waiting = self.order is None or self.order.phase == gang.GATHERING
            if not waiting or self.leaving:
                self.blocked, self.checked = "", None
            elif (
                self.checked is None
                or time.monotonic() - self.checked > 5 * self.config.timing.tick
            ):
                self.blocked, self.checked = self._obstacle(), time.monotonic()
            return
        folder = self.config.paths.user
        record = store.read(folder / "program.json")
        age = time.monotonic() - self.born
        seen = status.look(self.memory, record, None, self.boot_id, processes.start_time, age)
        # The result is read after the process was looked at: it is written before the process ends.
        result = store.read(folder / "result.json")
        if result is not None or not seen.alive:
            seen = status.look(self.memory, record, result, self.boot_id, processes.start_time, age)
        self.memory = seen.memory
        if seen.alive:
            return
        # By their marks alone: the number of a parent that is gone may be another process's by now.
        self._signal(signal.SIGKILL)
        cause = self.cause if self.signalled is not None else self.memory.cause
        self.memory = status.ended(self.memory, cause, time.time())
        self.signalled, self.cause = None, ""

    def _obstacle(self) -> str:
        try:
            terminal.check(self.config)
        except terminal.CannotStart as error:
            return str(error)
        return devices.obstacle() or self.secrets.obstacle()

    def _exchange(self) -> None:
        report = gang.Report(
            worker=self.config.worker,
            boot_id=self.boot_id,
            definition=self.config.definition,
            last_started=self.memory.attempt,
            program=self.memory.program,
            exit_code=self.memory.exit_code,
            signal=self.memory.signal,
            cause=self.memory.cause,
            blocked=self.blocked,
            leaving=self.leaving,
        )
        if self.leader is not None:
            self.order = self.leader.exchange(report)
            self.answered = time.monotonic()
            return
        hosts = self.config.hosts
        own = hosts[self.config.worker]
        answer = wire.send(hosts[0], self.config.port, own, asdict(report))
        if answer is not None:
            with contextlib.suppress(TypeError):  # a leader of another version
                self.order = member.Order(**answer)
                self.answered = time.monotonic()

    def _act(self, todo: str) -> None:
        if todo == member.START and self.order is not None:
            self._start(self.order)
        elif todo == member.SIGNAL:
            local = self._local()
            self.cause = member.stop_cause(self.order, local, self.config.timing.lost)
            self.signalled = time.monotonic()
            self._signal(processes.signal_number(self.config.stop_signal), self.memory.parent)
        elif todo == member.KILL:
            self._signal(signal.SIGKILL, self.memory.parent)

    def _start(self, order: member.Order) -> None:
        with contextlib.suppress(terminal.CannotStart):  # the start itself tells
            self.config = replace(self.config, workdir=terminal.workdir(self.config))
        self.memory = status.begun(
            self.memory, order, self.boot_id, time.time(), self.config.workdir
        )
        self._write_status()  # before it starts: no attempt is ever started twice
        self.born = time.monotonic()
        self.signalled, self.cause = None, ""
        try:
            env = {**self.secrets.take(), **self.config.env}
            terminal.start(replace(self.config, env=env), order.run_id, order.attempt)
        except (terminal.CannotStart, secrets.CannotGet, OSError) as error:
            self.memory = status.not_begun(self.memory, str(error), time.time())

    def _signal(self, number: int, parent: Optional[int] = None) -> None:
        uid = terminal.uid_of(self.config.user)
        if uid is None:
            return
        mark = {"TPU_FLEET_RUN": self.config.run, "TPU_FLEET_WORKER": str(self.config.worker)}
        found = processes.marked(mark)
        if parent is not None:
            found |= processes.descendants(parent)
        processes.send(found - {os.getpid()}, number, only_uid=uid)

    def _write_status(self) -> None:
        local = self._local()
        self.memory = status.remember(self.memory, self.order, self.config.definition)
        log = store.read(self.config.paths.user / "log.json") or {}
        leader_error = self.leader.error if self.leader else ""
        shown = status.compose(
            self.config,
            self.memory,
            state=member.state_of(self.order, local),
            reason=self._reason(local),
            problems=[
                text for text in (self.kept.error, leader_error, log.get("error", "")) if text
            ],
            dropped=int(log.get("dropped_bytes", 0)),
            peers=self.leader.peers() if self.leader else None,
        )
        self.kept.save(shown)
        _tell_systemd(f"{shown['state']}, attempt {shown['attempt']}. {shown['reason']}".strip())

    def _reason(self, local: member.Local) -> str:
        if self.leaving:
            return gang.TOLD_TO_STOP
        if self.leader is None and local.silence > self.config.timing.lost:
            return "worker 0 is not there"
        if self.order is None:
            return "waiting for worker 0"
        parts = (self.order.reason, self.deaf, self.order.waiting)
        return "; ".join(part for part in parts if part)


def _tell_systemd(text: str) -> None:
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
        out.sendto(f"STATUS={text}".encode(), address)
