"""What a worker remembers of its program, and what it shows: one JSON file serves both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from . import times
from .config import Config
from .gang_state import ADRIFT, FENCED, NOT_STARTED, REBOOTED
from .member import Order
from .run_states import ENDED, PENDING, RESTARTING
from .values import fields_of, is_number, is_whole, one_line

_HISTORY = 20
MOST_PIDS = 1 << 22  # Linux has no larger process id
_BIRTH_SECONDS = 15.0  # how long a program may take from tmux to its first sign of life


@dataclass(frozen=True)
class Memory:
    """What this worker knows of its last attempt."""

    attempt: int = 0
    program: str = "none"  # none | running | exited
    run_id: str = ""
    boot_id: str = ""
    pid: int | None = None
    parent: int | None = None
    start: float | None = None
    end: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    cause: str = ""
    ended: str = ""
    workdir: str = ""
    state: str = ""
    since: float | None = None  # of the state
    step: int | None = None
    step_at: float | None = None
    first_step: int | None = None  # that this attempt reported: where it went on
    first_step_at: float | None = None
    waited: float = 0.0  # seconds before this attempt, since the run could have begun
    program_at: float | None = None  # when its program began
    start_parts: dict[str, float] = field(default_factory=dict)  # seconds until its first step
    start_counts: dict[str, int] = field(default_factory=dict)  # of programs compiled until then
    start_known: dict[str, float] = field(default_factory=dict)  # what was known at that time
    inside: dict[str, float] = field(default_factory=dict)  # its seconds by their kind
    loss: float | str | None = None  # that this attempt reported last
    tokens_per_second: float | None = None  # that this attempt reported last
    mfu: float | None = None
    loss_watch: dict[str, Any] = field(default_factory=dict)  # what is known of all losses
    saved_at: float | None = None  # of the newest checkpoint; 0: there is none, None: not seen
    checkpoints_on: str = ""  # a word of folder_facts.PLACES, or nothing
    asked: str = ""  # why the program was last asked to save
    announced: str = ""  # the maintenance that was last reported
    fenced: str = ""
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], definition: str) -> Memory:
        """Read a status file; of a run of another definition only the past."""
        memory = cls(**fields_of(cls, data))
        same = data.get("definition") == definition
        # Another definition may have another checkpoint folder, which was not seen yet.
        if same:
            return memory
        return replace(
            memory, ended="", workdir="", saved_at=None, checkpoints_on="", loss_watch={}
        )


@dataclass(frozen=True)
class Seen:
    """What a look at the program found."""

    memory: Memory
    alive: bool
    adrift: bool = False


def look(
    memory: Memory,
    record: Mapping[str, Any] | None,
    result: Mapping[str, Any] | None,
    boot_id: str,
    start_time: Callable[[int], int | None],
    age: float,
) -> Seen:
    """Judge a program from what its parent wrote; the files are the user's and not trusted."""
    if result is not None and result.get("attempt") == memory.attempt:
        code, number = _whole(result.get("exit_code")), _signal(result.get("signal"))
        if record is not None and record.get("attempt") == memory.attempt:
            memory = _with_record(memory, record)
        end = _time(result.get("end"))
        memory = replace(memory, exit_code=code, signal=number, end=end)
        if result.get("adrift"):
            memory = replace(memory, cause=ADRIFT)
        if result.get("fenced"):
            memory = replace(memory, cause=FENCED, fenced=one_line(str(result["fenced"]), 300))
        if result.get("not_started"):
            memory = replace(memory, cause=NOT_STARTED)
        return Seen(memory, alive=False)
    if record is not None and record.get("attempt") == memory.attempt:
        memory = _with_record(memory, record)
        started = start_time(memory.parent) if memory.parent is not None else None
        alive = started is not None and started == record.get("parent_started")
        return Seen(memory, alive, adrift=record.get("adrift") is True)
    if boot_id != memory.boot_id:
        return Seen(replace(memory, cause=REBOOTED), alive=False)
    if age < _BIRTH_SECONDS:
        return Seen(memory, alive=True)
    # Its parent never came, as where the machine stood still: no failure of the program.
    return Seen(replace(memory, cause=NOT_STARTED), alive=False)


def _with_record(memory: Memory, record: Mapping[str, Any]) -> Memory:
    pid, parent = _pid(record.get("pid")), _pid(record.get("parent"))
    return replace(memory, pid=pid, parent=parent, program_at=_time(record.get("start")))


def _pid(value: Any) -> int | None:
    number = _whole(value)
    return number if number is not None and 0 < number <= MOST_PIDS else None


def _whole(value: Any) -> int | None:
    return value if is_whole(value) and abs(value) < 2**31 else None


def _signal(value: Any) -> int | None:
    number = _whole(value)
    return number if number is not None and 0 < number <= 64 else None


def _time(value: Any) -> float | None:
    return float(value) if is_number(value) and 0 <= value < 1e11 else None


def begun(memory: Memory, order: Order, boot_id: str, now: float, workdir: str = "") -> Memory:
    """Note the start of an attempt."""
    waited = now - memory.since if memory.since and memory.state in (PENDING, RESTARTING) else 0.0
    return replace(
        memory,
        waited=round(max(0.0, waited), 2),
        program_at=None,
        start_parts={},
        start_counts={},
        start_known={},
        inside={},
        attempt=order.attempt,
        program="running",
        run_id=order.run_id,
        boot_id=boot_id,
        pid=None,
        parent=None,
        start=now,
        end=None,
        exit_code=None,
        signal=None,
        cause="",
        ended="",
        workdir=workdir,
        first_step=None,
        first_step_at=None,
        loss=None,
        tokens_per_second=None,
        mfu=None,
        fenced="",
    )


def not_begun(memory: Memory, why: str, now: float) -> Memory:
    """Note that an attempt could not be started at all."""
    return ended(replace(memory, exit_code=127, end=now), NOT_STARTED, now, note=why)


def ended(memory: Memory, cause: str, now: float, note: str = "") -> Memory:
    """Note the end of an attempt."""
    end = memory.end if memory.end is not None else now
    entry = {
        "attempt": memory.attempt,
        "start": memory.start,
        "end": end,
        "exit_code": memory.exit_code,
        "signal": memory.signal,
        "cause": note or cause,
        "first_step": memory.first_step,
        "first_step_at": memory.first_step_at,
        "step": step_of_attempt(memory),
        "start_parts": memory.start_parts,
        "inside": memory.inside,
    }
    history = [*memory.history, entry][-_HISTORY:]
    return replace(memory, program="exited", end=end, cause=cause, history=history)


def reached(memory: Memory, step: int | None, now: float, first: int | None = None) -> Memory:
    """Note how far the program is, and where its attempt began."""
    # Also a step that the attempt before came to is news of this one.
    if step is None or (step == memory.step and memory.first_step is not None):
        return memory
    if memory.first_step is None:
        first = step if first is None else first
        memory = replace(memory, first_step=first, first_step_at=now)
    return replace(memory, step=step, step_at=now)


def with_figures(memory: Memory, figures: Mapping[str, float | None]) -> Memory:
    """Note what a program that has reported a step says of its speed."""
    known = figures if memory.first_step is not None else {}
    return replace(memory, tokens_per_second=known.get("tokens_per_second"), mfu=known.get("mfu"))


def first_stepped(memory: Memory, known: dict[str, float], counts: dict[str, int]) -> Memory:
    """Note of what the time until the first step consisted."""
    if memory.start is None or memory.first_step_at is None:
        return memory
    begun, at = memory.start, memory.first_step_at
    parts = times.start_of(memory.waited, begun, memory.program_at, at, known)
    return replace(memory, start_parts=parts, start_counts=counts, start_known=known)


def spent(memory: Memory, known: dict[str, float], now: float) -> Memory:
    """Note for what the attempt needed its time until now."""
    if memory.start is None:
        return memory
    first, at_first = memory.first_step_at, memory.start_known
    return replace(memory, inside=times.inside(memory.start, first, now, at_first, known))


def in_state(memory: Memory, state: str, now: float) -> Memory:
    """Note the run's state here, and since when it is that."""
    return memory if state == memory.state else replace(memory, state=state, since=now)


def step_of_attempt(memory: Memory) -> int | None:
    """Return how far this attempt came; None when it reported nothing."""
    if memory.step_at is None or memory.start is None or memory.step_at < memory.start:
        return None
    return memory.step


def remember(memory: Memory, order: Order | None, definition: str) -> Memory:
    """Keep how the run ended, for the time when the leader cannot be asked."""
    if order is None or order.definition != definition:
        return memory
    return replace(
        memory,
        ended=order.phase if order.phase in ENDED else "",
        run_id=order.run_id,
    )


def compose(config: Config, memory: Memory, **seen: Any) -> dict[str, Any]:
    """Return the status file's content; `seen` is what else the agent shows, by its names there."""
    return dict(
        vars(memory),  # frozen, and so are its values by custom: no copy of each is needed
        **seen,
        run=config.run,
        loss_trouble=memory.loss_watch.get("trouble"),
        definition=config.definition,
        user=config.user,
        worker=config.worker,
        workers=config.workers,
        log_path=str(config.paths.log),
        checkpoint_dir=config.checkpoint_dir,
        attach=f"tmux attach -t {config.run}",
    )
