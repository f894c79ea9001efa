"""What /proc says about processes, and signals to them."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

PROC = Path("/proc")
_MOST_ENVIRON = 6 * 1024 * 1024  # the kernel gives no program more
_MOST_COMMAND = 64 * 1024


def boot_id(proc: Path = PROC) -> str:
    """Return the identity of this boot."""
    return (proc / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _stat(pid: int, proc: Path) -> tuple[str, int, int] | None:
    try:
        text = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name in brackets may hold anything
    return fields[0], int(fields[1]), int(fields[19])


def start_time(pid: int, proc: Path = PROC) -> int | None:
    """Return the clock tick at which a living process began; with the pid it names it for good."""
    found = _stat(pid, proc)
    return None if found is None or found[0] in "ZX" else found[2]


def belongs_to(pid: int, uid: int | None, proc: Path = PROC) -> bool:
    """Return whether a process is only this user's: by all of its four user ids."""
    return _status(pid, "Uid:", proc) == [str(uid)] * 4


def _status(pid: int, name: str, proc: Path) -> list[str]:
    """Return the words of one line of a process's status; none when it is gone."""
    try:
        text = (proc / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return next((line.split()[1:] for line in text.splitlines() if line.startswith(name)), [])


def _pids(proc: Path) -> list[int]:
    return [int(entry.name) for entry in proc.iterdir() if entry.name.isdigit()]


def descendants(root: int, proc: Path = PROC) -> set[int]:
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


def marked(variables: dict[str, str], uid: int | None, proc: Path = PROC) -> set[int]:
    """Return the processes of a user that were given all these variables at their start."""
    wanted = {f"{name}={value}".encode() for name, value in variables.items()}
    return _given("environ", wanted, _MOST_ENVIRON, uid, proc)


def with_argument(argument: str, uid: int | None, proc: Path = PROC) -> set[int]:
    """Return the processes of a user that were started with an argument."""
    return _given("cmdline", {argument.encode()}, _MOST_COMMAND, uid, proc)


def _given(name: str, wanted: set[bytes], most: int, uid: int | None, proc: Path) -> set[int]:
    """Return the processes of a user whose file of this name lists all that is wanted."""
    result: set[int] = set()
    for pid in _pids(proc):
        with contextlib.suppress(OSError):
            if not belongs_to(pid, uid, proc):
                continue
            with (proc / str(pid) / name).open("rb") as stream:
                given = stream.read(most).split(b"\0")
            if wanted <= set(given):
                result.add(pid)
    return result


def catches(pid: int, number: int, proc: Path = PROC) -> bool:
    """Say whether a process has a handler for a signal."""
    handlers = _status(pid, "SigCgt:", proc)
    return bool(handlers) and bool(int(handlers[0], 16) >> (number - 1) & 1)


def program(pid: int, proc: Path = PROC) -> str:
    """Return the name of a process's program; empty if it has ended."""
    try:
        found = os.readlink(str(proc / str(pid) / "exe"))  # noqa: PTH115 - as in chip_holders.py
    except OSError:
        return ""
    return Path(found).name


def is_python(pid: int, proc: Path = PROC) -> bool:
    """Say whether a process is a Python interpreter."""
    return program(pid, proc).startswith("python")


def command_line(pid: int, proc: Path = PROC) -> str:
    """Return a process's arguments, for people."""
    try:
        with (proc / str(pid) / "cmdline").open("rb") as stream:
            words = stream.read(_MOST_COMMAND).split(b"\0")
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
