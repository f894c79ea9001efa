"""Read the runs of a worker and their logs, for the caller at the other end of the connection.

The only argument is the request, in JSON:

    {"do": "list"}                                    all runs
    {"do": "changes"}                                 all runs, and again when they change
    {"do": "log", "run": NAME, "follow": true, ...}   a run's log

The answer consists of pieces: a line of JSON and, if that has "bytes", so many bytes after it. Its
"at" is the place where these end. After a lost connection, the caller sends it and gets exactly the
rest.
"""

from __future__ import annotations

import json
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpu_fleet.on_worker.limits import grant
from tpu_fleet.on_worker.log_files import Open, files_of, size_of, sum_before
from tpu_fleet.on_worker.log_places import begin_at
from tpu_fleet.on_worker.run_end import Ends
from tpu_fleet.on_worker.run_states import ENDED
from tpu_fleet.on_worker.runs import RunFiles

BEGINNING = "tpu-fleet-run-reader"  # a login may print something before this
CHUNK = 1 << 16
PAUSE = 0.25
LAST_WORDS = 1.5  # seconds that a log may still grow after its run has ended
SIGN_OF_LIFE = 60.0  # a caller that is silent for so long is gone
LOOK = 2.0  # seconds between looks for changes
OURS = 30.0  # seconds of silence after which a sign of life is sent
TOO_FAST = "the log grows faster than it can be sent: what was written meanwhile is missing"
FIGURES = {
    *("step", "step_at", "first_step", "first_step_at", "loss", "saved_at", "serial", "inside"),
    *("chips", "tokens_per_second", "mfu"),
}
"""What changes all the time while a run runs."""


def send(piece: dict[str, Any], data: bytes = b"") -> None:
    """Send a piece."""
    if data:
        piece["bytes"] = len(data)
    sys.stdout.buffer.write(json.dumps(piece).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


class Reader:
    """Sends a log piece by piece, from file to file."""

    def __init__(self, path: Path, limit: int, follow: bool = True) -> None:
        self.path = path
        self.limit = limit
        # Without end only for a caller who waits for the end.
        self.left = float("inf") if follow else 2.0 * limit
        self.file: Open | None = None
        self.offset = 0

    def begin(self, order: dict[str, Any]) -> bool:
        """Go to the start position; return whether there is a log."""
        files = files_of(self.path)
        if not files:
            return False
        place = begin_at(files, order, self.limit)
        if place.lost:
            send({"lost": place.lost})
        self._take(files, place.file)
        self.offset = place.offset
        send({"at": self._at()})
        return True

    def _take(self, files: list[Open], chosen: int) -> None:
        for at, one in enumerate(files):
            if at != chosen:
                os.close(one.descriptor)
        if self.file is not None:
            os.close(self.file.descriptor)
        self.file, self.offset = files[chosen], 0

    def _at(self) -> list[Any]:
        assert self.file is not None  # noqa: S101
        return [self.file.name, self.offset, sum_before(self.file, self.offset)]

    def _is_newest(self) -> bool:
        assert self.file is not None  # noqa: S101
        try:
            newest = self.path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return True  # in the middle of a rotation
        if not stat.S_ISREG(newest.st_mode):
            return True  # its user has put something else there
        mine = os.fstat(self.file.descriptor)
        return (newest.st_dev, newest.st_ino) == (mine.st_dev, mine.st_ino)

    def send_all(self) -> bool:
        """Send new bytes; return whether there were any."""
        found = False
        while True:
            assert self.file is not None  # noqa: S101
            # Checked before reading: a file that is not the newest gets no more bytes.
            newest = self._is_newest()
            while True:
                data = os.pread(self.file.descriptor, CHUNK, self.offset)
                if not data:
                    break
                found = True
                self.offset += len(data)
                self.left -= len(data)
                send({"at": self._at()}, data)
                if self.left <= 0:
                    send({"lost": TOO_FAST})
                    return found
            if newest:
                if size_of(self.file) < self.offset:
                    send({"lost": "the log was emptied"})
                    self.offset = 0
                    continue
                return found
            self._next()

    def _next(self) -> None:
        assert self.file is not None  # noqa: S101
        files = files_of(self.path)
        mine = [at for at, one in enumerate(files) if one.name == self.file.name]
        if not files or (mine and mine[0] == len(files) - 1):
            for one in files:
                os.close(one.descriptor)
            time.sleep(0.01)  # in the middle of a rotation
            return
        if not mine:
            send({"lost": "the log rotated faster than it could be sent: lines are missing"})
        self._take(files, mine[0] + 1 if mine else 0)
        # Also for an empty file, because a returning reader has read everything before it.
        send({"at": self._at()})


class Unwritten:
    """Reports what a log lacks because the worker could not write it, as on a full disk.

    The run's agent counts it. After a lost connection, the same caller gets only what is new.
    """

    def __init__(self, status: dict[str, Any], again: bool) -> None:
        self.known = self._bytes(status) if again else 0
        self.failing = False

    @staticmethod
    def _bytes(status: dict[str, Any]) -> int:
        count = status.get("log_dropped_bytes")
        return count if isinstance(count, int) else 0

    def news(self, status: dict[str, Any]) -> str:
        """Return the news for the caller; empty if there are none."""
        count = self._bytes(status)
        begin = f"{status.get('log_path')}: "
        found = [text for text in status.get("problems") or () if str(text).startswith(begin)]
        if found and count > self.known:
            said, self.failing = self.failing, True
            return "" if said else f"the worker cannot write this log now: {found[0]}"
        if found or count <= self.known:
            return ""
        self.known, self.failing = count, False
        return f"{count:,} bytes of this log are missing: the worker could not write them"


def send_log(order: dict[str, Any]) -> None:
    """Send a run's log, to its end or until the run ends."""
    files = RunFiles()
    status = files.told(order["run"])
    path = Path(status.get("log_path") or files.logs / order["run"] / "run.log")
    if not status and not path.is_file():
        send({"none": files.listed()})
        return
    send({"run": status})
    unwritten = Unwritten(status, bool(order.get("at")))
    reader = Reader(path, files.log_limit(order["run"]), bool(order.get("follow")))
    begun = False
    over_since: float | None = None
    while True:
        if not begun:
            begun = reader.begin(order)
            if not begun and not order.get("at"):
                order["at"] = ["", 0, 0]
                send({"at": order["at"]})
        busy = reader.send_all() if begun else False
        lacks = unwritten.news(status)
        if lacks:
            send({"lost": lacks})
        if not order.get("follow"):
            send({"end": ""})
            return
        status = files.told(order["run"])
        state = status.get("state", "")
        now = time.monotonic()
        is_over = state in ENDED or files.has_left(order["run"])
        if busy or not is_over:
            over_since = None
        elif over_since is None:
            over_since = now
        elif now - over_since > LAST_WORDS:
            send({"end": state})
            return
        time.sleep(PAUSE)


def listing(files: RunFiles) -> dict[str, Any]:
    """Return the summaries of all runs, with the ends of those that have ended."""
    told = files.all_told()
    return {**told, "runs": Ends(files.logs).added(told["runs"])}


class Changes:
    """Sends all runs when they change: a change of state at once, figures as often as asked."""

    def __init__(self, files: RunFiles) -> None:
        self.files = files
        self.ends = Ends(files.logs)
        self.pace = 60.0
        self._states: Any = None
        self._figures: Any = None
        self._told = self._sent = 0.0

    def heard(self, said: bytes) -> None:
        """Note how often the caller wants to know the figures."""
        last = said.split()[-1:]
        if last and last[0].isdigit():
            self.pace = float(last[0])

    def look(self, now: float) -> None:
        """Send what has changed, or at least a sign of life."""
        told = self.files.all_told()
        told["runs"] = self.ends.added(told["runs"])
        states = [
            {key: value for key, value in run.items() if key not in FIGURES} for run in told["runs"]
        ]
        figures = [told["runs"], told.get("disk")]
        due = now - self._told >= self.pace and figures != self._figures
        if states != self._states or due:
            send({}, json.dumps(told).encode())
            self._states, self._figures = states, figures
            self._told = self._sent = now
        elif now - self._sent >= OURS:
            send({})
            self._sent = now


def send_changes() -> None:
    """Send the runs of this worker until the caller is gone."""
    changes = Changes(RunFiles())
    threading.Thread(target=watch, args=(changes.heard,), daemon=True).start()
    while True:
        changes.look(time.monotonic())
        time.sleep(LOOK)


def watch(heard: Callable[[bytes], Any] = len) -> None:
    """End this process when the caller is gone: its input ends, or is silent for long."""
    while select.select([0], [], [], SIGN_OF_LIFE)[0]:
        said = os.read(0, 1 << 10)
        if not said:
            break
        grant()
        heard(said)
    os._exit(0)


def main() -> int:
    """Carry out the request."""
    order = json.loads(sys.argv[1])
    print(BEGINNING, flush=True)
    if order["do"] == "list":
        send({}, json.dumps(listing(RunFiles())).encode())
        return 0
    try:
        if order["do"] == "changes":
            send_changes()
        threading.Thread(target=watch, daemon=True).start()
        send_log(order)
    except PermissionError as error:
        send({"error": f"{error.filename} may not be read", "remedy": "Say --sudo."})
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 0
