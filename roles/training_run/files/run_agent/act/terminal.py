"""Start a program in a tmux session of its user."""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import shlex
import socket
import stat
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..decide import compile_cache, fence
from ..decide.config import Config
from ..decide.values import one_line
from . import as_user, bucket_guard, environment, installed, processes, shared_places, store
from .hand import Hand

_MARK = "@tpu_fleet_run"
# What tmux says when its server was ending: a server ends with its last session.
_SERVER_ENDED = ("server exited unexpectedly", "lost server", "no server running")
_SERVER_ENDS_IN = 5.0  # seconds
_IS_THERE = "duplicate session"
_BEGUN = "#{pid} #{pane_pid}"
_CHECKPOINTS = 30.0  # seconds between looks at their age, where no program is ended for it
_READERS = "adm"  # the system's group of those who read logs, such as the login with sudo


class CannotStart(Exception):
    """The program could not be started, and why."""


def account_of(user: str) -> pwd.struct_passwd:
    account = as_user.account_of(user)
    if account is None:
        raise CannotStart(f"there is no user {user!r} on this host")
    return account


def uid_of(user: str) -> int | None:
    """Return a user's id; None when there is no such user (yet)."""
    account = as_user.account_of(user)
    return None if account is None else account.pw_uid


def check(config: Config, hand: Hand) -> None:
    """Raise CannotStart when something is in the way of a start."""
    _check_places(config, hand)
    # A server ends with its last session, so nearly always there is none to be asked.
    if hand.listens(_tmux_folder(config) / "default"):
        _refuse_theirs(config)


def _check_places(config: Config, hand: Hand) -> None:
    if os.geteuid() == 0:
        take_tmux_folder(config)
    workdir(config, hand)
    if config.venv and not hand.real_folder(f"{config.venv}/bin"):
        raise CannotStart(f"the environment {config.venv} is not there")


def workdir(config: Config, hand: Hand) -> str:
    """Return the folder to start in; a link is followed once, so that a switch disturbs no run."""
    wanted = config.workdir or account_of(config.user).pw_dir
    found = hand.real_folder(wanted)
    if not found:
        raise CannotStart(f"the working folder {wanted} is not there, or does not answer")
    return found


def resolved(config: Config, hand: Hand) -> Config:
    """Name the environment by the folder that it is in now.

    Its path is a link. Through the link, what a program imports late would come from an
    environment that was built, and the link turned to, meanwhile.
    """
    if not config.venv:
        return config
    return replace(config, venv=hand.real_folder(config.venv) or config.venv)


def user_environment(user: str) -> dict[str, str]:
    """Return the environment that programs of a user begin with."""
    result = {**environment.of_machine(), **as_user.environment_of(account_of(user))}
    if "TMUX_TMPDIR" in os.environ:
        result["TMUX_TMPDIR"] = os.environ["TMUX_TMPDIR"]
    return result


def take_tmux_folder(config: Config) -> None:
    """Create the folder of tmux for the run's user, before another user does."""
    owner = account_of(config.user)
    folder = _tmux_folder(config)
    try:
        shared_places.take_folder(folder, owner.pw_uid, owner.pw_gid)
    except OSError as error:
        raise CannotStart(f"{folder} cannot be made: {error.strerror}") from None


def _tmux_folder(config: Config) -> Path:
    """Return the folder in which tmux has the sockets of the run's user."""
    base = Path(os.environ.get("TMUX_TMPDIR", "/tmp"))  # noqa: S108 - tmux's own choice
    return base / f"tmux-{account_of(config.user).pw_uid}"


def _tmux(user: str, *arguments: str) -> as_user.Done:
    try:
        return as_user.run_as(
            account_of(user),
            ["/usr/bin/tmux", *arguments],
            user_environment(user),
            seconds=20.0,
            most_bytes=65536,
        )
    except (OSError, as_user.UserError) as error:
        raise CannotStart(f"tmux cannot be run: {error}") from None


def _session_owner(config: Config) -> str:
    # One question, because the session may end between two.
    shown = _tmux(
        config.user,
        "display-message",
        "-p",
        "-t",
        f"={config.run}:",
        f"#{{session_name}} #{{{_MARK}}}",
    )
    name, _space, mark = shown.out.strip().partition(b" ")
    if name != config.run.encode():
        return ""
    return "ours" if mark == name else "theirs"


def _refuse_theirs(config: Config) -> None:
    if _session_owner(config) == "theirs":
        raise CannotStart(
            f"user {config.user} has a tmux session {config.run!r} of their own; rename it with "
            f"`tmux rename-session -t ={config.run} other`"
        )


def start(config: Config, hand: Hand, run_id: str, attempt: int, owner: str) -> None:
    """Start an attempt; its parent process writes program.json and result.json."""
    account = account_of(config.user)
    _check_places(config, hand)
    folder = prepare_folders(config)
    old = ("program", "result", "progress", "checkpoints", "times")
    hand.remove(*(folder / f"{name}.json" for name in old), config.paths.stacks)
    log = installed.command("log", "--file", str(config.paths.log))
    log += ["--health", str(folder / "log.json")]
    log += ["--bytes", str(config.log_bytes), "--keep", str(config.log_files)]
    order = {
        "run": config.run,
        "attempt": attempt,
        "worker": config.worker,
        "command": config.command,
        "workdir": workdir(config, hand),
        "env": environment.of_program(resolved(config, hand), run_id, attempt, _basis(config)),
        "folder": str(folder),
        "log": str(config.paths.log),
        "fence": _fence(config, run_id, attempt, owner),
        "checkpoints_every": config.timing.fence if config.hang_seconds > 0 else _CHECKPOINTS,
        "look_every": config.timing.fence_in_bucket
        if fence_object(config)
        else config.timing.fence,
    }
    path = config.paths.runtime / "launch.json"
    store.write(path, order, mode=0o600)
    if os.geteuid() == 0:
        os.chown(str(path), account.pw_uid, account.pw_gid)
    _new_session(config, installed.command("program"), path, log)


def _basis(config: Config) -> dict[str, str]:
    """Return the variables that the run's own go before: the user's, and those of the cache."""
    folder = give_cache_folder(config)
    named = compile_cache.variables(config.env, str(folder) if folder else "")
    return {**user_environment(config.user), **named}


def cache_folder(config: Config) -> Path | None:
    """Return the folder of a run's compilation cache; None if it has none, or one of its own.

    It is the user's, so that a run which gets another user begins with another folder.
    """
    if not config.compile_cache_bytes or compile_cache.DIRECTORY in config.env:
        return None
    return config.paths.cache / config.run / config.user


def give_cache_folder(config: Config) -> Path | None:
    """Make that folder; return None where there is none that belongs to the user."""
    folder = cache_folder(config)
    if folder is None:
        return None
    _give(folder, config.user)
    try:
        found = folder.lstat()
    except OSError:
        return None
    is_theirs = stat.S_ISDIR(found.st_mode) and found.st_uid == uid_of(config.user)
    return folder if is_theirs else None


def mark_of(config: Config, run_id: str, attempt: int, owner: str) -> fence.Mark:
    """Return the mark of an attempt that this worker leads."""
    return fence.Mark(
        attempt, owner, run_id, socket.gethostname(), at=time.time(), slice=config.slice
    )


def fence_object(config: Config) -> dict[str, Any] | None:
    """Return where the fence is in a bucket; None where the checkpoints are in none."""
    place = fence.object_of(config.checkpoint_dir, config.fence)
    if place is None:
        return None
    servers = {"storage": config.storage, "metadata": config.metadata}
    return {**servers, "bucket": place[0], "name": place[1]}


def fence_seconds(config: Config) -> float:
    """Return after which time a live owner has seen that another has taken over."""
    if fence_object(config) is None:
        return fence.LOOKS_UNTIL_SURE * config.timing.fence
    return fence.LOOKS_UNTIL_SURE_OF_BUCKET * config.timing.fence_in_bucket


def _fence(config: Config, run_id: str, attempt: int, owner: str) -> dict[str, Any] | None:
    path, place = fence.path_of(config.checkpoint_dir, config.fence), fence_object(config)
    told = {"mark": mark_of(config, run_id, attempt, owner)._asdict()}
    if place is not None:
        # Worker 0 looks; the others do while it does not answer them.
        heard = "" if config.leader else str(heard_file(config))
        restore = config.checkpoint_dir.rstrip("/") if config.attempt_folders else ""
        sure = fence_seconds(config)
        return {**told, "object": place, "sure": sure, "heard": heard, "restore_below": restore}
    # Worker 0 speaks for its slice; the others only look.
    return {**told, "path": str(path), "write": config.leader} if path else None


def heard_file(config: Config) -> Path:
    """Return the file whose time is that of the last answer that worker 0 reads the fence."""
    return config.paths.runtime / "heard"


def note_heard(config: Config) -> None:
    """Note that worker 0 has answered so, by a clock that cannot be set; all may see the time."""
    path, now = heard_file(config), bucket_guard.now()
    with contextlib.suppress(OSError):  # then the fence is read instead
        if not path.exists():
            path.touch()
        os.utime(str(path), (now, now))


def _new_session(config: Config, command: list[str], launch: Path, log: list[str]) -> None:
    size, name = ["-x", "200", "-y", "50"], f"={config.run}:"
    # In one request, so that tmux begins the log before it reads a line of the program.
    logged = [";", "pipe-pane", "-t", name, f"exec {shlex.join(log)}"]
    marked = [";", "set-option", "-t", name, _MARK, config.run]
    deadline = time.monotonic() + _SERVER_ENDS_IN
    before = processes.with_argument(str(launch), uid_of(config.user))
    while True:
        done = _tmux(
            config.user, "new-session", "-d", "-P", "-F", _BEGUN, "-s", config.run, *size,
            *command, str(launch), *logged, *marked,
        )  # fmt: skip
        if not done.code:
            break
        said = one_line(done.err.decode("utf-8", "replace"))
        is_soon = time.monotonic() < deadline
        if _IS_THERE in said and is_soon:
            # Asked only now, because the session before nearly always ended with its program.
            _refuse_theirs(config)
            _tmux(config.user, "kill-session", "-t", f"={config.run}")
            continue
        ended = any(text in said for text in _SERVER_ENDED) and is_soon
        # A server that was killed may have begun the program, which must not run twice.
        if not ended or processes.with_argument(str(launch), uid_of(config.user)) - before:
            raise CannotStart(f"tmux: {said}")
        time.sleep(0.05)
    for pid in pids_in(done.out):
        _take_into_our_group(pid, uid_of(config.user))


def pids_in(said: bytes) -> list[int]:
    """Return the two numbers that tmux was asked for; it is the user's, and may say anything."""
    words = said.split()
    good = len(words) == 2 and all(word.isdigit() and len(word) <= 10 for word in words)
    return [int(word) for word in words] if good else []


def _take_into_our_group(pid: int, uid: int | None) -> None:
    """Move a process of the run's user to the unit's control group.

    A tmux server that a login began is in the login's group, which ends first at a shutdown: the
    program would lose its terminal in the middle of its grace. The user can have another process of
    their own moved instead, which is charged to their run and never killed with it; only their own.
    """
    if os.geteuid() != 0 or not processes.belongs_to(pid, uid):
        return
    with contextlib.suppress(OSError):
        line = Path("/proc/self/cgroup").read_text(encoding="ascii").strip().splitlines()[-1]
        group = Path("/sys/fs/cgroup") / line.split(":", 2)[2].lstrip("/") / "cgroup.procs"
        if line.startswith("0::"):
            group.write_text(str(pid), encoding="ascii")


def prepare_folders(config: Config) -> Path:
    """Make the folders of a run in memory; the user may write in one of them only."""
    config.paths.runtime.mkdir(parents=True, exist_ok=True)
    folder = config.paths.user
    folder.mkdir(exist_ok=True, mode=0o700)
    if os.geteuid() == 0:
        account = account_of(config.user)
        config.paths.runtime.chmod(0o711)  # the user passes through
        os.chown(str(folder), account.pw_uid, account.pw_gid)
    prepare_log_folder(config)
    if config.checkpoint_dir.startswith("/var/lib/tpu-fleet/"):
        _give(Path(config.checkpoint_dir), config.user)
    return folder


def _only_below_roots(folder: Path) -> bool:
    """Say whether only root can put something else in the place of the folders above."""
    there = [place for place in folder.parents if place.exists()]
    real = Path(os.path.realpath(str(there[0])))
    # As they are named, and as they are: a link may lead from one to the other.
    for place in (*there, real, *real.parents):
        found = place.stat()
        # In a folder with the sticky bit no other user replaces what is root's.
        open_to_all = found.st_mode & stat.S_IWOTH and not found.st_mode & stat.S_ISVTX
        if found.st_uid != 0 or open_to_all:
            return False
    return True


def only_roots(path: Path) -> bool:
    """Return whether only root can change what is at a path, or put something else there."""
    for place in (path, *path.parents):
        try:
            found = place.lstat()
        except OSError:
            return False
        if stat.S_ISLNK(found.st_mode) or found.st_uid != 0:
            return False
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
    return True


def prepare_log_folder(config: Config) -> None:
    """Make the folder of the log, which is the user's; those who may read logs may read it."""
    _give(config.paths.log.parent, config.user, readers=_READERS)


def _give(folder: Path, user: str, readers: str = "") -> None:
    """Make a folder below one of root's for a user; besides, only a group gets into it."""
    with contextlib.suppress(OSError):  # a full disk; the user's own part reports it
        account = account_of(user)
        if folder.exists():
            if os.geteuid() == 0 and _only_below_roots(folder):
                _close(folder, account, readers)
            return
        if account.pw_uid == os.geteuid() != 0:
            folder.mkdir(parents=True, mode=0o700)
            return
        # Below another user's folder root makes nothing: the program's parent tries.
        if _only_below_roots(folder):
            folder.parent.mkdir(parents=True, mode=0o755, exist_ok=True)
            folder.mkdir(mode=0o700)
            os.chown(str(folder), account.pw_uid, account.pw_gid, follow_symlinks=False)
            _close(folder, account, readers)


def _close(folder: Path, account: pwd.struct_passwd, readers: str) -> None:
    """Keep others out of a user's folder, as it was made by an earlier version too."""
    handle = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        group = _group(readers)
        is_open = found.st_mode & 0o007 or (group is not None and found.st_gid != group)
        if found.st_uid != account.pw_uid or not is_open:
            return
        if group is not None:
            os.fchown(handle, -1, group)
        os.fchmod(handle, 0o700 if group is None else 0o750)
    finally:
        os.close(handle)


def _group(name: str) -> int | None:
    with contextlib.suppress(KeyError):
        return grp.getgrnam(name).gr_gid if name else None
    return None
