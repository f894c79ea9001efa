# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that leave the signals which stop a process to its main thread.

Ansible sends SIGINT and SIGTERM to its processes at Ctrl-C. The kernel gives each to any thread
that does not block it, and Python runs handlers in the main thread only, which then waits on
without being woken. All threads of this collection in Ansible's own processes are made here.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

STOPS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def pool(workers: int | None = None) -> ThreadPoolExecutor:
    """Return a pool whose threads take none of the signals that stop a process."""
    return ThreadPoolExecutor(workers, initializer=_block)


def start(target: Callable[..., object], *args: Any) -> threading.Thread:
    """Start a daemon thread that takes none of the signals that stop a process."""
    thread = threading.Thread(target=target, args=args, daemon=True)
    # A thread begins with the mask of the one that starts it, so there is no moment without it.
    before = _block()
    try:
        thread.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return thread


def _block() -> set[Any]:
    return signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
