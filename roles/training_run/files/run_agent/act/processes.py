"""What /proc says about processes, and signals to them.

The program's parent, for which each start waits, needs it: so it imports little.
"""

from __future__ import annotations

import os
import signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from typing import Any

PROC = "/proc"
_MOST_TEXT = 64 * 1024
_MOST_ENVIRON = 6 * 1024 * 1024  # the kernel gives no program more
_MOST_COMMAND = 64 * 1024


def boot_id(proc: Path | str = PROC) -> str:
    """Return the identity of this boot."""
    with open(f"{proc}/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()


def _read(pid: int, name: str, proc: Path | str, most: int = _MOST_TEXT) -> bytes:
    """Return the beginning of a file of a process; raises OSError."""
    with open(f"{proc}/{pid}/{name}", "rb", buffering=0) as stream:
        parts = []
        while most > 0 and (part := stream.read(most)):
            parts.append(part)
            most -= len(part)
    return b"".join(parts)


def _stat(pid: int, proc: Path | str) -> tuple[str, int, int] | None:
    try:
        text = _read(pid, "stat", proc).decode("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    return fields[0], int(fields[1]), int(fields[19])


def start_time(pid: int, proc: Path | str = PROC) -> int | None:
    """Return the clock tick at which a living process began; with the pid it names it for good."""
    found = _stat(pid, proc)
    return None if found is None or found[0] in "ZX" else found[2]


def belongs_to(pid: int, uid: int | None, proc: Path | str = PROC) -> bool:
    """Return whether a process is only this user's: by all of its four user ids."""
    return _status(pid, "Uid:", proc) == [str(uid)] * 4


def _status(pid: int, name: str, proc: Path | str) -> list[str]:
    """Return the words of one line of a process's status; none when it is gone."""
    try:
        text = _read(pid, "status", proc).decode("utf-8", "replace")
    except OSError:
        return []
    return next((line.split()[1:] for line in text.splitlines() if line.startswith(name)), [])


def _pids(proc: Path | str) -> list[int]:
    return [int(name) for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208 - see the top


def descendants(root: int, proc: Path | str = PROC) -> set[int]:
    """Return all living processes below one."""
    children: dict[int, list[int]] = {}
    for pid in _pids(proc):
        found = _stat(pid, proc)
        if found is not None and found[0] not in "ZX":
            children.setdefault(found[1], []).append(pid)
    result: set[int] = set()
    todo = [root]
    while todo:
        for child in children.get(todo.pop(), []):
            if child not in result:
                result.add(child)
                todo.append(child)
    return result


def marked(variables: dict[str, str], uid: int | None, proc: Path | str = PROC) -> set[int]:
    """Return the processes of a user that were given all these variables at their start."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    return _given("environ", wanted, _MOST_ENVIRON, uid, proc)


def with_argument(argument: str, uid: int | None, proc: Path | str = PROC) -> set[int]:
    """Return the processes of a user that were started with an argument."""
    return _given("cmdline", {argument.encode()}, _MOST_COMMAND, uid, proc)


def _given(name: str, wanted: set[bytes], most: int, uid: int | None, proc: Path | str) -> set[int]:
    """Return the processes of a user whose file of this name lists all that is wanted."""
    result: set[int] = set()
    for pid in _pids(proc):
        if not belongs_to(pid, uid, proc):
            continue
        try:
            given = _read(pid, name, proc, most).split(b"\0")
        except OSError:
            continue
        if wanted <= set(given):
            result.add(pid)
    return result


def catches(pid: int, number: int, proc: Path | str = PROC) -> bool:
    """Say whether a process has a handler for a signal."""
    handlers = _status(pid, "SigCgt:", proc)
    return bool(handlers) and bool(int(handlers[0], 16) >> (number - 1) & 1)


def program(pid: int, proc: Path | str = PROC) -> str:
    """Return the name of a process's program; empty if it has ended."""
    try:
        found = os.readlink(f"{proc}/{pid}/exe")  # noqa: PTH115 - see the top
    except OSError:
        return ""
    return found.rpartition("/")[2]


def is_python(pid: int, proc: Path | str = PROC) -> bool:
    """Say whether a process is a Python interpreter."""
    return program(pid, proc).startswith("python")


def command_line(pid: int, proc: Path | str = PROC) -> str:
    """Return a process's arguments, for people."""
    try:
        words = _read(pid, "cmdline", proc, _MOST_COMMAND).split(b"\0")
    except OSError:
        return "(gone)"
    return b" ".join(words).decode("utf-8", "replace").strip()[:300]


def send(pids: Iterable[int], number: int, uid: int | None) -> list[int]:
    """Signal those processes that are a user's; return who they were."""
    return [pid for pid in pids if pid > 1 and _send(pid, number, uid)]


def _send(pid: int, number: int, uid: int | None) -> bool:
    # What it is was looked at under the handle: meanwhile its number cannot be another's.
    handle = _handle(pid)
    try:
        if not belongs_to(pid, uid):
            return False
        if handle is None:
            os.kill(pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        if handle is not None:
            os.close(handle)
    return True


class End:
    """The end of a process, as something that `select` can wait for."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._handle: int | None = None

    def of(self, pid: int | None) -> list[int]:
        """Return a handle that is readable once the process has ended.

        None without a process, and for one whose handle was given up.
        """
        if pid != self._pid:
            self.close()
            self._pid, self._handle = pid, None if pid is None else _handle(pid)
        return [] if self._handle is None else [self._handle]

    def close(self) -> None:
        """Give the handle up: the end was seen, or is of no interest any more."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def _handle(pid: int) -> int | None:
    # Linux 5.3 has it.
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def signal_number(name: str) -> int:
    """Return a signal's number from `SIGTERM`, `TERM` or `15`."""
    if name.isdigit():
        return signal.Signals(int(name)).value
    return signal.Signals["SIG" + name.upper().replace("SIG", "", 1)].value


def agent_of(status: Mapping[str, Any]) -> int | None:
    """Return the agent that wrote a status, if it lives: after a reboot its number is another's."""
    pid = status.get("agent_pid")
    if not isinstance(pid, int) or start_time(pid) is None:
        return None
    return pid if "tpu_fleet_run.py agent " in command_line(pid) else None
