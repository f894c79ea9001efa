# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Act as a user in places that belong to the user. Private to tpu.fleet.

What a user can write may be a link, a pipe, a device, an endless file, or a folder that is swapped
while root looks. So root itself opens, writes and runs nothing there: a child process gives up
root's rights first, and has a time limit and an answer of limited size.

The run agent uses this file too, so it needs only Python 3.8.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import select
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple, TypeVar, Union

T = TypeVar("T")

# Only root can write to these folders.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The time limit of a plain read or write of a small file, also on a slow NFS share.
SECONDS = 60.0
# How long a child may neither use CPU time nor read nor write. Its user can stop or freeze it.
STILL = 60.0
_LOOK = 5.0
# The largest answer of a child process.
MOST_BYTES = 4_000_000
# The largest file of a user that root reads.
MOST_OF_FILE = 1 << 20
# By absolute path, because the user may have set PATH.
_RUNUSER = "/usr/sbin/runuser"
_ENV = "/usr/bin/env"
_SETPRIV = "/usr/bin/setpriv"
# Held while a child starts, so that a child of another thread does not inherit this pipe.
_STARTING = threading.Lock()
# The signals that ask a process to end.
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class UserError(Exception):
    """An action as a user failed; the text has the reason."""


class TimeLimitError(UserError):
    """An action exceeded a time limit, which a user can cause by stopping own processes."""


# When a child of each user last did something. One may wait for another, for example for a lock.
_moved: Dict[int, float] = {}
_STATES = {
    "T": "was stopped by a signal",
    "t": "was stopped by a debugger",
    "D": "waits for a disk or a share",
    "Z": "has ended and left others that do nothing",
}


class Pulse:
    """Watches whether a child, its session and its descendants do anything at all."""

    def __init__(self, pid: int, uid: int, still: float, proc: str = "/proc") -> None:
        self._pid = pid
        self._uid = uid
        self._still = still
        self.pause = min(_LOOK, still / 4)
        self._proc = Path(proc)
        self._seen: Dict[int, Tuple[int, ...]] = {}
        self._since = self._looked = time.monotonic()

    def check(self) -> None:
        """Raise TimeLimitError if they have done nothing for long. Looks every few seconds."""
        now = time.monotonic()
        if now - self._looked < self.pause:
            return
        self._looked = now
        seen = self._look()
        if seen != self._seen:
            self._seen = seen
            self._since = _moved[self._uid] = now
        if now - max(self._since, _moved.get(self._uid, 0.0)) > self._still:
            raise TimeLimitError(
                f"it made no progress for {round(self._still)} seconds: process {self._pid} "
                f"{_STATES.get(self._state(), 'waits, and uses no CPU time')}"
            )

    def _look(self) -> Dict[int, Tuple[int, ...]]:
        """Return CPU time and bytes of each process."""
        parents: Dict[int, int] = {}
        mine, used = {self._pid}, {}
        for entry in self._proc.glob("[0-9]*"):
            words = self._stat(entry)
            if len(words) < 15:
                continue
            pid = int(entry.name)
            parents[pid] = int(words[1])
            used[pid] = (int(words[11]), int(words[12]))
            if int(words[3]) == self._pid:
                mine.add(pid)
        for pid in parents:
            line = [pid]
            while line[-1] in parents and line[-1] not in mine and len(line) < 100:
                line.append(parents[line[-1]])
            if line[-1] in mine:
                mine.update(line)
        return {pid: (*used[pid], *self._bytes(pid)) for pid in mine if pid in used}

    def _stat(self, process: Path) -> List[str]:
        """Return the fields after the name, which may contain blanks and parentheses."""
        try:
            return (process / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            return []

    def _bytes(self, pid: int) -> Tuple[int, ...]:
        try:
            lines = (self._proc / str(pid) / "io").read_text().splitlines()
        except OSError:
            return ()
        return tuple(int(line.split()[1]) for line in lines[:2])

    def _state(self) -> str:
        """Return the state of the child, or of what was stopped below it."""
        found = [self._stat(self._proc / str(pid)) for pid in (self._pid, *self._seen)]
        states = [words[0] for words in found if words]
        return next((one for one in states if one in "Tt"), states[0] if states else "Z")


def account_of(name: str) -> Optional[pwd.struct_passwd]:
    """Return a user's account, or None."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def environment_of(account: pwd.struct_passwd) -> Dict[str, str]:
    """Return the initial environment of a user's program, without anything of root's."""
    return {
        "HOME": account.pw_dir,
        "LOGNAME": account.pw_name,
        "USER": account.pw_name,
        "SHELL": account.pw_shell or "/bin/sh",
        "PATH": PATH,
        "LANG": "C.UTF-8",
    }


def take_rights(account: pwd.struct_passwd, umask: int = 0o022) -> None:
    """Change this process to the user's rights, irrevocably."""
    if os.geteuid() != account.pw_uid:
        os.initgroups(account.pw_name, account.pw_gid)
        os.setgid(account.pw_gid)
        os.setuid(account.pw_uid)
    os.umask(umask)
    os.environ.clear()
    os.environ.update(environment_of(account))
    os.chdir("/")


def as_user(
    user: Union[str, pwd.struct_passwd],
    work: Callable[[], T],
    *,
    seconds: float = SECONDS,
    most_bytes: int = MOST_BYTES,
    umask: int = 0o022,
    still: float = STILL,
) -> T:
    """Run `work` in a process with only the user's rights; return its result.

    The result is passed as JSON. The user can end or stop the process, but not change it.
    Raise UserError if the work fails or returns more than `most_bytes`, and TimeLimitError if it
    takes longer than `seconds`, or if a user other than root does nothing for `still` seconds.
    """
    account = pwd.getpwnam(user) if isinstance(user, str) else user
    with _STARTING:
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
                os.close(reading)
                # Also ends this child if its parent is killed meanwhile.
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, min(seconds + 1, 1e8))
                answer = _answer(account, work, umask)
                with os.fdopen(writing, "wb") as stream:
                    stream.write(json.dumps(answer).encode("ascii"))
            finally:
                os._exit(0)
        os.close(writing)
    try:
        pulse = Pulse(child, account.pw_uid, still) if account.pw_uid else None
        text = _read_all(reading, time.monotonic() + seconds, most_bytes, pulse)
    except UserError as error:
        raise type(error)(f"{account.pw_name}: {error}") from None
    finally:
        os.close(reading)
        _end(child)
    try:
        said = json.loads(text)
    except ValueError:
        raise UserError(f"{account.pw_name}: the work ended without an answer") from None
    if "error" in said:
        raise UserError(f"{account.pw_name}: {said['error']}")
    result: T = said["result"]
    return result


def _answer(account: pwd.struct_passwd, work: Callable[[], Any], umask: int) -> Dict[str, Any]:
    try:
        # A thread that starts it may have blocked them, and programs would inherit that.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        take_rights(account, umask)
        return {"result": work()}
    except OSError as error:
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        return {"error": f"{where}{error.strerror or error or type(error).__name__}"}
    except UserError as error:
        return {"error": str(error)}
    except BaseException as error:
        # The text of the error may have secrets.
        return {"error": f"unexpected {type(error).__name__}"}


def _read_all(reading: int, deadline: float, most: int, pulse: Optional[Pulse]) -> bytes:
    poll = select.poll()
    poll.register(reading, select.POLLIN | select.POLLHUP)
    parts: List[bytes] = []
    size = 0
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeLimitError("the work took longer than its time limit")
        if pulse is not None:
            pulse.check()
            left = min(left, pulse.pause)
        if not poll.poll(left * 1000):
            continue
        part = os.read(reading, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)
        size += len(part)
        if size > most:
            raise UserError(f"the work answered more than {most} bytes")


def _end(child: int) -> None:
    """Kill the child and its descendants; one that hangs in a share is left to the kernel."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    with contextlib.suppress(OSError):
        os.kill(child, signal.SIGKILL)
    deadline, pause = time.monotonic() + 2, 0.0002
    with contextlib.suppress(ChildProcessError):
        # Nearly always it ends at once.
        while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(pause)
            pause = min(2 * pause, 0.005)


def read_plain(path: str, most: int = MOST_OF_FILE) -> Optional[bytes]:
    """Return a plain file's content; None if it does not exist.

    Raise UserError for a link, a pipe, a device, a folder, and for more than `most` bytes.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise UserError(f"{path} is not a plain file") from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UserError(f"{path} is not a plain file")
    with os.fdopen(handle, "rb") as stream:
        content = stream.read(most + 1)
    if len(content) > most:
        raise UserError(f"{path} has more than {most} bytes")
    return content


def read_as(
    user: Union[str, pwd.struct_passwd],
    path: str,
    *,
    most: int = MOST_OF_FILE,
    seconds: float = SECONDS,
) -> Optional[str]:
    """Return the text of a user's plain file, read as the user; None if it does not exist."""

    def work() -> Optional[str]:
        content = read_plain(path, most)
        return None if content is None else content.decode("utf-8", "surrogateescape")

    return as_user(user, work, seconds=seconds, most_bytes=7 * most + 1024)


def write_plain(path: str, content: bytes, mode: int = 0o644) -> None:
    """Replace a file in one step; a link or pipe in its place is replaced and not followed."""
    target = Path(path)
    new = target.with_name(f".{target.name}.{os.getpid()}.new")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    handle = os.open(str(new), flags, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        new.replace(target)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise
    sync_folder(str(target.parent))


def sync_folder(path: str) -> None:
    """Write a folder's entries to the disk, because a power cut could undo a rename."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems do not support it.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def foreign(path: Union[str, Path]) -> Optional[str]:
    """Return the part of a path that users other than root can change; None if there is none.

    In a folder with the sticky bit, such as /tmp, users cannot change what root created there.
    """
    for start in (Path(path), Path(os.path.realpath(str(path)))):
        for one in (*reversed(start.parents), start):
            try:
                seen = one.lstat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            open_to_others = seen.st_mode & 0o022 and not seen.st_mode & stat.S_ISVTX
            if stat.S_ISLNK(seen.st_mode):
                open_to_others = False
            if seen.st_uid not in (0, os.geteuid()) or open_to_others:
                return str(one)
    return None


def refuse_foreign(folder: Union[str, Path]) -> None:
    """Raise UserError if a user could put another folder in the place of this one."""
    part = foreign(folder)
    if part is not None:
        raise UserError(f"root does nothing in {folder}: {part} can be changed by others")


def give_folder(path: Union[str, Path], uid: int, gid: int, mode: int) -> None:
    """Give a folder that root has created to a user; a link in its place is not followed."""
    refuse_foreign(Path(path).parent)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(str(path), flags)
    try:
        os.fchown(handle, uid, gid)
        os.fchmod(handle, mode)
    finally:
        os.close(handle)


def command_as(
    user: Union[str, pwd.struct_passwd],
    command: List[str],
    environment: Optional[Mapping[str, str]] = None,
) -> List[str]:
    """Return a command for root that runs a program as the user, with the user's limits.

    Its environment is `environment` alone (default: environment_of). All users can read command
    lines, so secrets must be passed another way. The caller starts it with root's environment
    and without a terminal.
    """
    account = pwd.getpwnam(user) if isinstance(user, str) else user
    given = environment_of(account) if environment is None else environment
    clean = [_ENV, "-i", *(f"{key}={value}" for key, value in given.items()), *command]
    if account.pw_uid == os.geteuid():
        return clean
    return [_RUNUSER, "-u", account.pw_name, "--", *clean]


def confined(account: pwd.struct_passwd, command: List[str]) -> List[str]:
    """Return a command for root that runs a program as the user without ever gaining rights.

    Its environment is the one that the caller starts it with, which may have secrets. The command
    runs as root for a moment, so the user must not control anything in that environment.
    """
    if account.pw_uid == os.geteuid():
        return command
    rights = [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
    return [_SETPRIV, *rights, "--no-new-privs", "--", *command]


class Done(NamedTuple):
    """The exit code and the output of a program."""

    code: int
    out: bytes
    err: bytes


def run(
    command: List[str],
    environment: Optional[Mapping[str, str]] = None,
    *,
    seconds: float,
    most_bytes: int = MOST_BYTES,
    own_session: bool = True,
    uid: Optional[int] = None,
    still: float = STILL,
    unwanted: Optional[threading.Event] = None,
    given: bytes = b"",
) -> Done:
    """Run a program without a terminal and with only this environment; return its output.

    It reads `given` from its standard input.

    Raise TimeLimitError if it takes longer than `seconds`, UserError if its output exceeds
    `most_bytes`, and OSError if it cannot be started. Afterwards, kill what is left of its process
    group. Without `own_session` it stays in the caller's group, and ends with that.

    `uid` is the user whose rights it has, if that is not root: raise TimeLimitError if it does
    nothing for `still` seconds. Once `unwanted` is set, by another thread, raise UserError.
    """
    # The program inherits the mask of this thread, which may have blocked them.
    mask = signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
    source = _source(given)
    try:
        # The caller may not be a module, so there may be no run_command.
        # pylint: disable-next=ansible-bad-function
        process = subprocess.Popen(
            command,
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd="/",
            env={"PATH": PATH, "LANG": "C.UTF-8"} if environment is None else dict(environment),
            start_new_session=own_session,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(source)
    try:
        pulse = Pulse(process.pid, uid, still) if uid else None
        deadline = time.monotonic() + seconds
        out, err = _read_both(process, deadline, most_bytes, pulse, unwanted)
    finally:
        # Until the child is waited for, its process id is not reused.
        with contextlib.suppress(OSError):
            if own_session:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                os.kill(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(2)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
    return Done(process.returncode, out, err)


def _source(given: bytes) -> int:
    """Return a file to read this from, which its reader cannot change."""
    if not given:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    whole = os.memfd_create("given", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    left = memoryview(given)
    while left:
        left = left[os.write(whole, left) :]
    fcntl.fcntl(
        whole, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
    )
    os.lseek(whole, 0, os.SEEK_SET)
    return whole


def run_as(
    user: Union[str, pwd.struct_passwd],
    command: List[str],
    environment: Optional[Mapping[str, str]] = None,
    *,
    seconds: float = SECONDS,
    most_bytes: int = MOST_BYTES,
    unwanted: Optional[threading.Event] = None,
    given: bytes = b"",
) -> Done:
    """Run a program as a user; see run() and command_as()."""
    account = pwd.getpwnam(user) if isinstance(user, str) else user
    words = command_as(account, command, environment)
    limits: Dict[str, Any] = {"seconds": seconds, "most_bytes": most_bytes, "unwanted": unwanted}
    return run(words, uid=account.pw_uid, given=given, **limits)


def _read_both(
    process: "subprocess.Popen[bytes]",
    deadline: float,
    most: int,
    pulse: Optional[Pulse],
    unwanted: Optional[threading.Event],
) -> Tuple[bytes, bytes]:
    """Return output and errors when the program ends, even if a child keeps the pipes open."""
    # WNOWAIT keeps the process id from being reused.
    look = os.WEXITED | os.WNOHANG | os.WNOWAIT
    poll = select.poll()
    parts: Dict[int, bytearray] = {}
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            poll.register(pipe, select.POLLIN | select.POLLHUP)
            parts[pipe.fileno()] = bytearray()
    out, err = list(parts.values())
    ended = False
    while parts or not ended:
        if time.monotonic() > deadline:
            raise TimeLimitError("it took longer than its time limit")
        if unwanted is not None and unwanted.is_set():
            raise UserError("it was ended, because its result is no longer wanted")
        if pulse is not None:
            pulse.check()
        ready = poll.poll(0 if ended else 200 if parts else 1)
        if not ready:
            if ended:
                break
            ended = os.waitid(os.P_PID, process.pid, look) is not None
        for number, _event in ready:
            part = os.read(number, 1 << 16)
            if not part:
                poll.unregister(number)
                del parts[number]
            elif len(out) + len(err) + len(part) > most:
                raise UserError(f"it said more than {most} bytes")
            else:
                parts[number] += part
    return bytes(out), bytes(err)
