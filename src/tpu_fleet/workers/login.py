"""Log in to a worker on this terminal, with this computer's ssh and the fleet's configuration.

The configuration has addresses and host keys: a machine that is not the worker is refused.
"""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from .inventory.hosts import Known
from .inventory.lookup import ask_or_say_why

LOST = 255
"""Exit status of ssh without a connection, or after losing it."""
OPTIONS = (
    "BatchMode=yes",
    "ConnectTimeout=15",
    "ControlPath=none",
    "LogLevel=ERROR",
    "ServerAliveCountMax=3",
    "ServerAliveInterval=5",
)
PUT_BACK = "\x1b[?1049l\x1b[?25h\x1b[?1l\x1b>\x1b[?1006l\x1b[?1002l\x1b[?1000l\x1b[?2004l\x1b[m"
"""Screen, cursor, keys, mouse, paste: a program cannot restore them after a lost connection."""


@dataclass(frozen=True)
class Login:
    """A login on a worker, and the command there; without one, a login shell."""

    host: str
    user: str | None = None
    command: str = ""
    terminal: bool = True


def ssh_command(known: Known, login: Login, more: Sequence[str] = ()) -> list[str]:
    """Return the ssh command for a login."""
    user = login.user or known.fleet.targets[login.host].user
    options = [word for option in (*OPTIONS, *more) for word in ("-o", option)]
    begin = ["ssh", *(["-t"] if login.terminal else []), "-F", str(known.path), *options]
    return [*begin, "-l", user, login.host, *([login.command] if login.command else [])]


def keep_open(argv: Sequence[str], terminal: bool) -> int:
    """Run ssh until it ends; put the terminal back after a lost connection."""
    try:
        code = subprocess.run(argv, check=False).returncode
    except FileNotFoundError as error:
        raise click.ClickException("This computer has no ssh. Install OpenSSH's client.") from error
    if code == LOST and terminal:
        click.echo(PUT_BACK, nl=False)
    return code


def log_in(known: Known, login: Login) -> int:
    """Log in, at the worker's new address if it has moved; return the exit code of ssh."""
    if login.host not in known.fleet.targets:
        known = _again(login.host, "it was unusable when the fleet was last read")
    code, let_in = _once(known, login)
    if code != LOST or let_in:
        return code
    before = known.fleet.targets[login.host]
    known = _again(login.host, "it was not reached")
    return code if known.fleet.targets[login.host] == before else _once(known, login)[0]


def _once(known: Known, login: Login) -> tuple[int, bool]:
    """Log in; return the exit code, and whether the worker let us in.

    ssh has one exit code for a worker that is away, a lost connection and a command that returns
    255. It runs LocalCommand when the worker has let us in, and only then.
    """
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-") as folder:
        mark = Path(folder, "in")
        told = shlex.quote(str(mark)).replace("%", "%%")
        argv = ssh_command(known, login, ("PermitLocalCommand=yes", f"LocalCommand=: >{told}"))
        return keep_open(argv, login.terminal), mark.exists()


def _again(host: str, why: str) -> Known:
    """Read from the API where a worker is now."""
    click.echo(f"{host}: {why}. Reading its address from the API.", err=True)
    known = ask_or_say_why()
    if host not in known.fleet.targets:
        raise click.ClickException(
            f"{host} cannot be used now. `tpu-fleet status` shows the reason."
        )
    return known
