"""A process with the rights of the run's user alone, for the agent's work in the user's folders.

It stays, as the agent looks every second. What it answers is bounded in size and time, and trusted
no more than the files themselves: the user may end, stop or change it.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..decide.values import is_whole, one_line
from . import as_user, child, folder_facts, folder_look, user_files

_SECONDS = 10.0
_PAUSE = 5.0  # after a failure
_MOST = 2 * 1024 * 1024


@dataclass(frozen=True)
class Glance:
    """What the user's files say, as far as it has the kind that it should have."""

    program: dict[str, Any] | None = None
    result: dict[str, Any] | None = None
    health: dict[str, Any] = field(default_factory=dict)
    checkpoints: dict[str, Any] = field(default_factory=dict)
    times: dict[str, Any] = field(default_factory=dict)
    said: list[int] | None = None
    log: list[int] | None = None

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Glance:
        """Read what the hand found."""
        known: dict[str, Any] = {
            name: found.get(name) if isinstance(found.get(name), dict) else None
            for name in ("program", "result", "health", "checkpoints", "times")
        }
        return cls(
            known["program"],
            known["result"],
            known["health"] or {},
            known["checkpoints"] or {},
            known["times"] or {},
            _stamp(found.get("said")),
            _stamp(found.get("log")),
        )

    @property
    def log_error(self) -> str:
        """Return what is wrong with the log."""
        return one_line(str(self.health.get("error", "")))

    @property
    def dropped_bytes(self) -> int:
        """Return how much the log lost."""
        count = self.health.get("dropped_bytes", 0)
        return count if is_whole(count) and 0 <= count < 2**63 else 0


def _stamp(found: Any) -> list[int] | None:
    good = isinstance(found, list) and len(found) == 3 and all(is_whole(one) for one in found)
    return found if good else None


class CannotReach(OSError):
    """What could not be done in the user's folders."""

    def __init__(self, text: str) -> None:
        super().__init__(None, text)


_LOOKS = folder_look.Looks()
# What may be asked for, with arguments that JSON can hold.
_WORK: dict[str, Callable[..., Any]] = {
    "read": lambda path, limit, start: _packed(user_files.read(Path(path), limit, start)),
    "tail": lambda path, limit: _packed(user_files.tail(Path(path), limit)),
    "load": lambda path: user_files.load(Path(path)),
    "stamp": lambda path: user_files.stamp(Path(path)),
    "glance": lambda folder, log: user_files.glance(Path(folder), Path(log)),
    "create": lambda path, data: user_files.create(Path(path), base64.b64decode(data)),
    "append": lambda path, data, limit, keep: user_files.append(
        Path(path), base64.b64decode(data), limit, keep
    ),
    "keep_newest": lambda folder, pattern, count: user_files.keep_newest(
        Path(folder), pattern, count
    ),
    "remove": lambda paths: user_files.remove([Path(path) for path in paths]),
    "make_folder": lambda path: user_files.make_folder(Path(path)),
    "real_folder": folder_facts.real_folder,
    "free_bytes": lambda path: folder_facts.free_bytes(Path(path)),
    "room": lambda path: folder_facts.room(Path(path)),
    "versions": lambda venv, places: folder_facts.versions(
        [*folder_facts.package_folders(venv), *places]
    ),
    "empty": lambda path: user_files.empty(Path(path)),
    "listens": user_files.listens,
    "look": _LOOKS.answer,
}


def _packed(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def main(_words: list[str]) -> int:
    """Do what is asked, line by line, until the input ends."""
    for line in sys.stdin.buffer:
        asked = json.loads(line)
        answer: dict[str, Any]
        try:
            answer = {"result": _WORK[asked["do"]](*asked["with"])}
        except OSError as error:
            answer = {"errno": error.errno, "error": error.strerror or type(error).__name__}
        sys.stdout.write(json.dumps({**answer, "number": asked["number"]}) + "\n")
        sys.stdout.flush()
    return 0


class Hand:
    """Asks the process; it is started when it is needed, and again when something is wrong."""

    def __init__(self, user: str, seconds: float = _SECONDS) -> None:
        """Ask as a user; an answer takes at most so many seconds."""
        self._user = user
        self._seconds = seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._coming = b""
        self._number = 0
        self._not_before = 0.0
        self._rights: tuple[int, ...] | None = None
        self._is_closed = False

    def fits(self, user: str) -> bool:
        """Return whether its process, if it has one, has the rights that a new one would have."""
        return user == self._user and self._rights in (None, _rights_of(user))

    def close(self) -> None:
        """End its process."""
        with self._lock:
            self._is_closed = True
            self._end()

    def read(self, path: Path, limit: int, start: int = 0) -> bytes:
        """Return at most so many bytes; none when there is no such file."""
        return self._bytes(limit, "read", str(path), limit, start)

    def tail(self, path: Path, limit: int) -> bytes:
        """Return the end of a file."""
        return self._bytes(limit, "tail", str(path), limit)

    def load(self, path: Path) -> dict[str, Any] | None:
        """Return a small file's object; None when it is missing or broken; raises CannotReach."""
        found = self._ask("load", str(path))
        return found if isinstance(found, dict) else None

    def glance(self, folder: Path, log: Path) -> Glance:
        """Return what is looked at every second; raises CannotReach."""
        found = self._ask("glance", str(folder), str(log))
        return Glance.from_json(found if isinstance(found, dict) else {})

    def stamp(self, path: Path) -> list[int] | None:
        """Return inode, size and time of a file."""
        return _stamp(self._or_none("stamp", str(path)))

    def create(self, path: Path, content: bytes) -> None:
        """Write a new file in the place of an older one; raises OSError."""
        self._ask("create", str(path), _packed(content))

    def append(self, path: Path, data: bytes, limit: int, keep: int) -> None:
        """Add whole lines to a file that rotates; raises OSError."""
        self._ask("append", str(path), _packed(data), limit, keep)

    def keep_newest(self, folder: Path, pattern: str, count: int) -> None:
        """Remove all but the newest files of a kind."""
        self._or_none("keep_newest", str(folder), pattern, count)

    def remove(self, *paths: Path) -> None:
        """Remove files, if they are there; raises OSError."""
        self._ask("remove", [str(path) for path in paths])

    def make_folder(self, path: Path) -> None:
        """Make a folder, if it is not there; raises OSError."""
        self._ask("make_folder", str(path))

    def real_folder(self, path: str) -> str:
        """Return a folder's path without links; empty when it is none."""
        found = self._or_none("real_folder", path)
        return found if isinstance(found, str) and found.startswith("/") else ""

    def free_bytes(self, path: Path) -> int | None:
        """Return what can still be written in a folder, or in the one that it will be in."""
        found = self._or_none("free_bytes", str(path))
        return found if is_whole(found) else None

    def empty(self, path: Path) -> None:
        """Take all out of a file, which stays the same file; raises OSError."""
        self._ask("empty", str(path))

    def listens(self, path: Path) -> bool:
        """Return whether a server of the user's may listen on a socket: false if there is none."""
        return self._or_none("listens", str(path)) is not False

    def room(self, path: Path) -> dict[str, int] | None:
        """Return what is free, and how much there is, on the file system of a folder.

        Raises OSError if it does not answer.
        """
        found = self._ask("room", str(path))
        if not isinstance(found, dict):
            return None
        return {str(key): one for key, one in found.items() if is_whole(one) and 0 <= one < 2**62}

    def look(self, number: int, asked: dict[str, Any], seconds: float) -> dict[str, Any] | None:
        """Return what a look at the fence found, waiting a little; None while it is being done.

        Questions have different numbers. Raises OSError.
        """
        found = self._ask("look", number, asked, seconds)
        return found if isinstance(found, dict) else None

    def versions(self, venv: str, places: list[str]) -> dict[str, str]:
        """Return the versions of the frameworks in a venv, or in other folders of packages."""
        found = self._or_none("versions", venv, places)
        told = found if isinstance(found, dict) else {}
        return {one_line(str(name), 40): one_line(str(one), 60) for name, one in told.items()}

    def _bytes(self, limit: int, what: str, *arguments: Any) -> bytes:
        found = self._or_none(what, *arguments)
        try:
            return base64.b64decode(found if isinstance(found, str) else "")[:limit]
        except ValueError:
            return b""

    def _or_none(self, what: str, *arguments: Any) -> Any:
        try:
            return self._ask(what, *arguments)
        except OSError:
            return None

    def _ask(self, what: str, *arguments: Any) -> Any:
        account = as_user.account_of(self._user)
        if account is None:
            raise CannotReach(f"there is no user {self._user!r} on this host")
        if account.pw_uid == os.geteuid():
            return json.loads(json.dumps(_WORK[what](*arguments)))
        with self._lock:
            if self._is_closed or time.monotonic() < self._not_before:
                raise CannotReach("the user's folders did not answer")
            try:
                return self._exchange(account.pw_name, what, list(arguments))
            except (ValueError, RecursionError, BrokenPipeError, as_user.UserError) as error:
                self._end()
                self._not_before = time.monotonic() + _PAUSE
                why = str(error) if isinstance(error, as_user.UserError) else "odd answer"
                raise CannotReach(f"the user's folders: {why}") from None

    def _exchange(self, user: str, what: str, arguments: list[Any]) -> Any:
        deadline = time.monotonic() + self._seconds
        process = self._process or self._start(user)
        self._number += 1
        asked = {"do": what, "with": arguments, "number": self._number}
        self._write(process, json.dumps(asked).encode("ascii") + b"\n", deadline)
        answer = json.loads(self._line(process, deadline))
        if not isinstance(answer, dict) or answer.get("number") != self._number:
            raise ValueError("an answer to something else")
        if "error" in answer:
            number = answer.get("errno")
            text = str(answer["error"])[:300]
            raise OSError(number if is_whole(number) else None, text)
        return answer.get("result")

    def _start(self, user: str) -> subprocess.Popen[bytes]:
        self._process = child.begun(user, "hand", stdout=subprocess.PIPE)
        self._coming = b""
        self._rights = _rights_of(user)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
        return self._process

    @staticmethod
    def _write(process: subprocess.Popen[bytes], data: bytes, deadline: float) -> None:
        if process.stdin is None:
            return
        pipe = process.stdin.fileno()
        while data:
            _wait(pipe, select.POLLOUT, deadline)
            with contextlib.suppress(BlockingIOError):
                data = data[os.write(pipe, data) :]

    def _line(self, process: subprocess.Popen[bytes], deadline: float) -> bytes:
        if process.stdout is None:
            return b""
        pipe = process.stdout.fileno()
        while b"\n" not in self._coming:
            if len(self._coming) > _MOST:
                raise ValueError("it says too much")
            _wait(pipe, select.POLLIN, deadline)
            with contextlib.suppress(BlockingIOError):
                part = os.read(pipe, 1 << 16)
                if not part:
                    raise ValueError("it ended")
                self._coming += part
        line, _newline, self._coming = self._coming.partition(b"\n")
        return line

    def _end(self) -> None:
        process, self._process = self._process, None
        child.end(process)


def _rights_of(user: str) -> tuple[int, ...]:
    """Return the numbers of a user and of all groups that the user is in; none without one."""
    account = as_user.account_of(user)
    if account is None:
        return ()
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    return (account.pw_uid, account.pw_gid, *sorted(groups))


def _wait(pipe: int, what: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(pipe, what)
    left = deadline - time.monotonic()
    if left <= 0 or not poll.poll(left * 1000):
        raise as_user.UserError("no answer in time")
