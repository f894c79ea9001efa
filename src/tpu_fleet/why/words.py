"""The words of findings: who, what it does, what the others do, since when. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long
from ansible_collections.tpu.fleet.plugins.module_utils._host.worker_ports import named

from . import frames
from .case import Case, Worker
from .frames import Stand

VERBS = {
    frames.DATA: "waits for data in",
    frames.NETWORK: "waits for the network in",
    frames.FILES: "waits for a disk or a share in",
    frames.CHILD: "waits for its child process in",
    frames.LOCK: "waits in",
    frames.SLEEP: "sleeps in",
    frames.PERSON: "waits for a person at its terminal in",
    frames.COMPUTE: "computes in",
    frames.COMPILE: "compiles in",
    frames.RESTORE: "restores a checkpoint in",
    frames.SAVE: "saves a checkpoint in",
    frames.CHIPS: "initialises its chips in",
    frames.COLLECTIVE: "waits for the others in",
    frames.DEVICE: "waits for its chips in",
    frames.CONNECT: "waits for the other workers in",
    frames.UNKNOWN: "stands in",
    frames.IDLE: "stands in",
}


def workers_of(those: Iterable[Worker]) -> str:
    """Name workers: `worker 3`, `workers 0-5 and 7`."""
    return named([one.number for one in those])


def listed(parts: Sequence[str]) -> str:
    """Join words: `0`, `0 and 1`, `0, 1 and 4`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if parts[1:] else parts)


def all_of(count: int) -> str:
    """Name all workers: `all 4 workers`, `both workers`."""
    return "both workers" if count == 2 else f"all {count} workers"


def verb(those: Sequence[Worker], one: str, many: str) -> str:
    """Return the form of a verb for one worker, or for many."""
    return one if len(those) == 1 else many


def plural(doing: str) -> str:
    """Return what several do, of what one does: `wait for data in`."""
    first, _blank, rest = doing.partition(" ")
    rest = re.sub(r"\bits (chips|terminal|child process)\b", r"their \1", rest)
    stem = {"initialises": "initialise", "compiles": "compile", "restores": "restore"}
    return f"{stem.get(first, first.removesuffix('s'))} {rest}"


def doing(stand: Stand, number: int = 1) -> str:
    """Say what a program does: ``waits for data in `queue.get` (data.py:88)``."""
    said = VERBS[stand.kind]
    if stand.kind == frames.DATA and stand.call.endswith(".put"):
        said = "waits in"
    at = stand.at
    if not at:
        said = said.removesuffix(" in") if stand.kind != frames.UNKNOWN else "shows no Python line"
        said = "waits for a lock" if said == "waits" else said
    said = f"{said} {at}".rstrip()
    if stand.on and stand.kind in (frames.FILES, frames.NETWORK):
        said += f" on {stand.on}"
    if stand.within:
        said += {"restore": ", of a restore", "save": ", of a save"}.get(stand.within, "")
    return said if number == 1 else plural(said)


def age(seconds: float | None) -> str:
    """Return ` for 14 min`, or nothing if that is not known."""
    return "" if seconds is None or seconds < 1 else f" for {long(seconds)}"


def rest_of(case: Case, waiting: Sequence[Worker], besides: int = 1) -> str:
    """Name those who wait: `the other 15`, `worker 0`, `12 others`."""
    if len(waiting) == 1:
        return workers_of(waiting)
    all_others = len(case.workers) - len(waiting) == besides
    return f"the other {len(waiting)}" if all_others else f"{len(waiting)} others"


def others_wait(case: Case, waiting: Sequence[Worker], besides: int = 1) -> str:
    """Return the clause of those who wait: ``; the other 15 wait for it in an all-reduce``."""
    if not waiting:
        return ""
    where = where_they_wait([one.stand for one in waiting])
    waits = verb(waiting, "waits", "wait")
    whom = "it" if besides == 1 else "them"
    return f"; {rest_of(case, waiting, besides)} {waits} for {whom}{where}"


def where_they_wait(stands: Sequence[Stand]) -> str:
    """Return where most of them wait: `` in an all-reduce (train.py:51)``."""
    told = Counter(_where(one) for one in stands if one.waits_for_others or one.at)
    return f" in {told.most_common(1)[0][0]}" if told else ""


def _where(stand: Stand) -> str:
    if not stand.waits_for_others:
        return stand.at
    return stand.collective + (f" ({stand.place})" if stand.place else "")


def size(number: float) -> str:
    """Format bytes."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.0f} {unit}" if number >= 10 or unit == "B" else f"{number:.1f} {unit}"
        number /= 1000
    return f"{number:.1f} TB"
