# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work in Ansible's process for a task that ends properly when Ansible ends.

Ansible passes Ctrl-C and SIGTERM to the processes of its tasks, and their handler ends them at
once. A request that is on its way would then be sent, and its answer not be noted.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...module_utils._core import threads

LOOK_EVERY = 1.0


@contextmanager
def stoppable() -> Iterator[None]:
    """Raise SystemExit at the first signal that stops a process, and at the end of Ansible itself.

    Later signals do not cut short what the work does at its end. Then the signal is sent again, to
    the handler that was there before.
    """
    parent, ended, got = os.getppid(), threading.Event(), list[int]()

    def stop(number: int, _frame: Any) -> None:
        got.append(number)
        if len(got) == 1 and not ended.is_set():
            raise SystemExit(128 + number)

    def watch() -> None:
        # The tasks of a killed Ansible get no signal, and would go on for hours.
        while not ended.wait(LOOK_EVERY):
            if os.getppid() != parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    before = {number: signal.signal(number, stop) for number in sorted(threads.STOPS)}
    try:
        watcher = threads.start(watch)
        try:
            yield
        finally:
            ended.set()
            watcher.join()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if got:
            os.kill(os.getpid(), got[0])
