"""Start a program in a tmux session of its user."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Dict, List, Optional

from . import environment, fence, store
from .config import Config

_MARK = "@tpu_fleet_run"
_SCRIPT = Path(__file__).resolve().parent.parent / "tpu_fleet_run.py"


class CannotStart(Exception):
    """The program could not be started, and why."""


def _account(user: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        raise CannotStart(f"there is no user {user!r} on this host") from None


def uid_of(user: str) -> Optional[int]:
    """Return a user's id; None when there is no such user (yet)."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def check(config: Config) -> None:
    """Raise CannotStart when something is in the way of a start."""
    if _session_owner(config) == "theirs":
        raise CannotStart(
            f"user {config.user} has a tmux session {config.run!r} of their own; rename it with "
            f"`tmux rename-session -t ={config.run} other`"
        )
    if not Path(workdir(config)).is_dir():
        raise CannotStart(f"the working folder {workdir(config)} is not there")
    if config.venv and not Path(config.venv, "bin").is_dir():
        raise CannotStart(f"the environment {config.venv} is not there")


def workdir(config: Config) -> str:
    """Return the folder to start in; a link is followed once, so that a switch disturbs nobody."""
    return os.path.realpath(config.workdir or _account(config.user).pw_dir)


def resolved(config: Config) -> Config:
    """Name the environment by the folder that it is in now.

    Its path is a link. Through the link, what a program imports late would come from an
    environment that was built, and the link turned to, meanwhile.
    """
    return replace(config, venv=os.path.realpath(config.venv)) if config.venv else config


def user_environment(user: str) -> Dict[str, str]:
    """Return the environment that programs of a user begin with."""
    account = _account(user)
    result = environment.base(user, account.pw_dir, account.pw_shell or "/bin/sh")
    if "TMUX_TMPDIR" in os.environ:
        result["TMUX_TMPDIR"] = os.environ["TMUX_TMPDIR"]
    return result


def become(user: str) -> List[str]:
    """Return what before a command runs it as a user, with the user's groups and limits."""
    return [] if _account(user).pw_uid == os.geteuid() else ["runuser", "-u", user, "--"]


def as_user(user: str, command: List[str]) -> List[str]:
    """Return a command as its user would give it, without our environment."""
    clean = [f"{key}={value}" for key, value in user_environment(user).items()]
    return [*become(user), "env", "-i", *clean, *command]


def _tmux(user: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(
            as_user(user, ["tmux", *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            cwd="/",
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotStart(f"tmux cannot be run: {error}") from None


def _session_owner(config: Config) -> str:
    target = f"={config.run}"
    if _tmux(config.user, "has-session", "-t", target).returncode:
        return ""
    shown = _tmux(config.user, "show-options", "-v", "-t", f"{target}:", _MARK)
    return "ours" if shown.stdout.strip() == config.run else "theirs"


def start(config: Config, run_id: str, attempt: int, owner: str) -> None:
    """Start an attempt; its parent process writes program.json and result.json."""
    account = _account(config.user)
    check(config)
    if _session_owner(config):
        _tmux(config.user, "kill-session", "-t", f"={config.run}")
    folder = prepare_folders(config)
    for name in ("program.json", "result.json", "progress.json", "checkpoints.json"):
        with contextlib.suppress(FileNotFoundError):
            (folder / name).unlink()
    script = [sys.executable, str(_SCRIPT)]
    log = ["log", "--file", str(config.paths.log), "--health", str(folder / "log.json")]
    log += ["--bytes", str(config.log_bytes), "--keep", str(config.log_files)]
    order = {
        "run": config.run,
        "attempt": attempt,
        "worker": config.worker,
        "command": config.command,
        "workdir": workdir(config),
        "env": environment.of_program(
            resolved(config), run_id, attempt, user_environment(config.user)
        ),
        "folder": str(folder),
        "log": str(config.paths.log),
        "log_command": script + log,
        "fence": _fence(config, run_id, attempt, owner),
        "watch_checkpoints": config.hang_seconds > 0,
        "look_every": config.timing.fence,
    }
    path = config.paths.runtime / "launch.json"
    store.write(path, order, mode=0o600)
    if os.geteuid() == 0:
        os.chown(str(path), account.pw_uid, account.pw_gid)
    _new_session(config, [*script, "program", str(path)])


def _fence(config: Config, run_id: str, attempt: int, owner: str) -> Optional[Dict[str, Any]]:
    path = fence.path_of(config.checkpoint_dir, config.fence)
    if path is None:
        return None
    mark = fence.Mark(attempt, owner, run_id, socket.gethostname(), at=time.time())
    # Worker 0 speaks for its slice; the others only look.
    return {"path": str(path), "mark": asdict(mark), "write": config.leader}


def _new_session(config: Config, command: List[str]) -> None:
    size = ["-x", "200", "-y", "50"]
    done = _tmux(
        config.user, "new-session", "-d", "-s", config.run, *size, *command,
        ";", "set-option", "-t", f"={config.run}:", _MARK, config.run,
    )  # fmt: skip
    if done.returncode:
        raise CannotStart(f"tmux: {done.stderr.strip()}")
    shown = _tmux(
        config.user, "display-message", "-p", "-t", f"={config.run}:", "#{pid} #{pane_pid}"
    )
    for pid in shown.stdout.split():
        _take_into_our_group(pid)


def _take_into_our_group(pid: str) -> None:
    """Move a process to the unit's control group.

    A tmux server that a login began is in the login's group, which ends first at a shutdown: the
    program would lose its terminal in the middle of its grace.
    """
    if os.geteuid() != 0:
        return
    with contextlib.suppress(OSError):
        line = Path("/proc/self/cgroup").read_text(encoding="ascii").strip().splitlines()[-1]
        group = Path("/sys/fs/cgroup") / line.split(":", 2)[2].lstrip("/") / "cgroup.procs"
        if line.startswith("0::"):
            group.write_text(pid, encoding="ascii")


def prepare_folders(config: Config) -> Path:
    """Make the folders of a run in memory; the user may write in one of them only."""
    config.paths.runtime.mkdir(parents=True, exist_ok=True)
    folder = config.paths.user
    folder.mkdir(exist_ok=True, mode=0o700)
    if os.geteuid() == 0:
        account = _account(config.user)
        config.paths.runtime.chmod(0o711)  # the user passes through
        os.chown(str(folder), account.pw_uid, account.pw_gid)
    prepare_log_folder(config)
    if config.checkpoint_dir.startswith("/var/lib/tpu-fleet/"):
        _give(Path(config.checkpoint_dir), config.user)
    return folder


def prepare_log_folder(config: Config) -> None:
    """Make the folder of the log, which is the user's."""
    _give(config.paths.log.parent, config.user)


def _give(folder: Path, user: str) -> None:
    """Make a folder below one of root's for a user."""
    if folder.exists():
        return
    with contextlib.suppress(OSError):  # a full disk; the user's own part will tell
        folder.mkdir(parents=True, mode=0o755)
        if os.geteuid() == 0:
            account = _account(user)
            os.chown(str(folder), account.pw_uid, account.pw_gid)
