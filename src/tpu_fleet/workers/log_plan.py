"""What to do next about a worker whose log is followed. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Piece
from ansible_collections.tpu.fleet.plugins.plugin_utils.fan_out import Result
from ansible_collections.tpu.fleet.plugins.plugin_utils.ssh_failures import ELSEWHERE, Kind

LONGEST_PAUSE = 10.0
FRUITLESS = 2
"""Whoever was not reached so often holds nobody up who has read everything of the others."""


@dataclass
class Worker:
    """What is known of one worker."""

    name: str
    slice: str
    at: tuple[str, int, int] | None = None
    """What was read last, as the reader tells it."""
    met: bool = False
    """It has the run, or had it when it was asked last."""
    expected: bool = False
    """Its slice has the run."""
    failures: int = 0
    """So many connections came to nothing: in a row where the log is followed, else in all."""
    none: list[str] | None = None
    """The runs that it has, none of which is meant."""
    end: str | None = None
    """How the run ended; empty when its log was read to the end and that was all that was asked."""
    error: tuple[str, str] | None = None
    """What keeps the worker from reading the log, and what mends it."""
    finished: bool = False
    result: Result | None = None

    def heard(self, piece: Piece, follow: bool = True) -> str:
        """Take what the reader says; return what a person should know of it."""
        if piece.at is not None:
            self.at = piece.at
        if piece.run is not None:
            self.met, self.none = True, None
            # A reader that breaks off each time would be asked for ever.
            if follow:
                self.failures = 0
        if piece.none is not None:
            self.none = list(piece.none)
        if piece.end is not None:
            self.end = piece.end
        if piece.error is not None:
            self.error = piece.error, piece.remedy
        return piece.lost

    def order(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Say what the reader is asked for: after the first time, what comes next."""
        return {"do": "log", **asked, **({"at": self.at} if self.at else {})}


@dataclass(frozen=True)
class Step:
    """What to do next."""

    what: Literal["done", "again", "give up"]
    pause: float = 0.0
    look: bool = False
    """Ask the fleet for addresses first."""


def pause_after(failures: int) -> float:
    """Say how many seconds to wait before the next try."""
    return min(LONGEST_PAUSE, 0.5 * 2.0 ** max(0, failures - 1))


def next_step(worker: Worker, result: Result, follow: bool) -> Step:
    """Say what a connection that ended means; worker.failures counts it already."""
    if result.kind is Kind.DONE and worker.end is not None:
        return Step("done")
    if result.kind is Kind.DONE and worker.none is not None:
        # A slice that was made anew has no runs until it is configured.
        known = follow and (worker.met or worker.expected)
        return Step("again", LONGEST_PAUSE) if known else Step("done")
    if worker.error or result.kind in (Kind.LOCAL, Kind.TIMEOUT):
        return Step("give up")
    # Accounts and keys come back some time after sshd; a program that died was killed by a reboot.
    if result.kind in (Kind.AUTH, Kind.DONE) and not worker.met:
        return Step("give up")
    elsewhere = result.kind in ELSEWHERE or result.kind is Kind.UNAVAILABLE
    if not follow:
        return Step("again", 0.0, elsewhere) if worker.failures < FRUITLESS else Step("give up")
    look = elsewhere and (worker.failures >= FRUITLESS or not worker.met)
    return Step("again", pause_after(worker.failures), look)


@dataclass
class Watched:
    """All workers that are asked."""

    workers: dict[str, Worker] = field(default_factory=dict)

    def expect(self, slice_name: str) -> list[Worker]:
        """Note that a slice has the run; return those of it that must be asked again."""
        again = []
        for worker in self.workers.values():
            if worker.slice == slice_name and not worker.expected:
                worker.expected = True
                if worker.finished and worker.none is not None:
                    worker.finished = False
                    again.append(worker)
        return again

    def over(self) -> bool:
        """Tell whether everybody who matters has come to the end."""
        left = [worker for worker in self.workers.values() if not worker.finished]
        if any(worker.met or worker.expected or worker.failures < FRUITLESS for worker in left):
            return False
        # Those who are left were never reached: they may have the run when nobody else has it.
        return not left or any(worker.met for worker in self.workers.values())

    def others(self) -> list[str]:
        """Return the runs that there are on the workers that have not got this one."""
        return sorted({name for worker in self.workers.values() for name in worker.none or ()})


def endings(workers: Iterable[Worker]) -> dict[str, list[str]]:
    """Return how the run ended, and on which workers."""
    found: dict[str, list[str]] = {}
    for worker in workers:
        if worker.end:
            found.setdefault(worker.end, []).append(worker.name)
    return found
