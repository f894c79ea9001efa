"""Whether a worker's chips do not initialise, by what its program printed and opened. Pure.

JAX ends all workers of a run when one of them ends: what these print (PollForError, a closed
socket) is no word about their own chips.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from .values import one_line

TIMES = 2
"""Starts that the chips of one worker fail, until its slice may be recreated."""
WINDOW = 86400.0
"""Seconds within which they count together."""
MOST = 5
"""Starts that the same chips fail before such a start counts as a failure of the program."""
_FAILS = re.compile(
    r"open\(/dev/(?:vfio|accel)[^)]*\): .*|Couldn't open iommu group.*|"
    r"(?:Failed to initialize TPU system|TPU initialization failed).*|TPU_RET_CHECK failure.*",
    re.IGNORECASE,
)
# What the program, its environment or another process is the cause of.
_OF_PROGRAM = re.compile(
    r"already in use|slice_builder_worker_addresses|unexpected worker hostname|"
    r"global TPU topology|Invalid --|Could not find SliceBuilder port|permission denied",
    re.IGNORECASE,
)
_LINES = 400


def said(lines: Sequence[str]) -> str:
    """Return the line of a program's output that says that its chips do not initialise."""
    for line in reversed(lines[-_LINES:]):
        found = _FAILS.search(line)
        if found:
            return "" if _OF_PROGRAM.search(line) else one_line(found[0], 200)
    return ""


def shut(opened: Mapping[int, bool | None], worker: int) -> bool:
    """Say whether one worker alone has not opened its chips; None where it is not known."""
    others = [is_open for other, is_open in opened.items() if other != worker]
    return opened.get(worker) is False and bool(others) and all(others)


def counted(
    times: Mapping[str, Sequence[float]], failed: Sequence[int], now: float
) -> dict[str, list[float]]:
    """Add a start to the times at which each worker's chips failed; old ones are left out."""
    found = {
        worker: [at for at in of_worker if 0 <= now - at <= WINDOW][-2 * MOST :]
        for worker, of_worker in times.items()
    }
    for worker in failed:
        found[str(worker)] = [*found.get(str(worker), []), now]
    return {worker: of_worker for worker, of_worker in found.items() if of_worker}
