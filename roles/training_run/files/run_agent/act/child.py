"""A process of the agent that stays beside it, with the rights of a user."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess

from . import as_user, installed


def begun(
    user: str, command: str, stdin: int = subprocess.PIPE, stdout: int = subprocess.DEVNULL
) -> subprocess.Popen[bytes]:
    """Start one of the agent's commands as a user; raise OSError, or KeyError without the user."""
    return subprocess.Popen(
        as_user.command_as(user, installed.command(command)),
        stdin=stdin,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"PATH": as_user.PATH},
        start_new_session=True,
    )


def end(child: subprocess.Popen[bytes] | None) -> None:
    """End it, with all that it started in its process group."""
    if child is None:
        return
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
    # It is our own child, and not waited for yet: no other process has the number.
    with contextlib.suppress(OSError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.wait(1)
