"""Limits of a reader, which may be root and reads files that belong to users.

The kernel enforces CPU time, memory and life time, so they hold during one long call too. A reader
also ends when its caller closes the connection.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import threading

CPU = 30
"""Seconds of CPU time until the next sign of life."""
LIFE = 90
"""Seconds of life until the next sign of life; callers wait 30 to 60 for an answer."""
MEMORY = 1 << 30


def grant() -> None:
    """Give the reader its time; at each sign of life of its caller, once more."""
    spent = resource.getrusage(resource.RUSAGE_SELF)
    lower(resource.RLIMIT_CPU, int(spent.ru_utime + spent.ru_stime) + CPU)
    signal.alarm(LIFE)


def lower(what: int, soft: int) -> None:
    """Set a soft limit, below the hard one."""
    hard = resource.getrlimit(what)[1]
    resource.setrlimit(what, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def begin() -> None:
    """Limit this process from now on."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    lower(resource.RLIMIT_CORE, 0)
    lower(resource.RLIMIT_DATA, MEMORY)
    grant()
    threading.Thread(target=end_with_caller, daemon=True).start()


def end_with_caller() -> None:
    """End this process when no process reads its answer any more."""
    poll = select.poll()
    poll.register(1, 0)  # errors and hang-ups are always reported
    poll.poll()
    os._exit(1)
