"""Have the processes of a run record a profile, and send it, with the rights of the run's user.

The only argument is the request, in JSON:

    {"run": NAME, "seconds": SECONDS, "most_bytes": BYTES}

The answer consists of pieces, each a line of JSON with so many bytes after it as its "bytes" says:

    {"ready": [{"pid": PID}, ...], "now": TIME}    then a line with the time to begin is awaited, by
                                                   this clock
    {"pid": PID, "says": TEXT, ...}    a process without a profile
    {"pid": PID, "size": BYTES, "framework": TEXT, "begun": TIME, "ended": TIME,
     "first_step": STEP, "last_step": STEP,
     "iterators": [TEXT, ...]}    a profile, which comes in the next pieces
    {"refused": TEXT}    why there is none
    {"end": true}

What is recorded lies in a folder of the run beside its log, which is removed at the end. Everything
there is the user's, so nothing is done with other rights than the user's.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tpu_fleet.on_worker.limits import grant
from tpu_fleet.on_worker.run_reader import BEGINNING, send
from tpu_fleet.on_worker.run_states import RUNNING
from tpu_fleet.on_worker.runs import RunFiles

SIGNAL = 58
"""What roles/training_run/files/python_hook/tpu_fleet_profile.py waits for."""
HOOK = b"/python_hook"
"""In PYTHONPATH of a process that has it."""
PIECE = 1 << 20
MOST_TOLD = 1 << 16
MOST_PROCESSES = 64
LOOK = 0.1
LATE = 15.0
"""Seconds after the time to begin in which a process must have begun."""
WRITING = 120.0
"""Seconds in which a process must have written what it recorded."""
STUCK = (
    "it does not begin: a thread keeps Python's lock in C code, or the program has closed the pipe "
    "that wakes the profiler; tpu-fleet why {run} shows where it stands"
)
OURS = 10.0
"""Seconds of silence after which a sign of life is sent."""
MOST_ENVIRON = 6 << 20
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Refused(Exception):
    """There is no profile; the message says why."""


class Processes:
    """The processes of an attempt, as the kernel shows them to their user."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc

    def of(self, marks: dict[str, str]) -> list[int]:
        """Return those that were given these variables at their start."""
        wanted = {f"{name}={value}".encode() for name, value in marks.items()}
        pids = [int(entry.name) for entry in self.proc.glob("[0-9]*")]
        return sorted(pid for pid in pids if wanted <= set(self.environment(pid)))

    def environment(self, pid: int) -> list[bytes]:
        """Return what a process was given at its start; empty for one of another user."""
        try:
            with (self.proc / str(pid) / "environ").open("rb") as stream:
                return stream.read(MOST_ENVIRON).split(b"\0")
        except OSError:
            return []

    def catches(self, pid: int) -> bool:
        """Return whether a live process has a handler for SIGNAL: otherwise it would end by it."""
        try:
            text = (self.proc / str(pid) / "status").read_text(errors="replace")
        except OSError:
            return False
        lines = dict(line.partition(":")[::2] for line in text.splitlines())
        caught = int(lines.get("SigCgt", "0"), 16) >> (SIGNAL - 1) & 1
        # One that has ended keeps its handlers until its parent has looked.
        return bool(caught) and lines.get("State", "").split()[:1] not in (["Z"], ["X"])

    def is_python(self, pid: int) -> bool:
        """Return whether a process is a Python; programs of Go catch all signals."""
        try:
            program = os.readlink(str(self.proc / str(pid) / "exe"))  # noqa: PTH115 - no path
        except OSError:
            return False
        return Path(program).name.startswith("python")


class Recording:
    """A profile of one run on this worker."""

    def __init__(self, order: dict[str, Any], root: str | Path = "/") -> None:
        self.order = order
        self.files = RunFiles(root)
        run = str(order["run"])
        self.memory = self.files.spare / run / "user"
        self.requests = self.memory / "profile"
        self.output: Path = self.files.logs / run / "profile"
        self.processes = Processes(Path("/proc"))
        self.pids: list[int] = []

    def find(self) -> None:
        """Find the processes that can be asked; refuse if there are none."""
        run = self.order["run"]
        state = self.files.state_now(run)
        if state != RUNNING:
            raise Refused(f"{run} is {state} here, and only a running program has a profile")
        marks = {"TPU_FLEET_RUN": run, "TPU_FLEET_PROGRESS": str(self.memory / "progress.json")}
        found = self.processes.of(marks)
        catching = [pid for pid in found if self.processes.catches(pid)]
        self.pids = [pid for pid in catching if self.processes.is_python(pid)][:MOST_PROCESSES]
        if not self.pids:
            raise Refused(self._why_none(found))

    def _why_none(self, found: list[int]) -> str:
        if not found:
            return "no process of its program is there now"
        paths = [
            one
            for pid in found
            for one in self.processes.environment(pid)
            if one.startswith(b"PYTHONPATH=")
        ]
        if not any(HOOK in path for path in paths):
            return (
                "its attempt began before this version of tpu.fleet was applied: "
                f"tpu-fleet retry {self.order['run']} begins another, or wait for the next one"
            )
        return (
            "none of its processes has imported JAX or torch_xla: other programs have no profiler "
            "that can be started from outside, and one that has just begun may still do it"
        )

    @contextlib.contextmanager
    def folders(self) -> Iterator[None]:
        """Make the folders for this one, if no other is recorded now; remove them at the end."""
        with open(self.memory / "profile.lock", "wb") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise Refused("another profile of it is being recorded") from None
            try:
                for folder in (self.requests, self.output):
                    remove(folder)
                    folder.mkdir(mode=0o700)
                self._check_room()
                yield
            finally:
                for folder in (self.requests, self.output):
                    remove(folder)

    def _check_room(self) -> None:
        there = os.statvfs(str(self.output))
        free = there.f_bavail * there.f_frsize
        if free < self.order["most_bytes"]:
            raise Refused(
                f"{self.output.parent} has {free >> 20} MiB free, and a profile may need "
                f"{self.order['most_bytes'] >> 20}: remove something there"
            )

    def target(self, pid: int) -> Path:
        """Return where a process writes its profile."""
        return self.output / f"{pid}.xplane.pb"

    def ask(self, begin: float) -> None:
        """Have each process begin at a time."""
        for pid in self.pids:
            asked = {
                "begin": begin,
                "seconds": self.order["seconds"],
                "most_bytes": self.order["most_bytes"],
                "target": str(self.target(pid)),
            }
            (self.requests / f"{pid}.asked").write_text(json.dumps(asked), encoding="utf-8")
            if self.processes.catches(pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, SIGNAL)

    def wait(self, begin: float) -> dict[int, dict[str, Any]]:
        """Return what each process says when it is done, or what became of it instead."""
        done: dict[int, dict[str, Any]] = {}
        end, sent = begin + self.order["seconds"], 0.0
        while len(done) < len(self.pids):
            time.sleep(LOOK)
            grant()
            if time.monotonic() - sent > OURS:
                send({})
                sent = time.monotonic()
            for pid in set(self.pids) - set(done):
                told = self._judged(pid, self.told(pid), time.time() - begin, time.time() - end)
                if told is not None:
                    done[pid] = told
        return done

    def _judged(
        self, pid: int, told: dict[str, Any], since: float, after: float
    ) -> dict[str, Any] | None:
        """Return what a process said last, if nothing more is to come."""
        state = told.get("state")
        if state in ("done", "failed"):
            return told
        if not self.processes.catches(pid):
            return {"says": "it ended meanwhile"}
        if state in (None, "waits") and since > LATE:
            return {"says": STUCK.format(run=self.order["run"])}
        return {"says": f"it did not write it within {WRITING:.0f} s"} if after > WRITING else None

    def told(self, pid: int) -> dict[str, Any]:
        """Return what a process has written about its profile."""
        try:
            with opened(self.requests / f"{pid}.told") as descriptor:
                told = json.loads(os.read(descriptor, MOST_TOLD))
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}

    def send(self, pid: int, told: dict[str, Any]) -> None:
        """Send the profile of a process, or why there is none."""
        if told.get("state") != "done":
            send({"pid": pid, "says": str(told.get("says", ""))[:1000]})
            return
        about = {name: told.get(name) for name in ABOUT}
        try:
            with opened(self.target(pid)) as descriptor:
                size = min(os.fstat(descriptor).st_size, self.order["most_bytes"])
                send({"pid": pid, "size": size, **about})
                for begin in range(0, size, PIECE):
                    grant()
                    send({}, os.pread(descriptor, min(PIECE, size - begin), begin))
        except OSError as error:
            send({"pid": pid, "says": f"its profile cannot be read: {error.strerror}"})


ABOUT = ("framework", "begun", "ended", "first_step", "last_step", "iterators")
"""What a process says of its profile, and the caller reads."""


@contextlib.contextmanager
def opened(path: Path) -> Iterator[int]:
    """Open a plain file to read; raises OSError for a link, a pipe and anything else."""
    descriptor = os.open(str(path), _PLAIN)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EPERM, "not a plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Remove a folder, or what is in its place; what a link leads to stays."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(str(path))


def main(root: str | Path = "/") -> int:
    """Carry out the request that the last argument has."""
    recording = Recording(json.loads(sys.argv[-1]), root)
    signal.signal(signal.SIGTERM, lambda *_about: sys.exit(143))
    print(BEGINNING, flush=True)
    try:
        recording.find()
        with recording.folders():
            record(recording)
    except Refused as error:
        send({"refused": str(error)})
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        send({"refused": f"{where}{error.strerror}"})
    send({"end": True})
    return 0


def record(recording: Recording) -> None:
    """Say who is ready, wait for the time to begin, record, and send."""
    send({"ready": [{"pid": pid} for pid in recording.pids], "now": time.time()})
    line = sys.stdin.readline()
    if not line:
        raise Refused("the caller is gone")
    begin = float(line)
    recording.ask(begin)
    for pid, told in sorted(recording.wait(begin).items()):
        recording.send(pid, told)
