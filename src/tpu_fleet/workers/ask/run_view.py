"""One run of a slice as its workers describe it: the figures that every command shows. Pure.

`status`, `runs`, `top`, the page, the history and the watcher read a RunView and nothing else of a
run, so that they show the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import RunStatus
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    ENDED_OR_STOPPED,
    LAST_LINES,
    NOT_BACK,
    REMOVED,
    RUNNING,
    SUCCEEDED,
    is_trouble,
    loss_said,
    loss_state,
    printed,
    quiet_for,
    rank_of,
    why_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.names import natural_key

FINE = (RUNNING, SUCCEEDED)
SHORT = {NOT_BACK: "rebooted"}
"""States whose name is too long for a table."""
HUNG = "hung: "
"""In the agents' reason for the end of an attempt that hung."""
NO_STEP = "no step"
"""The word that stands in place of `running` for a run that makes no step any more."""


@dataclass(frozen=True)
class Run:
    """A run on one worker."""

    host: str
    slice: str
    worker: int
    state: str
    """The state since the present boot of the worker."""
    status: RunStatus
    """What its agent wrote."""
    now: float
    """The time at the worker when it answered, in seconds since 1970."""

    @property
    def run(self) -> str:
        """The name of the run."""
        return self.status.run

    @property
    def since(self) -> float | None:
        """When it came into this state, by the worker's clock."""
        status = self.status
        return status.since or (status.end if self.state != RUNNING else status.start)

    @property
    def age(self) -> float | None:
        """Seconds in this state."""
        return None if self.since is None else max(0.0, self.now - self.since)

    @property
    def saved_age(self) -> float | None:
        """Seconds since the newest checkpoint was written; None if none is known."""
        saved = self.status.saved_at
        return max(0.0, self.now - saved) if saved else None

    @property
    def speed(self) -> float | None:
        """The steps a second since the first step of this attempt."""
        one = self.status
        first, begun, step, at = one.first_step, one.first_step_at, one.step, one.step_at
        if first is None or begun is None or step is None or at is None:
            return None
        return (step - first) / (at - begun) if at > begun and step > first else None

    @property
    def quiet(self) -> float | None:
        """The seconds for which it has made no step, if that is longer than is usual for it."""
        one = self.status
        first = last = None
        if one.first_step is not None and one.first_step_at is not None:
            first = (one.first_step, one.first_step_at)
        if one.step is not None and one.step_at is not None:
            last = (one.step, one.step_at)
        return quiet_for(self.state, first, last, self.now)

    @property
    def waits_for(self) -> str:
        """The run that has the TPU before it, and whose that is."""
        behind, user = self.status.behind, self.status.behind_user
        return f"{behind} of {user}" if behind and user else behind

    @property
    def own_fault(self) -> bool:
        """Whether the program itself ended in error here."""
        return self.status.exit_code not in (0, None) or bool(self.status.signal)

    @property
    def weight(self) -> tuple[Any, ...]:
        """The sort key that puts the most informative worker of a run first."""
        one = self.status
        rank = rank_of(self.state, one.loss_trouble is not None or isinstance(one.loss, str))
        return (
            -one.attempt,
            rank,
            not self.own_fault,
            not one.ending.reason,
            one.worker,
            self.host,
        )


def state_of_run(status: RunStatus, boot_id: str) -> str:
    """Return the state of a run on a worker in its present boot."""
    # After a reboot, the file has the old state until the agent is up again.
    return NOT_BACK if status.state == RUNNING and status.boot_id != boot_id else status.state


@dataclass(frozen=True)
class RunView:
    """A run of a slice."""

    run: str
    slice: str
    user: str = ""
    state: str = ""
    """The worst of its workers in the newest attempt; REMOVED if it is no longer declared."""
    alike: int = 1
    """Workers in that state."""
    attempt: int = 0
    step: int | None = None
    """The step of the slowest worker, which holds up the others."""
    furthest: int | None = None
    speed: float | None = None
    """Steps a second of the slowest worker, since the first step of this attempt."""
    quiet: float | None = None
    """Seconds for which no worker has made a step, if that is longer than is usual for the run."""
    loss: float | str | None = None
    """The loss that a worker reported: a number, or nan, inf, -inf."""
    loss_trouble: Mapping[str, Any] | None = None
    """Since when the loss is no number or has exploded; see `run_states.loss_said`."""
    tokens_per_second: float | None = None
    """Of the whole run, as its program wrote it down."""
    mfu: float | None = None
    """The share of the chips' arithmetic that its model uses, from 0 to 1."""
    duty_cycle: float | None = None
    """The share of the time in which the chips work, in percent: the mean of all workers' chips."""
    memory_used: int | None = None
    memory: int | None = None
    """Bytes of the chips' memory (HBM), of all workers together; None without a chip."""
    checkpoints_on: str = ""
    """On what its checkpoints are; empty if that is not known."""
    saved_at: float | None = None
    """When the newest checkpoint was written, by its worker's clock; 0: none, None: unknown."""
    saved_age: float | None = None
    """Seconds since then at this look."""
    since: float | None = None
    age: float | None = None
    """Seconds in this state at this look."""
    waits_for: str = ""
    start_parts: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Seconds until the first step of this attempt, by `run_times.PARTS`, of the slowest worker."""
    start_counts: Mapping[str, int] = field(default_factory=dict, hash=False)
    """Programs compiled there until then, by `run_times.COUNTS`."""
    inside: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Seconds of this attempt by `run_times.KINDS`, of the worker that speaks for the run."""
    reasons: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    exit_code: int | None = None
    signal: int | None = None
    failed_with: str = ""
    """The line of the program's output that says why it failed."""
    tail: tuple[str, ...] = ()
    """The last lines of a program that failed."""
    log: str = ""
    host: str = ""
    """The worker that speaks for the run."""
    hosts: tuple[str, ...] = ()
    run_id: str = ""
    submitted: bool = False
    """Whether it came out of the queue."""

    @property
    def name(self) -> str:
        """Its slice and its name."""
        return f"{self.slice}/{self.run}"

    @property
    def memory_share(self) -> float | None:
        """The share of the chips' memory that is in use, from 0 to 1."""
        return self.memory_used / self.memory if self.memory and self.memory_used else None

    @property
    def is_troubled(self) -> bool:
        """Whether a person should look at it."""
        return is_trouble(self.state, self._is_bad)

    @property
    def has_hung(self) -> bool:
        """Whether its agents have ended the attempt because it hung, and no other runs since."""
        return self.state != RUNNING and any(HUNG in one for one in self.reasons)

    @property
    def rank(self) -> int:
        """Its place in the order of all runs; the most urgent is first."""
        return rank_of(self.state, self._is_bad)

    @property
    def _is_bad(self) -> bool:
        """Whether it runs, and does no good."""
        return self.loss_trouble is not None or self.quiet is not None

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key of several runs: the most urgent first, of these by name."""
        return (self.rank, self.run, natural_key(self.slice))

    @property
    def state_word(self) -> str:
        """The state for a table."""
        if self.state == RUNNING and self.loss_trouble is not None:
            return loss_state(str(self.loss_trouble.get("what")))
        if self.quiet is not None:
            return NO_STEP
        return SHORT.get(self.state, self.state) or "unknown"

    @property
    def word(self) -> str:
        """The state for a table, with a number if not all workers are in it."""
        whole = max(len(self.hosts), 1)
        return self.state_word + ("" if self.alike >= whole else f" {self.alike}/{whole}")

    @property
    def why(self) -> str:
        """Why it is in this state, in one line."""
        loss = loss_said(self.loss_trouble) if self.loss_trouble is not None else ""
        quiet = ""
        if self.quiet is not None:
            quiet = f"no step for {long(self.quiet)}: tpu-fleet why {self.run}"
        where = f"where: tpu-fleet why {self.run} --hang" if self.has_hung else ""
        waits = f"waits for {self.waits_for}" if self.waits_for else ""
        told = (quiet, loss, self.failed_with, waits, *self.reasons, where, *self.problems)
        return "; ".join(dict.fromkeys(text for text in told if text))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data, with few of the last lines."""
        return {**asdict(self), "tail": list(self.tail[-LAST_LINES:])}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> RunView:
        """Read what `to_dict` wrote; an older version may have written less."""
        names = {one.name for one in fields(cls)}
        lists = ("reasons", "problems", "tail", "hosts")
        known: dict[str, Any] = {"run": "", "slice": ""}
        known |= {key: value for key, value in told.items() if key in names}
        return cls(**known | {key: tuple(known.get(key) or ()) for key in lists})


def view_of(runs: Sequence[Run]) -> RunView:
    """Put together what the workers of a slice say of one run."""
    by_weight = sorted(runs, key=lambda one: one.weight)
    first = by_weight[0]
    of_attempt = [one for one in by_weight if one.status.attempt == first.status.attempt]
    # Often only one worker saves, or only one sees the folder.
    saved = [one for one in runs if one.status.saved_at is not None]
    newest = max(saved, key=lambda one: one.status.saved_at or 0.0, default=None)
    ages = [one.age for one in of_attempt if one.state == first.state and one.age is not None]
    faults = [one.status for one in of_attempt if one.own_fault and one.state not in FINE]
    fault = faults[0] if faults else first.status
    told = [one.status.ending for one in by_weight if one.status.ending.tail]
    lines = next((one.tail for one in told if one.reason), told[0].tail if told else ())
    steps = [one.status.step for one in of_attempt if one.status.step is not None]
    in_trouble = [one.status for one in of_attempt if one.status.loss_trouble is not None]
    by_worker = sorted(of_attempt, key=lambda one: one.worker)
    in_order = in_trouble or [one.status for one in by_worker]
    loss = next((one.loss for one in in_order if one.loss is not None), None)
    trouble = in_trouble[0].loss_trouble if in_trouble else None
    slowest = max((one.status for one in of_attempt), key=lambda o: sum(o.start_parts.values()))
    removed = not first.status.declared and first.state in ENDED_OR_STOPPED
    reasons = [one.status.ending.reason or one.status.reason for one in by_weight]
    return RunView(
        run=first.run,
        slice=first.slice,
        user=first.status.user,
        state=REMOVED if removed else first.state,
        alike=sum(one.state == first.state for one in runs),
        attempt=first.status.attempt,
        step=min(steps, default=None),
        furthest=max(steps, default=None),
        speed=min((one.speed for one in of_attempt if one.speed is not None), default=None),
        quiet=_quiet_of(of_attempt),
        loss=loss,
        # An older agent does not write since when.
        loss_trouble=trouble or ({"what": loss} if isinstance(loss, str) else None),
        tokens_per_second=_first_of(one.status.tokens_per_second for one in by_worker),
        mfu=_first_of(one.status.mfu for one in by_worker),
        **use_of(of_attempt),
        saved_at=newest.status.saved_at if newest else None,
        saved_age=newest.saved_age if newest else None,
        since=first.since,
        age=max(ages, default=None),
        waits_for=first.waits_for,
        start_parts=slowest.start_parts,
        start_counts=slowest.start_counts,
        inside=next((one.status.inside for one in of_attempt if one.status.inside), {}),
        reasons=("it is no longer declared",) if removed else _unique(reasons),
        checkpoints_on=first.status.checkpoints_on,
        problems=_unique(problem for one in by_weight for problem in one.status.problems),
        exit_code=fault.exit_code,
        signal=fault.signal,
        failed_with=why_of(lines, fault.signal) if faults else "",
        tail=tuple(printed(lines)),
        log=first.status.log_path,
        host=first.host,
        hosts=tuple(one.host for one in sorted(runs, key=lambda o: (o.worker, o.host))),
        run_id=first.status.run_id,
        submitted=first.status.submitted,
    )


def _quiet_of(runs: Sequence[Run]) -> float | None:
    """Return for how long no worker has made a step; None if one that reports steps makes some."""
    reporting = [one.quiet for one in runs if one.speed is not None]
    known = [quiet for quiet in reporting if quiet is not None]
    return min(known) if known and len(known) == len(reporting) else None


def _first_of(values: Iterable[float | None]) -> float | None:
    return next((value for value in values if value is not None), None)


def use_of(runs: Iterable[Run]) -> dict[str, Any]:
    """Return the use of the chips of several workers together."""
    told = [run.status.chips for run in runs if run.status.chips is not None]
    timed = [(use.duty_cycle, use.count) for use in told if use.duty_cycle is not None]
    sizes = [(use.memory_used, use.memory) for use in told if use.memory]
    chips = sum(count for _duty, count in timed)
    return {
        "duty_cycle": sum(duty * count for duty, count in timed) / chips if chips else None,
        "memory_used": sum(used or 0 for used, _whole in sizes) if sizes else None,
        "memory": sum(whole or 0 for _used, whole in sizes) if sizes else None,
    }


def views_of(runs: Iterable[Run]) -> list[RunView]:
    """Return each run of each slice once; the most urgent is first."""
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run.slice, run.run), []).append(run)
    return sorted(map(view_of, found.values()), key=lambda view: view.order)


def _unique(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(text for text in texts if text))
