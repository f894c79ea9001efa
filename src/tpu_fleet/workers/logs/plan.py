"""Decide what to do next for a worker whose log is followed. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import Piece
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result

from ..ask.on_all import ASK_AGAIN

LONGEST_PAUSE = 10.0
FRUITLESS = 2
"""A worker with this many failed connections no longer delays the end."""


@dataclass
class Worker:
    """What is known of one worker."""

    name: str
    slice: str
    at: tuple[str, int, int] | None = None
    """The last position, as the reader reported it."""
    met: bool = False
    """It has the run, or had it when it was asked last."""
    expected: bool = False
    """Its slice has the run."""
    failures: int = 0
    """Number of failed connections: in a row with --follow, otherwise in total."""
    none: list[str] | None = None
    """The runs of a worker that does not have the requested one."""
    end: str | None = None
    """How the run ended; empty if its log was read to the end without --follow."""
    archived: dict[str, int] = field(default_factory=dict)
    """How far the log of each of its machines was shown from the archive, by their lives."""
    skip: tuple[str, int] | None = None
    """File and place up to which the log on the machine was shown from the archive."""
    error: tuple[str, str] | None = None
    """Why the worker cannot read the log, and the remedy."""
    finished: bool = False
    result: Result | None = None

    def heard(self, piece: Piece, follow: bool = True) -> str:
        """Process a report of the reader; return what to print."""
        if piece.at is not None:
            self.at = piece.at
        if piece.run is not None:
            self.met, self.none = True, None
            # Otherwise a reader that always aborts would be asked forever.
            if follow:
                self.failures = 0
        if piece.none is not None:
            self.none = list(piece.none)
        if piece.end is not None:
            self.end = piece.end
        if piece.error is not None:
            self.error = piece.error, piece.remedy
        return piece.lost

    def unseen(self, piece: Piece, data: bytes) -> bytes:
        """Return what of a piece was not shown from the archive."""
        if self.skip is None or piece.at is None:
            return data
        file, place = self.skip
        name, offset, _sum = piece.at
        if name != file or offset < place:
            return b""  # of a file from before that place
        self.skip = None
        return data[max(0, len(data) - (offset - place)) :] if offset > place else b""

    def order(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the request to the reader: after the first time, from the last position."""
        return {"do": "log", **asked, **({"at": self.at} if self.at else {})}


@dataclass(frozen=True)
class Step:
    """What to do next."""

    what: Literal["done", "again", "give up"]
    pause: float = 0.0
    look: bool = False
    """Whether to look up addresses first."""


def pause_after(failures: int) -> float:
    """Return the seconds to wait before the next try."""
    return min(LONGEST_PAUSE, 0.5 * 2.0 ** max(0, failures - 1))


def next_step(worker: Worker, result: Result, follow: bool) -> Step:
    """Return what to do after a connection ended; worker.failures counts it already."""
    if result.kind is Kind.DONE and worker.end is not None:
        return Step("done")
    if result.kind is Kind.DONE and worker.none is not None:
        # A recreated slice has no runs until it is configured.
        if follow and worker.met:
            return Step("again", LONGEST_PAUSE)
        # A slice that has just taken a submitted run has it soon.
        is_due = follow and worker.expected
        return Step("again", pause_after(worker.failures + 1)) if is_due else Step("done")
    if worker.error or result.kind in (Kind.LOCAL, Kind.TIMEOUT):
        return Step("give up")
    # Accounts and keys appear some time after sshd; a reboot also kills the reader.
    if result.kind in (Kind.AUTH, Kind.DONE) and not worker.met:
        return Step("give up")
    elsewhere = result.kind in ASK_AGAIN
    if not follow:
        return Step("again", 0.0, elsewhere) if worker.failures < FRUITLESS else Step("give up")
    look = elsewhere and (worker.failures >= FRUITLESS or not worker.met)
    return Step("again", pause_after(worker.failures), look)


@dataclass
class Watched:
    """All workers of the request."""

    workers: dict[str, Worker] = field(default_factory=dict)

    def expect(self, slice_name: str) -> list[Worker]:
        """Record that a slice has the run; return its workers that must be asked again."""
        again = []
        for worker in self.workers.values():
            if worker.slice == slice_name and not worker.expected:
                worker.expected = True
                if worker.finished and worker.none is not None:
                    worker.finished = False
                    again.append(worker)
        return again

    def over(self) -> bool:
        """Return whether every relevant worker has reached the end."""
        left = [worker for worker in self.workers.values() if not worker.finished]
        if any(worker.met or worker.expected or worker.failures < FRUITLESS for worker in left):
            return False
        # The others were never reached; they may have the run if no reached worker has it.
        return not left or any(worker.met for worker in self.workers.values())

    def others(self) -> list[str]:
        """Return the runs of the workers that do not have this one."""
        return sorted({name for worker in self.workers.values() for name in worker.none or ()})


def endings(workers: Iterable[Worker]) -> dict[str, list[str]]:
    """Return how the run ended, and on which workers."""
    found: dict[str, list[str]] = {}
    for worker in workers:
        if worker.end:
            found.setdefault(worker.end, []).append(worker.name)
    return found
