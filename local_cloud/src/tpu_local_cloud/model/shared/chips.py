"""What the chips of a machine do while a program holds them, as its monitoring port reports it.

All cores of a slice launch a program each second of the cloud's time. A fault of one core keeps
them all in the program of the moment in which it began, as a collective does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256

from .faults import Fault, Faults

GIB = 1 << 30
BUSY = 96.0
"""Duty cycle in percent of a core that works; one that waits in a program counts as busy."""
WORKS, WAITS = "fusion.7 (train_step)", "all-reduce.3 (train_step)"
_FIRST_RUN = 10_000
FAULTS = ("core_stuck", "core_lags", "core_error")


@dataclass(frozen=True)
class Program:
    """One launch of a program."""

    launch_id: int

    @property
    def run_id(self) -> int:
        """Return the number that libtpu gives this execution."""
        return _FIRST_RUN + self.launch_id

    @property
    def fingerprint(self) -> bytes:
        """Return that of the program, which is the same in each launch."""
        return sha256(b"train_step").digest()[:16]


@dataclass(frozen=True)
class Core:
    """What one core does."""

    number: int
    chip: int
    launched: Program
    """What it launched last."""
    hlo: str = ""
    """Where it is in that program; empty: it has ended it."""
    queued: tuple[Program, ...] = ()
    error: str = ""
    idle: float = 0.0
    """Seconds since it did something."""


@dataclass(frozen=True)
class Machine:
    """What identifies a worker, and what of its chips a program holds."""

    node: str
    zone: str
    worker: int
    workers: int
    created: float
    chips: tuple[int, ...]
    hbm_gib: int
    devices_per_chip: int = 1


@dataclass(frozen=True)
class Report:
    """All that the port reports."""

    cores: tuple[Core, ...]
    duty_cycle: Mapping[int, float] = field(default_factory=dict)
    """Percent, by chip."""
    memory_used: Mapping[int, int] = field(default_factory=dict)
    memory: Mapping[int, int] = field(default_factory=dict)
    """Bytes, by core."""


def faults_of(faults: Faults, now: float, machine: Machine) -> tuple[Fault | None, Fault | None]:
    """Return the fault that holds up the slice, and the same if it is this worker's."""
    own: Fault | None = None
    found = []
    for worker in range(machine.workers):
        for kind in FAULTS:
            where = {"node": machine.node, "zone": machine.zone, "worker": worker}
            fault = faults.active(kind, now, **where)
            found += [fault] if fault else []
            own = fault if fault and worker == machine.worker and own is None else own
    return (min(found, key=lambda one: one.since) if found else None), own


def report(machine: Machine, now: float, slice_fault: Fault | None, own: Fault | None) -> Report:
    """Return what a worker's port reports now."""
    at = slice_fault.since if slice_fault else now
    program = Program(max(1, int(at - machine.created) + 1))
    per_chip = machine.devices_per_chip
    numbers = [chip * per_chip + index for chip in machine.chips for index in range(per_chip)]
    cores = tuple(_core(number, machine, program, now, slice_fault, own) for number in numbers)
    size = machine.hbm_gib * GIB // per_chip
    idle = {core.chip for core in cores if not core.hlo}
    return Report(
        cores,
        {chip: 0.0 if chip in idle else BUSY for chip in machine.chips},
        dict.fromkeys(numbers, size // 8 * 5),
        dict.fromkeys(numbers, size),
    )


def _core(
    number: int,
    machine: Machine,
    program: Program,
    now: float,
    slice_fault: Fault | None,
    own: Fault | None,
) -> Core:
    chip, after = number // machine.devices_per_chip, (Program(program.launch_id + 1),)
    if slice_fault is None:
        return Core(number, chip, program, WORKS, after)
    first = machine.chips[0] * machine.devices_per_chip
    concerned = own is not None and number == first + int(own.options.get("core", 0))
    if own is not None and own.kind == "core_lags":
        before = Program(max(0, program.launch_id - 1))
        return Core(number, chip, before, idle=max(0.0, now - slice_fault.since))
    if own is not None and concerned and own.kind == "core_error":
        message = str(own.options.get("message") or "an uncorrectable ECC error in HBM")
        return Core(number, chip, program, WORKS, after, message)
    return Core(number, chip, program, WORKS if concerned else WAITS, after)
