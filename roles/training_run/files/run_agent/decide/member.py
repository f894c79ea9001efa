"""What one worker does next: pure, the same on the leader and on every other worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .gang_state import ADRIFT, HUNG, LEADER_LOST
from .run_states import ENDED, PENDING, RESTARTING, RUNNING, STOPPED, TOLD_TO_STOP

NOTHING, START, SIGNAL, KILL, EXIT = "nothing", "start", "signal", "kill", "exit"


@dataclass(frozen=True)
class Order:
    """What the leader last said."""

    phase: str
    attempt: int
    definition: str
    run_id: str
    reason: str = ""
    waiting: str = ""
    token: str = ""  # names the order; the next report repeats it
    hung: float = 0.0  # seconds of silence for which the attempt is ended
    checkpoint: str = ""  # why the program should save what it has
    queue: dict[str, Any] | None = None  # the run that has the TPU before this one
    yields: bool = False  # no slice is kept free for this run now
    saved_at: float | None = None  # of the newest checkpoint, where the leader alone looks
    fenced: bool = False  # another gang has the checkpoints: the attempt is killed, without grace
    guards: bool = False  # worker 0's program runs, so it reads the fence, and all others need not
    stuck: bool = False  # it could not start, for long by now; said where it has several slices
    all_here: bool = False  # all workers are there: their ports can be tried
    hint: str = ""  # what keeps the program from its first step, and the remedy
    bad_chips: list[list[Any]] = field(default_factory=list)  # [worker, starts failed, why]
    cache: str = ""  # names what worker 0's compilation cache holds; empty while it may change


@dataclass(frozen=True)
class Local:
    """What this worker knows of itself."""

    definition: str
    last_started: int = 0
    program: str = "none"
    exit_code: int | None = None
    leaving: bool = False
    silence: float = 0.0  # seconds since the leader last answered
    stopping_for: float | None = None  # seconds since the stop signal
    ended: str = ""  # how the run ended, by an earlier order
    adrift: bool = False  # whether the program goes on without its terminal, and so without a log


def stop_cause(order: Order | None, local: Local, lost_seconds: float) -> str:
    """Say why a running program must stop; empty when it may go on."""
    if local.leaving:
        return TOLD_TO_STOP
    if local.silence > lost_seconds:
        return LEADER_LOST
    if local.adrift:
        return ADRIFT
    if order is None:
        return ""
    if order.definition != local.definition:
        return "another definition"
    if order.hung:
        return HUNG
    if order.phase != RUNNING:
        return order.reason or "the gang stops"
    if order.attempt != local.last_started:
        return f"attempt {order.attempt} begins"
    return ""


def decide(order: Order | None, local: Local, lost_seconds: float, grace_seconds: float) -> str:
    """Return the one thing to do now."""
    if local.program == "running":
        if order is not None and order.fenced and order.attempt == local.last_started:
            return KILL
        # A stop that began is carried through, whatever the leader says meanwhile.
        if local.stopping_for is not None:
            return KILL if local.stopping_for >= grace_seconds else NOTHING
        return SIGNAL if stop_cause(order, local, lost_seconds) else NOTHING
    if local.leaving:
        return EXIT
    if order is None or local.silence > lost_seconds or order.definition != local.definition:
        return NOTHING
    if order.phase == RUNNING and order.attempt > local.last_started:
        return START
    return NOTHING


def state_of(order: Order | None, local: Local) -> str:
    """Return the state that the status file shows."""
    if order is not None and order.definition == local.definition and order.phase in ENDED:
        return order.phase
    if order is None and local.ended in ENDED and local.program != "running":
        return local.ended
    if local.leaving:
        return STOPPED if local.program != "running" else RUNNING
    if local.program == "running":
        return RUNNING if local.stopping_for is None else RESTARTING
    if (
        order is not None
        and order.phase == RUNNING
        and order.attempt == local.last_started
        and local.program == "exited"
        and local.exit_code == 0
    ):
        return RUNNING  # this worker is done, others are not yet
    return RESTARTING if local.last_started else PENDING
