# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dialogue of one worker with the controller, over the standard streams of one command.

The worker writes one JSON object a line. The controller writes the order; then, if asked, the
contents that the worker lacks, as a line `data SIZE` and so many compressed bytes; and, when every
worker is ready, a line with the word go. The end of the stream instead of it means: change nothing.
When the programs of all workers have begun, or some never will, it writes a last line.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import select
import sys
import time
import zlib
from typing import Any, BinaryIO

from .._apply_agent.locks import attempt
from .._apply_agent.place import Place
from .._host.as_user import UserError
from .._host.runs import RunFiles
from .._host.snapshot import SnapshotError
from .._host.state import STATE_DIR
from .._roles.code_checkout.plan import ROOT
from .order import PROTOCOL, Order, choice
from .worker import RefusedError, Worker, as_request

LOOK = 0.05
"""Seconds between two looks at what the runs do."""
START_SECONDS = 20.0
"""How long, beyond the time that a program may take to end, the next attempt is waited for."""
_LINE = 1 << 26
# Where a sync writes.
_PLACES = (ROOT, STATE_DIR)
# Bytes with which a disk counts as full.
_LEAST = 1 << 20
_KNOWN = (OSError, UserError, SnapshotError, RefusedError)


class Line:
    """The worker's end of the connection."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading = reading
        self._writing = writing

    def say(self, what: str, **more: Any) -> None:
        """Send a message; without a controller, nothing is sent and the work is completed."""
        try:
            self._writing.write(json.dumps({"say": what, **more}).encode() + b"\n")
            self._writing.flush()
        except OSError:
            return

    def request(self) -> dict[str, Any]:
        """Return the next object; empty at the end of the stream."""
        line = self._reading.readline(_LINE)
        return as_request(line.decode()) if line.endswith(b"\n") else {}

    def has_more(self, seconds: float = 0.0) -> bool:
        """Return whether the controller writes its last line within this time, or is gone."""
        try:
            return bool(select.select([self._reading.fileno()], [], [], seconds)[0])
        except OSError:
            return False

    def contents(self, order: Order, lacking: set[str]) -> dict[str, bytes]:
        """Ask for contents; return them by their hash, each verified."""
        if not lacking:
            return {}
        sizes = order.sizes
        wanted = [identity for identity in sizes if identity in lacking]
        self.say("need", files=choice(lacking, order.contents))
        words = self._reading.readline(64).split()
        if len(words) != 2 or words[0] != b"data" or not words[1].isdigit():
            raise RefusedError("the connection ended before the files had arrived")
        data = self._reading.read(int(words[1]))
        total = sum(sizes[identity] for identity in wanted)
        try:
            whole = zlib.decompressobj().decompress(data, total + 1)
        except zlib.error:
            whole = b""
        found, at = {}, 0
        for identity in wanted:
            part = whole[at : at + sizes[identity]]
            at += sizes[identity]
            if hashlib.sha256(part).hexdigest() != identity:
                raise RefusedError("what arrived is not what was sent")
            found[identity] = part
        return found


def main(asked: bytes) -> int:
    """Do what a controller has asked for, and talk to it; return the exit code."""
    os.umask(0o022)
    line = Line(sys.stdin.buffer, sys.stdout.buffer)
    try:
        request = as_request(asked.decode())
        if request.pop("protocol", None) != PROTOCOL:
            raise RefusedError(f"this worker speaks protocol {PROTOCOL}")
        place = Place()
        with attempt(place.lock) as free:
            if not free:
                raise RefusedError(
                    "roles are being applied here, or another sync is at work. Try again."
                )
            return _work(line, Worker(Order.read(request), place, RunFiles()))
    except BaseException as error:  # every failure is reported, because the controller waits
        line.say("refused", why=_why(error) if isinstance(error, _KNOWN) else _trace())
        return 1


def _why(error: BaseException) -> str:
    """Return what is wrong in words; of a full disk also which one, and what to do."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return f"{place}{os.strerror(error.errno)}"
    full = [folder for folder in _PLACES if _is_full(folder)]
    return (
        f"no room is left in {' and '.join(full) or place or 'a folder of the worker'}. Find what "
        f"is large: sudo du -xh --max-depth=3 {full[0] if full else '/'} | sort -h | tail"
    )


def _is_full(folder: str) -> bool:
    try:
        found = os.statvfs(folder)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < _LEAST or (found.f_files > 0 and not found.f_favail)


def _trace() -> str:
    # Not at the top, because each sync would wait for its import.
    import traceback

    return traceback.format_exc(limit=-2)


def _work(line: Line, worker: Worker) -> int:
    order = worker.order
    worker.check()
    if worker.is_there():
        line.say("ready", same=True)
        line.request()
        line.say("done", runs=worker.progress()[0])
        return 0
    try:
        contents = worker.contents()
        contents.update(line.contents(order, set(order.sizes).difference(contents)))
        worker.prepare(contents)
        line.say("ready", same=False)
        go = line.request()
    except BaseException:
        worker.undo()
        raise
    if not go.get("go"):
        worker.undo()
        return 0
    worker.switch(go.get("origin") or {})
    line.say("switched")
    states = _follow(worker, line)
    line.say("running", runs=states)
    # On machines that share a computer it would keep the programs of others from their first line.
    line.has_more(START_SECONDS)
    worker.tidy()
    line.say("done", runs=states)
    return 0


def _follow(worker: Worker, line: Line) -> list[dict[str, Any]]:
    """Wait until the next attempt of each run has begun, or has ended; return their states.

    Without a controller there is nothing to wait for: the next sync can begin.
    """
    grace = max(float(worker.definitions[run]["grace_seconds"]) for run in worker.order.runs)
    deadline = time.monotonic() + grace + START_SECONDS
    while True:
        states, begun = worker.progress()
        if begun or line.has_more() or time.monotonic() > deadline:
            return states
        time.sleep(LOOK)
