# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that has this package in memory, and forks for each sync.

To import the package takes longer than all else that a sync of a small tree does on a worker. The
first sync of a version of the package starts this process as a service of systemd, and it ends
after half an hour without a sync. Only root reaches its socket: a caller sends its standard
streams, gets `+` when a process has taken them, and at the end the exit code as one byte.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

FOLDER = "/run/tpu-fleet/sync"
IDLE = 1800.0
"""Seconds without a sync after which it ends."""
_STREAMS = 3
_SHARE = 5.0  # seconds within which a caller sends its streams
_SERVE = "import sys; sys.path.insert(0, sys.argv[1]); from {}.waiting import serve; serve()"

Work = Callable[[bytes], int]


def begin(path: str) -> None:
    """Start the process for the package in this folder, unless systemd has it already."""
    name = Path(path).name
    # Without systemd, or with the unit there, the next sync imports the package itself.
    with contextlib.suppress(OSError):
        subprocess.Popen(  # pylint: disable=ansible-bad-function,consider-using-with
            [
                *("systemd-run", "--quiet", "--collect", f"--unit=tpu-fleet-{name[:21]}"),
                "--description=The program of tpu-fleet sync, ready in memory",
                *(sys.executable, "-I", "-S", "-c", _SERVE.format(__package__), path, name),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def serve() -> None:
    """Fork for each caller until none comes for long."""
    from .program import main

    path, name = sys.argv[1:3]
    Waiting(Path(FOLDER, name), main, lambda: os.utime(path)).serve(IDLE)


class Waiting:
    """Listens on a socket in a folder of root's."""

    def __init__(self, place: Path, work: Work, used: Callable[[], object] = int) -> None:
        """`work` does what a first line asks for; `used` is called for each caller."""
        self._place = place
        self._work = work
        self._used = used
        self._children: set[int] = set()

    def serve(self, idle: float) -> None:
        """Take callers until none came, and none is at work, for so many seconds."""
        self._place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            self._place.unlink()
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listening:
            listening.bind(str(self._place))
            listening.listen(16)
            until = time.monotonic() + idle
            while self._children or time.monotonic() < until:
                wait = 1.0 if self._children else max(0.0, until - time.monotonic())
                if select.select([listening], [], [], wait)[0]:
                    self._take(listening)
                    until = time.monotonic() + idle
                self._reap()
            # A caller that is still in the queue gets no answer, and does the work itself.
            self._place.unlink()

    def _take(self, listening: socket.socket) -> None:
        with contextlib.suppress(OSError), contextlib.ExitStack() as ended:
            caller = ended.enter_context(listening.accept()[0])
            caller.settimeout(_SHARE)
            _word, streams, _flags, _address = socket.recv_fds(caller, 1, _STREAMS)
            for stream in streams:
                ended.callback(os.close, stream)
            # Fails if the version was removed: then the caller does the work itself.
            self._used()
            if len(streams) == _STREAMS:
                child = os.fork()
                if child == 0:
                    self._answer(listening, caller, streams)
                self._children.add(child)

    def _answer(self, listening: socket.socket, caller: socket.socket, streams: list[int]) -> None:
        code = 1
        try:
            listening.close()
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
                os.close(stream)
            caller.settimeout(None)
            caller.sendall(b"+")
            code = self._work(sys.stdin.buffer.readline())
            sys.stdout.flush()
        finally:
            with contextlib.suppress(OSError):
                caller.sendall(bytes([code]))
            os._exit(code)

    def _reap(self) -> None:
        while self._children:
            ended = os.waitpid(-1, os.WNOHANG)[0]
            if not ended:
                return
            self._children.discard(ended)
