"""One job at a time beside the loop: to install a run takes as long as its code is large."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from run_agent.decide.values import one_line

from ..decide.member import END, INSTALL, REMOVE, START
from ..decide.messages import Order
from ..decide.settings import Settings
from ..shared._queue.bucket import NoAnswer
from ..shared._queue.store import Queue
from .bucket import MachinesBucket
from .code import CannotInstall
from .install import Installed
from .units import CannotDo

_PAUSE = 5.0  # after what could not be done
_BETWEEN = 0.5  # until systemd shows what became of the job before
_ENDS = 0.1  # between two looks whether an agent has ended


class Hands:
    """Does what was decided for this worker."""

    def __init__(self, settings: Settings, installed: Installed, wake: Callable[[], None]) -> None:
        """`wake` is called when a job has ended."""
        self.problem = ""
        self.final = False
        self._wake = wake
        self._installed = installed
        # A connection of its own: the loop asks the bucket at the same time.
        self._bucket = MachinesBucket(settings)
        self._thread: threading.Thread | None = None
        self.about: tuple[str, int] = ("", 0)
        """The run, and its claim, that the problem is about."""
        self._not_before = 0.0

    @property
    def is_busy(self) -> bool:
        """Return whether a job is being done."""
        return self._thread is not None and self._thread.is_alive()

    def do(self, todo: str, order: Order, run: str) -> None:
        """Begin a job, unless one is being done, or one has just failed. `run` is what is here."""
        about = (order.run, order.claim)
        if about != self.about:
            self.about, self.problem, self.final, self._not_before = about, "", False, 0.0
        jobs: dict[str, Callable[[], None]] = {
            INSTALL: lambda: self._install(order),
            START: lambda: self._installed.start(run),
            END: lambda: self._installed.stop(run),
            REMOVE: lambda: self._remove(run),
        }
        if self.is_busy or self.final or time.monotonic() < self._not_before:
            return
        self._thread = threading.Thread(target=self._try, args=(jobs[todo], about), daemon=True)
        self._thread.start()

    def _try(self, job: Callable[[], None], about: tuple[str, int]) -> None:
        pause, why, final = _PAUSE, "", False
        try:
            job()
            pause = _BETWEEN
        except CannotInstall as error:
            why, final = str(error), error.final
        except (CannotDo, NoAnswer, OSError) as error:
            why = str(error)
        except Exception as error:  # whatever it is, it ends only this job
            why = f"unexpected {type(error).__name__}: {error}"
        if about == self.about:  # else another run is ordered by now
            self.problem, self.final = one_line(why), final
            self._not_before = time.monotonic() + pause
        self._wake()

    def _install(self, order: Order) -> None:
        self._installed.install(order, Queue(self._bucket))

    def _remove(self, run: str) -> None:
        while not self._installed.remove(run):
            time.sleep(_ENDS)
