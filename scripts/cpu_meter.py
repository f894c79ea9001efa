"""CPU seconds of a command, so that stages are compared by what they cost on a busy computer.

The command runs in a control group of its own, which also has what it leaves behind: a local cloud
and its machines. podman moves machines to another group where version 2 is the only hierarchy, so
they are not counted there. Where no group can be created, only the processes that the command
waited for are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

# Version 1 counts in a hierarchy that podman leaves alone here.
V1, V2 = Path("/sys/fs/cgroup/cpuacct"), Path("/sys/fs/cgroup")
COUNTS = (
    "those of all processes, machines included"
    if V1.is_dir() and os.access(V1, os.W_OK)
    else "those of all processes on this computer, without the machines"
    if (V2 / "cgroup.procs").exists() and os.access(V2, os.W_OK)
    else "those of child processes, without clouds and machines"
)
# The shell enters the group, and becomes the command.
ENTER = 'echo $$ > "$0" && exec "$@"'


class CpuMeter:
    """Runs commands and counts their CPU seconds."""

    def __init__(self, name: str) -> None:
        parent = V1 if V1.is_dir() else V2
        self.group: Path | None = parent / f"tpu-fleet-tests-{os.getpid()}-{name}"
        try:
            self.group.mkdir()
        except OSError:
            self.group = None

    def run(self, argv: Sequence[str], **options: Any) -> tuple[int, float]:
        """Run a command; return its exit code and the CPU seconds that it used."""
        if self.group:
            argv = ("sh", "-c", ENTER, str(self.group / "cgroup.procs"), *argv)
        process = subprocess.Popen(argv, **options)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, self._used() or usage.ru_utime + usage.ru_stime

    def _used(self) -> float:
        """Return what the group used, and remove it unless something still runs in it."""
        if not self.group:
            return 0.0
        nanoseconds = self.group / "cpuacct.usage"
        if nanoseconds.exists():
            used = int(nanoseconds.read_text()) / 1e9
        else:
            lines = (self.group / "cpu.stat").read_text().splitlines()
            used = int(dict(line.split() for line in lines)["usage_usec"]) / 1e6
        with contextlib.suppress(OSError):
            self.group.rmdir()
        return used
