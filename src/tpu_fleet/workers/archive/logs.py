"""A run's log in its archive, as `tpu-fleet logs` shows it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import LOG, Life

from .declared import Archives, Kept

MISSING = "a part of the log is not in the archive"
LONGEST_LINE = 1 << 20


class Shown(NamedTuple):
    """What comes next of a log."""

    data: bytes
    end: int
    """The place in the log after it."""
    lost: str = ""


@dataclass
class ArchivedLog:
    """The log of a run, as its archive has it."""

    run: str
    tail: int | None = None
    since: float | None = None
    chosen: Callable[[Life], bool] = lambda _life: True
    """Which of the machines that the fleet has no more are meant."""
    archives: Archives = field(default_factory=Archives)

    def kept(self) -> Kept | None:
        """Return the archive; None if there is none; raises what `Archives.of` raises."""
        return self.archives.of(self.run)

    def lives(self, host: str | None = None) -> list[Life]:
        """Return the lives of a worker's machines that have a log, the oldest first.

        Without a worker, those of all that are chosen; raises what `Archives.of` raises.
        """
        kept = self.kept()
        found = [one for one in kept.lives if one.parts] if kept else []
        return [one for one in found if (host == one.host if host else self.chosen(one))]

    def read(self, life: Life, begin: int = 0, end: int | None = None) -> Iterator[Shown]:
        """Yield a life's log from a place on; without an end, of a machine that is gone.

        Raises TpuError.
        """
        kept = self.kept()
        if kept is None or (self.since is not None and life.at < self.since):
            return
        shown = _pieces(kept, life, begin, end, self.since)
        if end is None:
            shown = _whole_lines(shown)
        yield from shown if self.tail is None else _last(shown, self.tail)


def _pieces(
    kept: Kept, life: Life, begin: int, end: int | None, since: float | None
) -> Iterator[Shown]:
    for frame, new, lost in kept.archive.frames(life):
        last = frame.at + len(frame.data)
        if frame.stream != LOG or last <= begin or (since is not None and frame.time < since):
            continue
        data = new[max(0, begin - (last - len(new))) :]
        if end is not None and last > end:
            data = data[: max(0, len(data) - (last - end))]
            last = end
        if data:
            yield Shown(data, last, MISSING if lost else "")


def _whole_lines(pieces: Iterable[Shown]) -> Iterator[Shown]:
    """End the last line: what the machine printed after it is lost."""
    last = Shown(b"\n", 0)
    for last in pieces:
        yield last
    if not last.data.endswith(b"\n"):
        yield Shown(b"\n", last.end)


def _last(pieces: Iterable[Shown], count: int) -> Iterator[Shown]:
    """Yield the last lines."""
    lines: deque[bytes] = deque(maxlen=count)
    rest, end = b"", 0
    for piece in pieces:
        *whole, rest = (rest + piece.data).split(b"\n")
        lines.extend(line + b"\n" for line in whole)
        rest, end = rest[-LONGEST_LINE:], piece.end
    if lines:
        yield Shown(b"".join(lines), end)
