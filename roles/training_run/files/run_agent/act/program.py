"""The program's parent inside tmux: runs it, clears up behind it, and writes down how it ended.

It runs as the run's user and outlives the agent, so that an agent which comes back finds either
the program or its result. Each start waits for it: so it imports little before the program runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import sys
import time

from . import processes
from .unguarded import LATE_SECONDS, NotNamed, Unguarded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

    from .bucket_guard import BucketGuard
    from .guard import Guard
    from .quick_guard import QuickGuard

_SET_CHILD_SUBREAPER = 36
_CLEAN_UP_SECONDS = 2.0
_LOG_SECONDS = 15.0  # on a host that is very busy; otherwise it is a moment


def main(words: list[str]) -> int:
    """Run what a launch file says, to its end."""
    with open(words[0], encoding="utf-8") as stream:
        order = json.load(stream)
    folder = order["folder"]
    # Handlers, not SIG_IGN: exec gives the program the default actions back.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, _pass_over)
    terminal_watch = Terminal(folder)
    signal.signal(signal.SIGHUP, terminal_watch.look)
    with contextlib.suppress(OSError, AttributeError):
        # Grandchildren whose parent ends become ours, so none escapes the clearing up.
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _log_for_an_earlier_agent(order.get("log_command"))
    _say(f"attempt {order['attempt']} of {order['run']} begins on worker {order['worker']}")
    terminal = {key: os.environ[key] for key in ("TERM", "TMUX", "TMUX_PANE") if key in os.environ}
    result: dict[str, Any] = {"attempt": order["attempt"]}
    guard = _guard_of(order)
    begun = time.monotonic()
    checkpoints = order["env"].get("TPU_FLEET_CHECKPOINT_DIR", "")
    if checkpoints.startswith("/"):
        with contextlib.suppress(OSError):  # the program's own error is better
            os.makedirs(checkpoints, exist_ok=True)  # noqa: PTH103 - without pathlib
    try:
        shut_out = guard.claim()
    except NotNamed as error:
        _say(f"not started: {error}")
        result.update(exit_code=None, signal=None, end=time.time(), not_started=str(error))
        _write(f"{folder}/result.json", result)
        return 1
    if time.monotonic() - begun > LATE_SECONDS:
        # The agent has given this start up by now: what began late would run unseen.
        _say("not started: the checkpoint folder did not answer in time")
        return 1
    if shut_out:
        _say(f"not started: {shut_out}")
        result.update(exit_code=None, signal=None, end=time.time(), fenced=shut_out)
        _write(f"{folder}/result.json", result)
        return 1
    try:
        child = _begin(order["command"], order["workdir"], dict(terminal, **order["env"]))
    except OSError as error:
        _say(f"cannot start: {error}")
        result.update(exit_code=127, signal=None, end=time.time())
        _write(f"{folder}/result.json", result)
        return 127
    terminal_watch.write(
        {
            "attempt": order["attempt"],
            "pid": child,
            "pid_started": processes.start_time(child),
            "parent": os.getpid(),
            "parent_started": processes.start_time(os.getpid()),
            "start": time.time(),
        }
    )
    guard.watch(child)
    code = _wait_for(child)
    result.update(
        exit_code=code if code >= 0 else None, signal=-code if code < 0 else None, end=time.time()
    )
    if guard.shut_out:
        _say(f"ended at once: {guard.shut_out}")
        result["fenced"] = guard.shut_out
    if terminal_watch.gone:
        result["adrift"] = True
    _clear_up(signal.SIGKILL if guard.shut_out else signal.SIGTERM)
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    last = f"attempt {order['attempt']} ended with {how}"
    _say(last)
    if not terminal_watch.gone:  # otherwise no process takes them there
        _wait_for_the_log(order["log"], f"{folder}/log.json", last)
    _write(f"{folder}/result.json", result)
    # The next attempt waits for this, and nothing is left that Python could bring to an end.
    os._exit(0)


def _begin(command: str, workdir: str, env: dict[str, str]) -> int:
    """Start the program; return its number. Raises OSError."""
    os.chdir(workdir)
    try:
        words = ["/bin/bash", "-c", command]
        # Python ignores them, which the program would inherit.
        return os.posix_spawn(words[0], words, env, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ])
    finally:
        os.chdir("/")


def _write(path: str, record: dict[str, Any]) -> None:
    """Replace a record in one step; it is in memory, so nothing has to reach a disk."""
    new = f"{path}.{os.getpid()}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108 - without pathlib
    # The handler of a signal may write the same record meanwhile: then one of both fails.
    with open(new, "x", encoding="utf-8") as stream:
        json.dump(record, stream)
    os.replace(new, path)  # noqa: PTH105 - without pathlib


def _guard_of(order: dict[str, Any]) -> Guard | BucketGuard | QuickGuard | Unguarded:
    if not order.get("fence"):
        return Unguarded()
    # What they import takes half of this process's time to start, HTTP and TLS more.
    if "object" not in order["fence"]:
        if not order["fence"].get("write"):
            from .quick_guard import QuickGuard

            return QuickGuard(order)
        from .guard import Guard

        return Guard(order)
    from .bucket_guard import BucketGuard

    return BucketGuard(order, _say)


class Terminal:
    """Notices that tmux is gone: a program that ignores SIGHUP would go on without a log.

    The agent reads it in the program's record, and ends it.
    """

    def __init__(self, folder: str) -> None:
        self.gone = False
        self._path = f"{folder}/program.json"
        self._record: dict[str, Any] = {}

    def look(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGHUP, which any process may send."""
        if not self.gone and not os.isatty(sys.stdout.fileno()):
            self.gone = True
            if self._record:
                self.write(self._record)

    def write(self, record: dict[str, Any]) -> None:
        """Write the program's record down."""
        self._record = record
        while True:
            gone = self.gone
            with contextlib.suppress(OSError):
                _write(self._path, {**record, "adrift": gone})
            if gone == self.gone:  # the signal may come in between
                return


def _pass_over(_number: int, _frame: FrameType | None) -> None:
    pass


def _say(text: str) -> None:
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with contextlib.suppress(OSError):
        print(f"--- tpu-fleet {stamp} {text}", flush=True)


def _log_for_an_earlier_agent(command: list[str] | None) -> None:
    """Begin the log if the agent is of a version that leaves this to us, and not reloaded yet."""
    if command:
        import shlex
        import subprocess

        line = f"exec {shlex.join(command)}"
        subprocess.run(["tmux", "pipe-pane", "-t", os.environ["TMUX_PANE"], line], check=False)


def _wait_for_the_log(path: str, health: str, last: str) -> None:
    """Let tmux take the last lines to the log: then the pane may go, and the agent look at them.

    A disk that is full takes none.
    """
    from . import user_files

    deadline = time.monotonic() + _LOG_SECONDS
    while last.encode() not in user_files.tail(path, 1000) and time.monotonic() < deadline:
        if (user_files.load(health) or {}).get("error"):
            return
        time.sleep(0.02)


def _wait_for(wanted: int) -> int:
    while True:
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return 255
        if pid == wanted:
            return os.waitstatus_to_exitcode(status)


def _clear_up(number: int) -> None:
    """End what the program left behind: it would hold the chip against the next attempt."""
    deadline = time.monotonic() + _CLEAN_UP_SECONDS
    while True:
        left = processes.descendants(os.getpid())
        if not left:
            return
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        processes.send(left, number, os.getuid())
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.05)
        if time.monotonic() > deadline + _CLEAN_UP_SECONDS:
            print("some processes cannot be killed", file=sys.stderr)
            return
