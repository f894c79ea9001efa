"""No two attempts of a run are ever alive at once, whatever the network and the machines do.

The real decisions of leader and members are driven by Hypothesis: messages are late, lost, or
delivered after newer ones; machines freeze between being told and doing it, reboot, lose their
disks; their clocks run at different speeds.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from run_agent.decide import gang, member
from run_agent.decide.gang_state import REBOOTED, Gang, Policy, Report
from run_agent.decide.inbox import Inbox
from run_agent.decide.run_states import ENDED, RUNNING

LOST, GRACE, WORKERS = 30.0, 10.0, 3
POLICY = Policy("def", WORKERS, retries=3, fail_fast_seconds=100, lost_seconds=LOST)
WORKER = st.integers(0, WORKERS - 1)
EXAMPLES = int(os.environ.get("TPU_FLEET_GANG_EXAMPLES", "60"))


@dataclass
class Machine:
    """One worker: what it remembers, what runs there, and where it is in its loop."""

    index: int
    speed: float
    boot: int = 0
    order: member.Order | None = None
    last_started: int = 0
    program: str = "none"
    exit_code: int | None = None
    cause: str = ""
    answered: float = 0.0
    stopping_since: float | None = None
    asked: int | None = None  # the message that it waits for an answer to
    to_act: bool = False
    frozen: bool = False  # between being told and doing it
    attempt_alive: int | None = None

    def clock(self, now: float) -> float:
        return now * self.speed


@dataclass(frozen=True)
class Message:
    number: int
    worker: int
    sent: float
    report: Report | None = None
    answer: member.Order | None = None


class Slice(RuleBasedStateMachine):
    """A slice whose network Hypothesis owns."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.messages: list[Message] = []
        self.numbers = 0
        self.starts = 0

    @initialize(speeds=st.lists(st.sampled_from([0.95, 1.0, 1.05]), min_size=3, max_size=3))
    def begin(self, speeds: list[float]) -> None:
        self.machines = [Machine(index, speed) for index, speed in enumerate(speeds)]
        self.gang = Gang("def", "id", owner="first")
        self.inbox = Inbox(POLICY, 0.0)
        for _ in range(4):
            self.all_do_a_round()
        assert {machine.attempt_alive for machine in self.machines} == {1}

    # -- what the leader does ---------------------------------------------------------------------

    def heard(self, report: Report) -> member.Order:
        leader_clock = self.machines[0].clock(self.now)
        self.inbox.take(report, leader_clock)
        seen = self.inbox.seen(self.gang, leader_clock)
        self.gang = gang.decide(self.gang, seen, self.now, POLICY)
        state = self.gang
        return member.Order(
            state.phase, state.attempt, state.definition, state.run_id, token=state.token
        )

    # -- what a worker does, in three steps that anything may come between -------------------------

    def report(self, machine: Machine) -> Report:
        return Report(
            machine.index,
            boot_id=f"{machine.index}-{machine.boot}",
            definition="def",
            last_started=machine.last_started,
            program=machine.program,
            exit_code=machine.exit_code,
            cause=machine.cause,
            sent=machine.clock(self.now),
            heard=machine.order.token if machine.order else "",
        )

    @rule(worker=WORKER)
    def ask(self, worker: int) -> None:
        machine = self.machines[worker]
        if machine.asked is not None or machine.to_act:
            return
        if worker == 0:
            machine.order = self.heard(self.report(machine))
            machine.answered = machine.clock(self.now)
            machine.to_act = True
            return
        self.numbers += 1
        sent = machine.clock(self.now)
        self.messages.append(Message(self.numbers, worker, sent, report=self.report(machine)))
        machine.asked = self.numbers

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def deliver(self, data: st.DataObject) -> None:
        message = self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1)))
        if message.report is not None:
            answer = replace(message, report=None, answer=self.heard(message.report))
            self.messages.append(answer)
            return
        machine = self.machines[message.worker]
        if machine.asked == message.number:
            machine.order, machine.answered = message.answer, message.sent
            machine.asked, machine.to_act = None, True

    @precondition(lambda self: self.messages)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1)))

    @rule(worker=WORKER)
    def give_up_waiting(self, worker: int) -> None:
        machine = self.machines[worker]
        if machine.asked is not None:  # the answer may still come, and is nobody's
            machine.asked, machine.to_act = None, True

    @rule(worker=WORKER)
    def act(self, worker: int) -> None:
        machine = self.machines[worker]
        if not machine.to_act:
            return
        machine.to_act = False
        clock = machine.clock(self.now)
        since = machine.stopping_since
        local = member.Local(
            "def",
            machine.last_started,
            machine.program,
            machine.exit_code,
            silence=clock - machine.answered,
            stopping_for=None if since is None else clock - since,
        )
        todo = member.decide(machine.order, local, LOST, GRACE)
        if todo == member.START:
            assert machine.order is not None
            machine.last_started = machine.attempt_alive = machine.order.attempt
            machine.program, machine.exit_code, machine.cause = "running", None, ""
            machine.stopping_since = None
            self.starts += 1
        elif todo == member.SIGNAL:
            machine.cause = member.stop_cause(machine.order, local, LOST)
            machine.stopping_since = clock
        elif todo == member.KILL:
            self.end(machine, None)

    @rule(worker=WORKER)
    def round(self, worker: int) -> None:
        """Do all three without anything between; an older message is left to come when it likes."""
        machine = self.machines[worker]
        if not machine.to_act:
            machine.order = self.heard(self.report(machine))
            machine.answered = machine.clock(self.now)
            machine.asked, machine.to_act = None, True
        if not machine.frozen:
            self.act(worker)

    @rule(worker=WORKER)
    def freeze_or_thaw(self, worker: int) -> None:
        machine = self.machines[worker]
        machine.frozen = not machine.frozen
        if not machine.frozen:
            self.act(worker)

    @rule(worker=WORKER)
    def crash_and_go_on(self, worker: int) -> None:
        self.program_ends(worker, 1)
        self.now += 2.0
        for _ in range(4):
            self.all_do_a_round()

    @rule()
    def all_do_a_round(self) -> None:
        self.now += 1.0
        for worker in range(WORKERS):
            self.round(worker)

    # -- what the world does ----------------------------------------------------------------------

    @staticmethod
    def end(machine: Machine, code: int | None) -> None:
        machine.program, machine.exit_code = "exited", code
        machine.attempt_alive = machine.stopping_since = None

    @rule(worker=WORKER, code=st.sampled_from([0, 1]))
    def program_ends(self, worker: int, code: int) -> None:
        if self.machines[worker].attempt_alive is not None:
            self.end(self.machines[worker], code)

    @rule(seconds=st.sampled_from([0.5, 5.0, LOST, 3 * LOST]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(worker=WORKER)
    def agent_restarts(self, worker: int) -> None:
        machine = self.machines[worker]
        machine.order, machine.asked, machine.to_act = None, None, False
        machine.answered = machine.clock(self.now)
        machine.stopping_since = None
        if worker == 0:
            self.inbox = Inbox(POLICY, machine.clock(self.now))

    @rule(worker=WORKER, loses_disk=st.booleans())
    def reboot(self, worker: int, loses_disk: bool) -> None:
        machine = self.machines[worker]
        if machine.program == "running":
            self.end(machine, None)
            machine.cause = REBOOTED
        machine.boot += 1
        self.agent_restarts(worker)
        if loses_disk:
            machine.last_started, machine.program, machine.cause = 0, "none", ""
            if worker == 0:
                self.gang = Gang("def", "id", owner=f"owner {machine.boot}")

    # -- what has to be true -----------------------------------------------------------------------

    @invariant()
    def one_attempt_at_a_time(self) -> None:
        alive = {m.attempt_alive for m in getattr(self, "machines", [])} - {None}
        assert len(alive) <= 1, alive

    def teardown(self) -> None:
        """When the world calms down, all run the same attempt, or the run has ended."""
        if not hasattr(self, "machines"):
            return
        self.messages.clear()
        for machine in self.machines:
            machine.frozen = False
        for _ in range(30):
            self.now += 5.0
            self.all_do_a_round()
            self.one_attempt_at_a_time()
        alive = [machine.attempt_alive for machine in self.machines]
        done = [m.program == "exited" and m.exit_code == 0 for m in self.machines]
        running = self.gang.phase == RUNNING and all(
            attempt == self.gang.attempt or over for attempt, over in zip(alive, done, strict=True)
        )
        assert running or self.gang.phase in ENDED, (self.gang, alive)


TestSlice = Slice.TestCase
TestSlice.settings = settings(max_examples=EXAMPLES, stateful_step_count=60)
