"""A closer look at the selected run: its curves from the history, and the last lines of its log."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import shown

from ..history.look import STEP
from ..history.record import history_here
from ..history.store import HistoryError, Point
from ..page.curves import loss_in, speeds

RESTS = 0.7
"""Seconds for which a row must be selected before its run is asked."""
AGAIN = 30.0
"""Seconds between two looks at the run that stays selected."""
PATIENCE = 30.0
LINES = 40
LONGEST = 400
HOURS, POINTS = 24.0, 1500
BLOCKS = "▁▂▃▄▅▆▇█"
Key = tuple[str, str, int]
"""Slice, run, and the worker whose log is read."""


@dataclass(frozen=True)
class Closer:
    """What is known of the selected run beyond its row."""

    key: Key
    loss: tuple[float, ...] = ()
    speed: tuple[float, ...] = ()
    log: tuple[str, ...] = ()
    says: str = ""
    """Why there is no log."""


def spark(values: Sequence[float], width: int) -> str:
    """Draw values as blocks, at most so many; the scale of large ratios is logarithmic."""
    if not values or width < 1:
        return ""
    parts = min(width, len(values))
    taken = [values[(number + 1) * len(values) // parts - 1] for number in range(parts)]
    if min(taken) > 0 and max(taken) / min(taken) > 50:
        taken = [math.log10(value) for value in taken]
    low, span = min(taken), max(taken) - min(taken)
    if not 0 < span < math.inf:
        return BLOCKS[0] * parts
    return "".join(BLOCKS[round((value - low) / span * (len(BLOCKS) - 1))] for value in taken)


def curves_of(key: Key) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return loss and speed of a run in the last day, from the history."""
    name, run, _worker = key
    now = time.time()
    try:
        with contextlib.closing(history_here()) as history:
            told = history.curves(now - HOURS * 3600, now, POINTS, (name, run))
    except HistoryError:
        return (), ()
    found = told.get((name, run), {})
    steps: Sequence[Point] = found.get(STEP, ())
    losses = found.get(loss_in(found), ())
    speed = tuple(point.value for point in speeds(steps, ()))
    return tuple(point.value for point in losses), speed


def log_of(key: Key, begun: Callable[[subprocess.Popen[bytes]], None]) -> tuple[list[str], str]:
    """Return the last lines of a run's log, or why there are none."""
    name, run, worker = key
    words = ("logs", "--tail", str(LINES), "--slice", name, "--worker", str(worker), "--", run)
    child = subprocess.Popen(
        [sys.executable, "-m", "tpu_fleet", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    begun(child)
    try:
        out, err = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return [], f"the log did not come within {PATIENCE:g} s"
    lines = [shown(line, LONGEST) for line in out.decode("utf-8", "replace").splitlines()]
    said = [shown(line, LONGEST) for line in err.decode("utf-8", "replace").splitlines()]
    return lines[-LINES:], "" if lines or not said else said[-1]


class Looker:
    """Looks closer at one run at a time, in a thread."""

    def __init__(
        self,
        curves: Callable[[Key], tuple[tuple[float, ...], tuple[float, ...]]] = curves_of,
        log: Callable[..., tuple[list[str], str]] = log_of,
        rests: float = RESTS,
    ) -> None:
        self.found: Closer | None = None
        self._curves, self._log, self._rests = curves, log, rests
        self._wanted: Key | None = None
        self._changed, self._over = threading.Event(), threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._look, name="closer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and end a command that reads a log."""
        self._over.set()
        self._changed.set()
        if self._child is not None:
            with contextlib.suppress(OSError):
                self._child.kill()

    def want(self, key: Key | None) -> None:
        """Look at another run."""
        if key != self._wanted:
            self._wanted = key
            self._changed.set()

    def _begun(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        if self._over.is_set():
            child.kill()

    def _look(self) -> None:
        while not self._over.is_set():
            key = self._wanted
            self._changed.clear()
            if key is None or self._changed.wait(self._rests):
                if key is None:
                    self._changed.wait()
                continue
            loss, speed = self._curves(key)
            before = self.found if self.found and self.found.key == key else Closer(key)
            self.found = Closer(key, loss, speed, before.log, before.says)
            lines, says = self._log(key, self._begun)
            self._child = None
            self.found = Closer(key, loss, speed, tuple(lines), says)
            self._changed.wait(AGAIN)
