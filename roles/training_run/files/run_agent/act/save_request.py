"""Ask a running program to save what it has: by a signal that it waits for, or by a command."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable

from ..decide.config import Config
from . import child, environment, processes, terminal
from .hand import Hand


def signalled(number: int, pids: Iterable[int]) -> list[int]:
    """Return who has a handler for a signal: all others it would end."""
    return [pid for pid in sorted(pids) if processes.catches(pid, number)]


def run_command(config: Config, hand: Hand, run_id: str, attempt: int) -> None:
    """Start the run's command for it, as its user, without waiting; raises OSError."""
    basis = terminal.user_environment(config.user)
    order = {
        "command": ["/bin/bash", "-c", config.checkpoint_command],
        "folder": terminal.workdir(config, hand),
        "env": environment.of_program(config, run_id, attempt, basis),
    }
    # The program's environment is for the user's process only: root starts nothing with it, and
    # in an argument all users could read it.
    told = os.memfd_create("tpu-fleet-start")
    try:
        os.write(told, json.dumps(order).encode("ascii"))
        os.lseek(told, 0, os.SEEK_SET)
        child.begun(config.user, "start", stdin=told)
    finally:
        os.close(told)


def main(_words: list[str]) -> int:
    """Become the command that is given on standard input; this runs as the user."""
    order = json.loads(sys.stdin.buffer.read())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.chdir(order["folder"])
    os.execve(order["command"][0], order["command"], order["env"])  # noqa: S606 - bash, as the user


def ask(config: Config, hand: Hand, run_id: str, attempt: int, pids: Iterable[int]) -> str | None:
    """Ask; return how, or None when the run has no way to be asked."""
    if config.checkpoint_command:
        try:
            run_command(config, hand, run_id, attempt)
        except (OSError, terminal.CannotStart) as error:
            return f"checkpoint_command: {error}"
        return "checkpoint_command"
    if not config.checkpoint_signal:
        return None
    number = processes.signal_number(config.checkpoint_signal)
    who = processes.send(signalled(number, pids), number, terminal.uid_of(config.user))
    if not who:
        return f"no process of the program waits for {config.checkpoint_signal}"
    return f"{config.checkpoint_signal} to {', '.join(map(str, who))}"
