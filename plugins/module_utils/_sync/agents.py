# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Have the run agents of a worker take up a new definition.

A unit's reload sends its main process SIGHUP. To have systemd do that takes three processes and as
long as all else that a sync does here, so a signal goes to each agent that would get just that.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from .._host.run_states import TOLD_TO_STOP
from .._host.runs import AGENT, RunFiles


def take_up(files: RunFiles, restarted: list[str], reloaded: list[str]) -> None:
    """Have the agents of these runs take up their definitions; those of `restarted` are started.

    Raise OSError if systemd cannot do it.
    """
    _systemctl("reload-or-restart", [run for run in restarted if not signalled(files, run)])
    _systemctl("reload", [run for run in reloaded if not signalled(files, run)])


def signalled(files: RunFiles, run: str) -> bool:
    """Signal a run's agent if a reload of its unit would; else leave it to systemd."""
    status = files.status(run)
    pid = status.get("agent_pid")
    # What is being stopped is started again by systemd alone.
    if type(pid) is not int or str(status.get("reason", "")).startswith(TOLD_TO_STOP):
        return False
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        # Looked at under the handle: meanwhile its number cannot be another's.
        if not hears(files.processes / str(pid), run):
            return False
        signal.pidfd_send_signal(handle, signal.SIGHUP)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def hears(process: Path, run: str) -> bool:
    """Return whether a process is the agent in a run's unit, and handles SIGHUP by now.

    Raise OSError if it has ended.
    """
    groups = (process / "cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    if not any(line.endswith(f"/tpu-fleet-run@{run}.service") for line in groups):
        return False
    text = (process / "status").read_text(encoding="utf-8", errors="replace")
    words = {line.partition(":")[0]: line.split()[1:] for line in text.splitlines()}
    if words.get("Uid") != ["0"] * 4 or AGENT not in (process / "cmdline").read_bytes():
        return False
    # Before it does, as at its start, the signal would end it; systemd waits until it is ready.
    handled = int("".join(words.get("SigCgt", [])) or "0", 16)
    return bool(handled >> (signal.SIGHUP - 1) & 1)


def _systemctl(verb: str, runs: list[str]) -> None:
    if not runs:
        return
    units = [f"tpu-fleet-run@{run}.service" for run in runs]
    # No run_command, because this is no module.
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        ["systemctl", verb, *units],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode:
        raise OSError(f"systemctl {verb} {' '.join(units)}: {done.stderr.strip()}")
