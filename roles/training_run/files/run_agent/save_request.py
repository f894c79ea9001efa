"""Ask a running program to save what it has: by a signal that it waits for, or by a command."""

from __future__ import annotations

import subprocess
from typing import Dict, Iterable, List, Optional

from . import environment, processes, terminal
from .config import Config


def signalled(number: int, pids: Iterable[int]) -> List[int]:
    """Return who has a handler for a signal: all others it would end."""
    return [pid for pid in sorted(pids) if processes.catches(pid, number)]


def run_command(config: Config, run_id: str, attempt: int) -> None:
    """Start the run's command for it, as its user, without waiting; raises OSError."""
    basis = terminal.user_environment(config.user)
    env: Dict[str, str] = environment.of_program(config, run_id, attempt, basis)
    subprocess.Popen(
        [*terminal.become(config.user), "/bin/bash", "-c", config.checkpoint_command],
        cwd=terminal.workdir(config),
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def ask(config: Config, run_id: str, attempt: int, pids: Iterable[int]) -> Optional[str]:
    """Ask; return how, or None when the run has no way to be asked."""
    if config.checkpoint_command:
        try:
            run_command(config, run_id, attempt)
        except (OSError, terminal.CannotStart) as error:
            return f"checkpoint_command: {error}"
        return "checkpoint_command"
    if not config.checkpoint_signal:
        return None
    who = signalled(processes.signal_number(config.checkpoint_signal), pids)
    processes.send(who, processes.signal_number(config.checkpoint_signal))
    if not who:
        return f"no process of the program waits for {config.checkpoint_signal}"
    return f"{config.checkpoint_signal} to {', '.join(map(str, who))}"
