"""What a worker remembers of its program, and what it shows: one JSON file serves both."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

from . import notify
from .config import Config
from .gang_state import ADRIFT, FENCED, NOT_STARTED, REBOOTED
from .member import Order
from .run_states import ENDED

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
    pid: Optional[int] = None
    parent: Optional[int] = None
    start: Optional[float] = None
    end: Optional[float] = None
    exit_code: Optional[int] = None
    signal: Optional[int] = None
    cause: str = ""
    ended: str = ""
    workdir: str = ""
    state: str = ""
    since: Optional[float] = None  # of the state
    step: Optional[int] = None
    step_at: Optional[float] = None
    first_step: Optional[int] = None  # that this attempt reported: where it went on
    first_step_at: Optional[float] = None
    loss: Union[float, str, None] = None  # that this attempt reported last
    loss_watch: Dict[str, Any] = field(default_factory=dict)  # what is known of all losses
    saved_at: Optional[float] = None  # of the newest checkpoint; 0: there is none, None: not seen
    checkpoints_on: str = ""  # a word of folder_facts.PLACES, or nothing
    asked: str = ""  # why the program was last asked to save
    announced: str = ""  # the maintenance that was last reported
    fenced: str = ""
    history: List[Dict[str, Any]] = field(default_factory=list)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], definition: str) -> Memory:
        """Read a status file; of a run of another definition only the past."""
        names = cls.__dataclass_fields__
        memory = cls(**{key: value for key, value in data.items() if key in names})
        same = data.get("definition") == definition
        # Another definition may have another checkpoint folder, which was not seen yet.
        if same:
            return memory
        changes = {"ended": "", "workdir": "", "saved_at": None, "checkpoints_on": ""}
        return replace(memory, loss_watch={}, **changes)


@dataclass(frozen=True)
class Seen:
    """What a look at the program found."""

    memory: Memory
    alive: bool
    adrift: bool = False


def look(
    memory: Memory,
    record: Optional[Mapping[str, Any]],
    result: Optional[Mapping[str, Any]],
    boot_id: str,
    start_time: Callable[[int], Optional[int]],
    age: float,
) -> Seen:
    """Judge a program from what its parent wrote; the files are the user's and not trusted."""
    if result is not None and result.get("attempt") == memory.attempt:
        code, number = _whole(result.get("exit_code")), _signal(result.get("signal"))
        if record is not None and record.get("attempt") == memory.attempt:
            memory = _with_record(memory, record)
        end = result.get("end")
        end = _time(end)
        memory = replace(memory, exit_code=code, signal=number, end=end)
        if result.get("adrift"):
            memory = replace(memory, cause=ADRIFT)
        if result.get("fenced"):
            memory = replace(
                memory, cause=FENCED, fenced=notify.one_line(str(result["fenced"]), 300)
            )
        return Seen(memory, alive=False)
    if record is not None and record.get("attempt") == memory.attempt:
        memory = _with_record(memory, record)
        started = start_time(memory.parent) if memory.parent is not None else None
        alive = started is not None and started == record.get("parent_started")
        return Seen(memory, alive, adrift=record.get("adrift") is True)
    if boot_id != memory.boot_id:
        return Seen(replace(memory, cause=REBOOTED), alive=False)
    return Seen(memory, alive=age < _BIRTH_SECONDS)


def _with_record(memory: Memory, record: Mapping[str, Any]) -> Memory:
    return replace(memory, pid=_pid(record.get("pid")), parent=_pid(record.get("parent")))


def _pid(value: Any) -> Optional[int]:
    number = _whole(value)
    return number if number is not None and 0 < number <= MOST_PIDS else None


def _whole(value: Any) -> Optional[int]:
    good = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**31
    return value if good else None


def _signal(value: Any) -> Optional[int]:
    number = _whole(value)
    return number if number is not None and 0 < number <= 64 else None


def _time(value: Any) -> Optional[float]:
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e11
    return float(value) if good else None


def begun(memory: Memory, order: Order, boot_id: str, now: float, workdir: str = "") -> Memory:
    """Note the start of an attempt."""
    return replace(
        memory,
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
        "step": step_of_attempt(memory),
    }
    history = [*memory.history, entry][-_HISTORY:]
    return replace(memory, program="exited", end=end, cause=cause, history=history)


def reached(memory: Memory, step: Optional[int], now: float, first: Optional[int] = None) -> Memory:
    """Note how far the program is, and where its attempt began."""
    # Also a step that the attempt before came to is news of this one.
    if step is None or (step == memory.step and memory.first_step is not None):
        return memory
    if memory.first_step is None:
        first = step if first is None else first
        memory = replace(memory, first_step=first, first_step_at=now)
    return replace(memory, step=step, step_at=now)


def in_state(memory: Memory, state: str, now: float) -> Memory:
    """Note the run's state here, and since when it is that."""
    return memory if state == memory.state else replace(memory, state=state, since=now)


def step_of_attempt(memory: Memory) -> Optional[int]:
    """Return how far this attempt came; None when it reported nothing."""
    if memory.step_at is None or memory.start is None or memory.step_at < memory.start:
        return None
    return memory.step


def remember(memory: Memory, order: Optional[Order], definition: str) -> Memory:
    """Keep how the run ended, for the time when the leader cannot be asked."""
    if order is None or order.definition != definition:
        return memory
    return replace(
        memory,
        ended=order.phase if order.phase in ENDED else "",
        run_id=order.run_id,
    )


def compose(
    config: Config,
    memory: Memory,
    *,
    reason: str,
    problems: List[str],
    dropped: int,
    peers: Optional[List[Dict[str, Any]]],
    queue: Optional[Dict[str, Any]] = None,
) -> Dict[str, Any]:
    """Return the status file's content."""
    shown = dict(
        asdict(memory),
        run=config.run,
        reason=reason,
        queue=queue,
        loss_trouble=memory.loss_watch.get("trouble"),
        definition=config.definition,
        user=config.user,
        worker=config.worker,
        workers=config.workers,
        log_path=str(config.paths.log),
        log_dropped_bytes=dropped,
        checkpoint_dir=config.checkpoint_dir,
        attach=f"tmux attach -t {config.run}",
        problems=problems,
        agent_pid=os.getpid(),
    )
    if peers is not None:
        shown["peers"] = peers
    return shown
