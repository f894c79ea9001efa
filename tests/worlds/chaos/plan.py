"""Which fault comes when, and where: a function of a seed and a number of minutes alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

SOLO, QUAD, BUCKET, CONTROLLER = "solo", "quad", "bucket", "controller"
WORKERS: Mapping[str, int] = {SOLO: 1, QUAD: 4}
QUIET_AT_THE_END = 20.0
"""No fault comes later: its traces are wanted."""


@dataclass(frozen=True)
class Kind:
    """What can be done in one place."""

    name: str
    rest: float
    """Seconds until the next fault may come there: enough for most of the harm."""
    weight: int = 2
    """How often it is chosen, after all of them came once."""
    least: float = 0.0
    """Minutes that a plan must have, or it is left out."""


LANES: Mapping[str, tuple[Kind, ...]] = {
    SOLO: (
        Kind("program", 35, 3),
        Kind("agent", 25),
        Kind("tmux", 40),
        Kind("sshd", 25, 1),
        Kind("reboot", 50),
        Kind("maintenance", 55, 1),
        Kind("disk", 95, 1),
        Kind("preempt", 200, 1, 10),
    ),
    QUAD: (
        Kind("program", 50, 3),
        Kind("agent", 25),
        Kind("tmux", 55),
        Kind("sshd", 20, 1),
        Kind("reboot", 65, 1),
        Kind("reboot-some", 70, 1),
        Kind("reboot-all", 80, 1),
        Kind("maintenance", 70, 1),
        Kind("partition", 85, 1),
        Kind("slow-link", 45, 1),
        Kind("clock", 40, 1),
        Kind("preempt", 330, 1, 15),
    ),
    # In the bucket are the checkpoints of the four workers.
    BUCKET: (
        Kind("busy", 45),
        Kind("away", 45),
        Kind("slow", 45),
        Kind("lost-answer", 45),
        Kind("one-a-second", 45),
    ),
    # A playbook of the watcher has to come to its end some time.
    CONTROLLER: (Kind("api", 150), Kind("watch", 150)),
}
"""The disk of the slice that has one is filled: there is no other but this computer's."""

# Longer than it takes to be noticed: a worker is lost, a disk is looked at, the API is asked again.
LAST = {"partition": 45.0, "disk": 60.0, "api": 45.0, "watch": 10.0}


@dataclass(frozen=True)
class Fault:
    """One fault; the workers are those that it is done to."""

    at: float
    lane: str
    kind: str
    workers: tuple[int, ...] = ()
    seconds: float = 0.0
    """How long it lasts, where it does not end by itself."""

    def __str__(self) -> str:
        where = f" w{','.join(map(str, self.workers))}" if self.workers else ""
        return f"{self.at:5.0f} s  {self.kind} {self.lane}{where}"


def hurt_by(fault: Fault) -> tuple[str, ...]:
    """Return the runs that may lose steps by a fault."""
    if fault.lane == BUCKET or fault.kind == "api":
        return (QUAD,)
    return (fault.lane,) if fault.lane in WORKERS else ()


def make(seed: int, minutes: float) -> list[Fault]:
    """Return the faults of so many minutes in the order of their time."""
    found = [fault for lane in LANES for fault in _lane(lane, seed, minutes)]
    return sorted(found, key=lambda fault: (fault.at, fault.lane))


def _lane(lane: str, seed: int, minutes: float) -> list[Fault]:
    # Text is hashed the same in every process, which a tuple is not.
    dice = random.Random(f"{seed} {lane}")  # noqa: S311 - repeatable, not secret
    kinds = [kind for kind in LANES[lane] if minutes >= kind.least]
    # All of them once, in any order; then whatever comes.
    first = dice.sample(kinds, len(kinds))
    at, faults = dice.uniform(5, 15), []
    while at < minutes * 60 - QUIET_AT_THE_END:
        kind = first.pop(0) if first else dice.choices(kinds, [k.weight for k in kinds])[0]
        seconds = LAST.get(kind.name, 25.0)
        faults.append(Fault(round(at, 1), lane, kind.name, _workers(dice, lane, kind), seconds))
        at += kind.rest + dice.uniform(0, 8)
    return faults


def _workers(dice: random.Random, lane: str, kind: Kind) -> tuple[int, ...]:
    count = WORKERS.get(lane, 0)
    if not count:
        return ()
    if kind.name in ("preempt", "reboot-all"):
        return tuple(range(count))
    if kind.name == "reboot-some":
        return tuple(sorted(dice.sample(range(count), 2)))
    return (dice.randrange(count),)
