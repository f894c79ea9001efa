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
from .install import CannotInstall, Installed
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
        self._about: tuple[str, int] = ("", 0)
        self._not_before = 0.0

    @property
    def is_busy(self) -> bool:
        """Return whether a job is being done."""
        return self._thread is not None and self._thread.is_alive()

    def do(self, todo: str, order: Order, run: str) -> None:
        """Begin a job, unless one is being done, or one has just failed. `run` is what is here."""
        if (order.run, order.claim) != self._about:
            self._about, self.problem, self.final, self._not_before = (
                (order.run, order.claim),
                "",
                False,
                0.0,
            )
        jobs: dict[str, Callable[[], None]] = {
            INSTALL: lambda: self._install(order),
            START: lambda: self._installed.start(run),
            END: lambda: self._installed.stop(run),
            REMOVE: lambda: self._remove(run),
        }
        if self.is_busy or self.final or time.monotonic() < self._not_before:
            return
        self._thread = threading.Thread(target=self._try, args=(jobs[todo],), daemon=True)
        self._thread.start()

    def _try(self, job: Callable[[], None]) -> None:
        try:
            job()
            self.problem, self._not_before = "", time.monotonic() + _BETWEEN
        except CannotInstall as error:
            self._fail(str(error), error.final)
        except (CannotDo, NoAnswer, OSError) as error:
            self._fail(str(error), False)
        except Exception as error:  # whatever it is, it ends only this job
            self._fail(f"unexpected {type(error).__name__}: {error}", False)
        self._wake()

    def _fail(self, why: str, final: bool) -> None:
        self._not_before = time.monotonic() + _PAUSE
        self.problem, self.final = one_line(why), final

    def _install(self, order: Order) -> None:
        self._installed.install(order, Queue(self._bucket))

    def _remove(self, run: str) -> None:
        while not self._installed.remove(run):
            time.sleep(_ENDS)
