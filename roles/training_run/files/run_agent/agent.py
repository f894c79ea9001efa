"""One worker's loop: look, report, read the order, do the one thing due, write the status."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import signal
import time
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from .act import certificates, hang, metadata, processes, save_request, secrets, store, terminal
from .act.archive_watch import Archive
from .act.bucket_watch import BucketWatch
from .act.cache_watch import CompileCache
from .act.chip_starts import ChipStarts
from .act.chip_watch import ChipWatch
from .act.definitions import load
from .act.hand import CannotReach, Glance, Hand
from .act.port_watch import PortWatch
from .act.progress import Progress
from .act.readiness import Readiness, of_run
from .decide import loss, maintenance, member, starts, status, story
from .decide.config import Config
from .decide.gang_state import (
    CHIPS,
    GATHERING,
    INFRASTRUCTURE_CAUSES,
    PORT_TAKEN,
    STOPPING,
    Report,
)
from .decide.pace import Pace
from .decide.run_states import ENDED, RUNNING, TOLD_TO_STOP
from .decide.run_times import counts_of
from .decide.times import Seconds, heard
from .talk import keys, systemd
from .talk.journal import Journal
from .talk.leader import Leader
from .talk.messages import GANG
from .talk.refusals import Refusals

if TYPE_CHECKING:
    from .talk import wire

# The signals that an agent that takes over handles, also when they are sent before it can.
HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
# Seconds to the next look while the gang stops or gathers, and until the program is seen, because a
# person may wait for it; for so long after the gang has gone on. On a busy worker so many times as
# long as the look itself takes, after the first moment, in which as long.
_SOON = 0.03
_SEEN = 0.1  # to the first sign of the program, which comes by itself
_SOON_FOR = 5.0
_SOON_TIMES = 4.0
_FIRST_FOR = 1.0


class Agent:
    """Runs until SIGTERM; after SIGHUP another takes over, with the definition as it is then."""

    def __init__(self, path: Path, before: Agent | None = None) -> None:
        """Read a definition; `before` is the agent that ends in this process."""
        self.path = path
        self.config: Config = load(path)
        self.leaving = False
        self.reloading = False
        self.trying_again = False
        self._hear_signals()
        self._take_from(before)
        self.boot_id = processes.boot_id()
        self.order: member.Order | None = None
        self.answered = time.monotonic()
        self.born = time.monotonic()
        self.gone_on = self.born
        self.parents_end = processes.End()
        self.signalled: float | None = None
        self.cause = ""
        self.deaf = ""
        self.step_noted = 0.0
        self.progress_told = time.monotonic()
        self.tail: list[str] = []
        self.queue: dict[str, Any] | None = None
        self.adrift = False
        self.clock_ahead: float | None = None
        self.glance = Glance()
        self.out_of_reach = ""
        paths = self.config.paths
        paths.state.mkdir(parents=True, exist_ok=True)
        self.kept = store.status_of(paths)
        self.memory = status.Memory.from_json(self.kept.load() or {}, self.config.definition)
        self.losses = loss.Watch.from_json(self.memory.loss_watch)
        self.loss_told = self.losses.trouble
        # A run keeps the code that it began with, until its definition changes.
        if self.memory.workdir and self.hand.real_folder(self.memory.workdir):
            self.config = replace(self.config, workdir=self.memory.workdir)
        self.secrets = secrets.Keeper(self.config)
        self.leader = Leader(self.config, self.boot_id) if self.config.leader else None
        self.refusals = Refusals()
        self.server: wire.Server[Report, member.Order] | None = None
        self._meet_the_gang()
        self.journal = Journal(self.config, self.boot_id, self.hand)
        self.progress = Progress(self.config, time.monotonic(), self.hand)
        self.bucket = BucketWatch(self.config)
        self.archive = Archive(self.config, self.hand)
        chips_every = self.config.timing.chips
        self.chips = ChipWatch(self.config.user, chips_every, self.config.paths.root)
        self.cache = CompileCache(self.config, self.hand, lambda: self.keys.current)
        if before is not None:
            self.cache.take_over(before.cache)
        self.readiness = Readiness(
            self.config, self.secrets, self.leader, self.boot_id, self.hand, self.cache
        )
        self.hang = hang.Note(self.config, self.hand)
        self.late_start = hang.Note(self.config, self.hand, "start")
        self.ports = PortWatch(self.config, self.memory.attempt)
        self.chip_starts = ChipStarts(self.config, self.hand)
        self.pace = Pace()

    def _take_from(self, before: Agent | None) -> None:
        """Take over what takes time to make, and the signals that came too late for the other."""
        about = (self.config.metadata, self.config.timing.metadata)
        if before is None:
            self.hand = Hand(self.config.user)
            self.watch = metadata.Watch(*about)
            return
        for number in before.unheeded():
            self._note_signal(number)
        before.close_pipe()
        fits = before.hand.fits(self.config.user)
        self.hand = before.hand if fits else Hand(self.config.user)
        self.watch = before.watch if before.watch.about == about else metadata.Watch(*about)
        if not fits:
            before.hand.close()
        if self.watch is not before.watch:
            before.watch.close()

    def successor(self) -> Agent:
        """End, and return the agent that takes over in this process."""
        self._end()
        return Agent(self.path, self)

    def close(self) -> None:
        """End all that works beside the loop: no thread, process or connection stays."""
        self._end()
        self.cache.close()
        self.hand.close()
        self.watch.close()
        signal.set_wakeup_fd(-1)
        self.close_pipe()

    def _end(self) -> None:
        """End what no other agent can take over; from here on a signal is for that one."""
        self.reloading = False
        if self.server is not None:
            self.server.close()
        if self.client is not None:
            self.client.close()
        self.parents_end.close()
        self.readiness.close()
        self.ports.close()
        self.bucket.close()
        self.archive.close()

    def close_pipe(self) -> None:
        """Give up the pipe that wakes it, once signals no longer go there."""
        os.close(self._woken)
        os.close(self._waker)

    def unheeded(self) -> list[int]:
        """Return the signals that came after the last look at them."""
        heard = {
            signal.SIGTERM: self.leaving,
            signal.SIGHUP: self.reloading,
            signal.SIGUSR1: self.trying_again,
        }
        return [number for number, is_due in heard.items() if is_due]

    def run(self) -> bool:
        """Look after the run; return whether a new agent shall take over."""
        tick = self.config.timing.tick
        # Records what was killed, and for how long no agent looked.
        self.journal.tell(self.memory, "agent-started", program=self.memory.program)
        while True:
            begun = time.monotonic()
            if self.leader and self.config.workers > 1:
                if self.server is None:
                    self.leader.cache = self._offered()
                self._serve()
            if self.trying_again and self.leader:
                self.trying_again = False
                self.leader.again()
            self._look()
            self.reloading = self.reloading or self.secrets.changed()
            before = self.order
            self._exchange()
            todo = self._decide()
            self._act(todo)
            self._save_if_asked()
            self._tell()
            self._write_status()
            if todo == member.EXIT:
                self.readiness.leave()
                self.archive.finish()
                if self.server is not None:
                    time.sleep(min(tick * 2, 2.0))  # the peers get the last report
                self.readiness.release()  # last, as peers may have ended meanwhile
                return False
            if self.reloading:
                return True
            news = before and self.order and before.token != self.order.token
            spent = time.monotonic() - begun
            self._wait(self._pause(bool(news), spent) - spent)

    def _pause(self, news: bool, spent: float) -> float:
        """Return the seconds from one look, which took `spent` seconds, to the next."""
        tick, now = self.config.timing.tick, time.monotonic()
        if news:
            self.gone_on = now
        order, own = self.order, self.config.definition
        if self.signalled is not None and self.parents_end.of(self.memory.parent):
            # The program's end ends the wait too.
            return min(tick, max(_SOON, self.config.grace_seconds - (now - self.signalled)))
        between = order is None or order.definition != own or order.phase in (GATHERING, STOPPING)
        begins = self.memory.program == "running" and self.memory.parent is None
        since = now - self.gone_on
        if not (news or ((between or begins) and since < _SOON_FOR)):
            return tick
        times = _SOON_TIMES if since > _FIRST_FOR else 1.0
        least = _SOON if news or between else _SEEN
        return min(tick, max(least, times * spent))

    def _wait(self, seconds: float) -> None:
        """Wait, but not after a signal or the end of the program, on which people wait."""
        if seconds <= 0:
            return
        ends = self.parents_end.of(self.memory.parent)
        ready = select.select([self._woken, *ends], [], [], seconds)[0]
        if self._woken in ready:
            os.read(self._woken, 4096)
        if any(one in ready for one in ends):
            self.parents_end.close()

    def _hear_signals(self) -> None:
        """Take signals from here on: systemd reloads nothing that has not said that it is ready."""
        self._woken, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in HEARD:
            signal.signal(number, self._note_signal)
        # Signals that came while this agent took over from the one before are handled now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, HEARD)
        systemd.tell("begins", ready=True)

    def _note_signal(self, number: int, _frame: FrameType | None = None) -> None:
        if number == signal.SIGHUP:
            self.reloading = True
        elif number == signal.SIGUSR1:
            self.trying_again = True
        else:
            self.leaving = True

    def _meet_the_gang(self) -> None:
        """Know the others by the gang's key."""
        config = self.config
        self.keys = keys.Keys(config.key, config.paths.state / "key.json")
        if self.leader is not None and config.workers > 1:
            self.keys.make()
        self.client: wire.Client[Report, member.Order] | None = None
        if config.workers > 1:
            # Its imports take an eighth of this process's time to start.
            from .talk import wire

            self.client = wire.Client(
                config.run, config.worker, config.peer_port, config.hosts, self.keys, GANG
            )

    def _offered(self) -> str:
        """Return what names the entries of the cache; empty while the program may write others."""
        ended = self.leader is None or self.leader.gang.phase in ENDED
        return "" if ended or self.memory.program == "running" else self.cache.offered()

    def _serve(self) -> None:
        if self.leader is None or (self.server is not None and self.server.alive):
            return
        if self.server is not None:
            self.server.close()
            self.server = None
        config = self.config
        from .talk import wire

        try:
            self.server = wire.Server(
                config.run,
                config.peer_port,
                config.hosts,
                self.keys,
                GANG,
                self.leader.exchange,
                self.refusals.note,
                hands_out=not config.slices,
            )
        except OSError as error:  # the address may come up after us
            why = os.strerror(error.errno or 0)
            self.deaf = f"cannot listen on {config.hosts[0]}:{config.peer_port}: {why}"
            if error.errno == errno.EADDRINUSE:
                self.deaf += "; give the run another peer_port"
            return
        self.deaf = ""

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
            adrift=self.adrift,
        )

    def _decide(self) -> str:
        timing = self.config.timing
        return member.decide(self.order, self._local(), timing.lost, self.config.grace_seconds)

    def _look(self) -> None:
        """Learn what became of the program, also of one that an earlier agent started."""
        idle = self.memory.program != "running"
        phase = self.leader.gang.phase if self.leader else self.order_phase()
        # The leader knows; other workers look as well while they have no order.
        waiting = idle and not self.leaving and phase in (GATHERING, "")
        self.readiness.look(self.order, waiting, not idle)
        if self.readiness.checkpoints_on:
            on = self.readiness.checkpoints_on
            self.memory = replace(self.memory, checkpoints_on=on)
        self.bucket.look(time.monotonic(), running=not idle)
        self.cache.look(time.monotonic(), idle)
        self.archive.look(time.monotonic(), running=not idle, hurry=self.watch.preempted)
        self.chips.look(time.monotonic(), running=not idle)
        self._look_at_ports()
        if idle:
            self._look_at_last_checkpoint()
            return
        try:
            self.glance = self.hand.glance(self.config.paths.user, self.config.paths.log)
            self._look_at_progress()
            seen = self._look_at_program()
            self.out_of_reach = ""
        except CannotReach as error:  # what cannot be seen is not taken for ended
            self.out_of_reach = str(error.strerror)
            return
        self.memory, self.adrift = seen.memory, seen.adrift
        if not seen.alive:
            self._program_ended()

    def _look_at_ports(self) -> None:
        """Try the ports of the other workers where that is due."""
        now, memory = time.monotonic(), self.memory
        self.ports.look(self.order is not None and self.order.all_here)
        age = self._start_age()
        if memory.program == "running":
            self.ports.look_at_start(now, age, memory.history)
        if age is not None and age > starts.late_after(memory.history):
            self.chip_starts.look_at_late_start(now)
            self.late_start.done(memory.attempt)
        if self.leader is None and now - self.answered > self.config.timing.lost:
            self.ports.look_for_leader(now)
        else:
            self.ports.heard()

    def _start_age(self) -> float | None:
        """Return for how long the program runs without a step; None if it has come to one."""
        memory = self.memory
        if memory.program != "running" or memory.start is None or memory.first_step is not None:
            return None
        return max(0.0, time.time() - memory.start)

    def _look_at_last_checkpoint(self) -> None:
        """Note what a bucket is seen to have after the program's end."""
        if self.bucket.found:
            self.progress.see_checkpoints(self.bucket.found)
            self._note_saved()

    def _look_at_program(self) -> status.Seen:
        record, result = self.glance.program, self.glance.result
        age = time.monotonic() - self.born
        uid = terminal.uid_of(self.config.user)

        def started(pid: int) -> int | None:
            return processes.start_time(pid) if processes.belongs_to(pid, uid) else None

        seen = status.look(self.memory, record, None, self.boot_id, started, age)
        if result is None and not seen.alive:
            # Read after the process was looked at: it is written before the process ends.
            result = self.hand.load(self.config.paths.user / "result.json")
        if result is not None or not seen.alive:
            seen = status.look(self.memory, record, result, self.boot_id, started, age)
        return seen

    def order_phase(self) -> str:
        """Return what the gang is at, as far as this worker knows."""
        return self.order.phase if self.order else ""

    def _look_at_progress(self) -> None:
        now = time.monotonic()
        before = self.losses.trouble
        self._take_in_progress(now)
        news = (before is None) != (self.losses.trouble is None)
        due = news or now - self.step_noted >= self.config.timing.step
        # A status for each step would be a write to the disk for each.
        if self.memory.first_step is None or due:
            self._note_step()
            self.step_noted = now
        # Often at first, when people look.
        pause = max(self.config.timing.step, (now - self.born) / 20)
        if self.leader and now - self.progress_told >= min(self.config.timing.progress, pause):
            self._tell_progress()
            self.progress_told = now

    def _take_in_progress(self, now: float) -> None:
        self.progress.look(now, self.glance, self.bucket.found or self.glance.checkpoints)
        seen = self.progress
        self.pace.look(now, seen.step, seen.loss)
        self.losses = loss.judged(self.losses, seen.loss, seen.step, time.time())
        self.losses = loss.with_checkpoint(self.losses, seen.saved_steps, seen.saved_at)

    def _note_last_step(self) -> None:
        """Record what the program wrote between the last look at its progress and its end."""
        with contextlib.suppress(CannotReach):  # then what was seen before is the last
            self.glance = self.hand.glance(self.config.paths.user, self.config.paths.log)
            self._take_in_progress(time.monotonic())
        self._note_step()
        # When a program of an earlier boot wrote its last step is not known.
        if self.leader and self.memory.boot_id == self.boot_id:
            self._tell_progress()

    def _note_step(self) -> None:
        seen, now = self.progress, time.time()
        memory = status.reached(self.memory, seen.step, now, seen.first)
        is_first = self.memory.first_step is None and memory.first_step is not None
        if is_first:
            counts = counts_of(self.glance.times)
            memory = status.first_stepped(memory, self._times_known(), counts)
        # Before the first step it would be a write for each second.
        if memory.first_step is not None:
            memory = status.spent(memory, self._times_known(), now)
        # Without a step it is noted every second, and would be a write for each.
        last = None if memory.first_step is None else seen.loss
        memory = replace(memory, loss=last, loss_watch=self.losses.to_json())
        self.memory = status.with_figures(memory, seen.figures)
        if is_first:
            self._tell_first_step()
        self._note_saved()

    def _times_known(self) -> Seconds:
        """Return what is known from inside of the attempt: what its program says comes first."""
        return {**heard(self.glance.times), **self.progress.seconds}

    def _tell_first_step(self) -> None:
        """Write down how long the start took, and of what that consisted."""
        parts = self.memory.start_parts
        self.journal.tell(
            self.memory,
            "first-step",
            first_step=self.memory.first_step,
            seconds=round(sum(parts.values()) - parts.get("wait", 0.0), 2),
            parts=parts,
            counts=self.memory.start_counts,
        )

    def _note_saved(self) -> None:
        if self.progress.saved_at is not None:
            self.memory = replace(self.memory, saved_at=self.progress.saved_at)

    def _tell_progress(self) -> None:
        """Write down how far the program is, for those who draw curves of it."""
        step, written = self.progress.step, not self.journal.log.error
        # What waits for room on the disk must be of more weight.
        if step is not None and written:
            self.journal.tell(self.memory, "progress", step=step, numbers=self.progress.numbers)

    def _program_ended(self) -> None:
        # By their marks alone: the number of a parent that is gone may be another process's by now.
        self._signal(signal.SIGKILL)
        self._note_last_step()
        cause = self.memory.cause
        if self.signalled is not None and not self.memory.fenced:
            cause = self.cause
        failed = self.memory.exit_code != 0
        # Also where it was stopped because another worker's program failed for the same reason.
        look = failed and cause not in INFRASTRUCTURE_CAUSES
        taken = self.readiness.strangers_port() if look else ""
        starts_only = look and not taken and self.memory.first_step is None
        chips = self.chip_starts.failure(self.memory.attempt) if starts_only else ""
        cause = PORT_TAKEN if taken else CHIPS if chips else cause
        note = taken or (f"{CHIPS}: {chips}" if chips else "")
        end = time.time() if self.memory.end is None else self.memory.end
        self.memory = status.spent(self.memory, self._times_known(), end)
        self.memory = status.ended(self.memory, cause, end, note=note)
        self.tail = [taken or chips] if note else self.journal.tail() if failed else []
        self.signalled, self.cause, self.adrift = None, "", False
        self.hang.forget()
        self.late_start.forget()
        self.readiness.forget()
        self.journal.ended(self.memory, self.tail)
        self.archive.soon()

    def _exchange(self) -> None:
        sent = time.monotonic()
        running = self.memory.program == "running"
        asking = bool(self.config.checkpoint_signal or self.config.checkpoint_command)
        lead = self.config.checkpoint_lead_seconds
        report = Report(
            worker=self.config.worker,
            boot_id=self.boot_id,
            definition=self.config.definition,
            last_started=self.memory.attempt,
            program=self.memory.program,
            exit_code=self.memory.exit_code,
            signal=self.memory.signal,
            cause=self.memory.cause,
            leaving=self.leaving,
            sent=sent,
            heard=self.order.token if self.order else "",
            quiet=self.bucket.quiet(sent, self.progress.quiet(sent)) if running else 0.0,
            tail=self.tail if self.order_phase() in (RUNNING, STOPPING) else [],
            checkpoint=maintenance.due(self.watch.notice, time.time(), lead) if asking else "",
            **self.readiness.for_report(),
            stepped=self.memory.first_step is not None,
            opened=self.chip_starts.opened,
            chip_error=self.chips.error,
            pace=self.pace.seconds if running else 0.0,
            losses=self.pace.losses if running else [],
            **self.ports.for_report(),
        )
        if self.leader is not None:
            self.leader.network = self.watch.network
            self.leader.saved_at = self.memory.saved_at if self.bucket.found else None
            # Before the report that this program has ended lets the gang gather.
            self.leader.cache = self._offered()
            self.order = self.leader.exchange(report)
            self.answered = sent
            return
        order = self.client.exchange(report) if self.client else None
        if order is not None:
            self.order = order
            # From the time of the request: the leader counts from its arrival, which was later.
            self.answered = sent
            if order.guards:
                terminal.note_heard(self.config)
            if order.saved_at is not None and order.definition == self.config.definition:
                self.memory = replace(self.memory, saved_at=order.saved_at)

    def _act(self, todo: str) -> None:
        if todo == member.START and self.order is not None:
            self._start(self.order)
        elif todo == member.SIGNAL:
            local = self._local()
            cause = member.stop_cause(self.order, local, self.config.timing.lost)
            if self.order is not None and self.order.hung and not self._hang_is_noted(self.order):
                return
            self.cause = cause
            self.signalled = time.monotonic()
            self._signal(processes.signal_number(self.config.stop_signal), self.memory.parent)
        elif todo == member.KILL:
            if self.signalled is None:  # without a grace before
                timing = self.config.timing
                self.cause = member.stop_cause(self.order, self._local(), timing.lost)
                self.signalled = time.monotonic()
            self._signal(signal.SIGKILL, self.memory.parent)

    def _hang_is_noted(self, order: member.Order) -> bool:
        """Have it written down where the program stands, before it is ended."""
        if not self.hang.done(self.memory.attempt):
            return False
        seconds, dump = round(order.hung), self.hang.result
        self.journal.tell(self.memory, "hang", seconds=seconds, dump=dump)
        return True

    def _start(self, order: member.Order) -> None:
        with contextlib.suppress(terminal.CannotStart):  # the start itself reports it
            self.config = replace(self.config, workdir=terminal.workdir(self.config, self.hand))
        self.archive.workdir = self.config.workdir
        self.memory = status.begun(
            self.memory, order, self.boot_id, time.time(), self.config.workdir
        )
        self._write_status()  # before it starts: no attempt is ever started twice
        self.born = time.monotonic()
        self.signalled, self.cause, self.tail = None, "", []
        self.progress.begin(self.born)
        self.ports.begin()
        self.chip_starts.begin()
        self.pace = Pace()
        self.readiness.forget()
        self.journal.tell(self.memory, "attempt-started")
        try:
            tls = certificates.given(self.config, order.attempt, self.keys.all)
            env = {**tls, **self.secrets.take(), **self.config.env}
            owner = order.token.partition(" ")[0]
            config = replace(self.config, env=env)
            self.readiness.take_chips()
            terminal.start(config, self.hand, order.run_id, order.attempt, owner)
        except (terminal.CannotStart, secrets.CannotGet, OSError) as error:
            self.memory = status.not_begun(self.memory, str(error), time.time())
            self.tail = [str(error)]
            self.journal.ended(self.memory, self.tail)

    def _signal(self, number: int, parent: int | None = None) -> None:
        uid = terminal.uid_of(self.config.user)
        processes.send(of_run(self.config, parent), number, uid)

    def _save_if_asked(self) -> None:
        reason = self.order.checkpoint if self.order else ""
        asked = f"attempt {self.memory.attempt}, {reason}"
        if not reason or asked == self.memory.asked:
            return
        if self.memory.program != "running" or self.order_phase() != RUNNING:
            return
        self.memory = replace(self.memory, asked=asked)
        pids = of_run(self.config, self.memory.parent)
        how = save_request.ask(
            self.config, self.hand, self.memory.run_id, self.memory.attempt, pids
        )
        if how is not None:
            self.journal.tell(self.memory, "checkpoint-asked", why=reason, how=how)

    def _tell(self) -> None:
        """Write down what else happened since the last look."""
        self.memory = status.remember(self.memory, self.order, self.config.definition)
        clock_ahead = time.time() - time.monotonic()
        self.journal.tell_all(self.memory, story.of_clock(self.clock_ahead, clock_ahead))
        self.clock_ahead = clock_ahead
        ahead = self.watch.notice
        name = ahead.name if ahead else ""
        if self.watch.known and name != self.memory.announced:
            self.memory = replace(self.memory, announced=name)
            if ahead is not None:
                self.journal.tell(self.memory, "maintenance-announced", when=ahead.window or None)
        news = loss.news(self.loss_told, self.losses, self._knows_checkpoints())
        if news is not None:
            self.loss_told = self.losses.trouble
            self.journal.tell_all(self.memory, [news])
        if self.readiness.disk_news:
            self.journal.tell(self.memory, "disk-low", what=self.readiness.disk_news)
            self.readiness.disk_news = ""
        if self.leader is not None:
            queue = self.order.queue if self.order else None
            told = self.leader.told() + story.of_queue(self.queue, queue)
            told = story.with_tail(told, self.journal.tail)
            self.journal.tell_all(self.memory, told)
            self.queue = queue
        self.journal.log.catch_up()

    def _knows_checkpoints(self) -> bool:
        """Return whether the checkpoints were looked at since the loss was last good."""
        trouble = self.losses.trouble or {}
        seconds = max(self.config.timing.checkpoints, self.bucket.seconds)
        late = time.time() - trouble.get("at", 0.0) > seconds
        return late or not self.config.checkpoint_dir or self.memory.program != "running"

    def _write_status(self) -> None:
        local = self._local()
        self.memory = status.remember(self.memory, self.order, self.config.definition)
        state = member.state_of(self.order, local)
        self.memory = status.in_state(self.memory, state, time.time())
        problems = [
            self.kept.error,
            self.leader.error if self.leader else "",
            self.glance.log_error,
            self.out_of_reach,
            self.journal.log.error,
            self.progress.error,
            self.bucket.error,
            self.archive.problem,
            self.readiness.error,
            self.keys.error,
            self.client.problem if self.client else "",
            *self.refusals.shown(),
        ]
        stand_out = self.leader.stand_out() if self.leader and self.config.workers > 1 else []
        shown = status.compose(
            self.config,
            self.memory,
            reason="; ".join(part for part in (self._reason(local), *stand_out) if part),
            problems=[text for text in problems if text],
            agent_pid=os.getpid(),
            log_dropped_bytes=self.glance.dropped_bytes,
            **(self.leader.shown() if self.leader else {}),
            queue=self.order.queue if self.order else None,
            bucket=self.bucket.shown(),
            archive=self.archive.shown(),
            compile_cache=self.cache.shown(),
            chips=self.chips.found,
            bad_chips=self._bad_chips(),
            stand_out=stand_out,
        )
        self.kept.save(shown)
        systemd.tell(f"{shown['state']}, attempt {shown['attempt']}. {shown['reason']}".strip())

    def _bad_chips(self) -> dict[str, Any] | None:
        """Return how many starts failed for the chips of this worker, and why; None without any."""
        for worker, times, said in self.order.bad_chips if self.order else ():
            if worker == self.config.worker:
                return {"times": times, "said": said}
        return None

    def _late(self) -> str:
        """Say that the start takes longer than its usual time."""
        age = self._start_age()
        return "" if age is None else starts.said(age, self.memory.history)

    def _reason(self, local: member.Local) -> str:
        if self.leaving and self.order_phase() not in ENDED:
            return TOLD_TO_STOP
        if self.leader is None and local.silence > self.config.timing.lost:
            why = f": {self.ports.leader_found}" if self.ports.leader_found else ""
            return f"worker 0 is not there{why}"
        if self.order is None:
            return "waiting for worker 0"
        parts = (self.order.reason, self.deaf, self.order.waiting, self._late(), self.order.hint)
        return "; ".join(part for part in parts if part)
