# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a host, and find what delays its first setup. Private to tpu.fleet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..._host.chips import chip_count, generation_of, pci_devices, wants_huge_pages
from ..._host.state import boot_id, read_text
from ..._host.work import units_shown
from .first_boot import Packages, unsupported

CAP_SYS_RESOURCE = 24


def units_at_work(show: str) -> list[tuple[str, int]]:
    """Return which units run or are queued, and their processes (0: none).

    The text is the output of systemctl show.
    """
    busy = []
    for name, unit in units_shown(show).items():
        if unit.get("ActiveState") == "activating":
            told = unit.get("MainPID", "0")
            process = int(told) if told.isdigit() else 0
            running = f" ({describe(process)})" if process else ""
            busy.append((f"{name} is still running{running}", process))
        elif unit.get("Job", "0") not in ("", "0"):
            busy.append((f"{name} has not started yet", 0))
    return busy


def describe(pid: int) -> str:
    """Return a description of a process."""
    command = (read_text(f"/proc/{pid}/cmdline") or "").replace("\0", " ").strip()
    return f"process {pid}: {command[:120]}" if command else f"process {pid}"


def os_release(text: str) -> dict[str, str]:
    """Return the values in /etc/os-release."""
    pairs = (line.split("=", 1) for line in text.splitlines() if "=" in line)
    return {key: value.strip().strip('"') for key, value in pairs}


def hard_limits(text: str) -> dict[str, str]:
    """Return the hard limits in /proc/<pid>/limits, by their names in limits.conf."""
    names = {
        "Max open files": "nofile",
        "Max locked memory": "memlock",
        "Max stack size": "stack",
        "Max processes": "nproc",
    }
    found = {}
    for line in text.splitlines():
        for title, name in names.items():
            if line.startswith(title):
                found[name] = line[len(title) :].split()[1]
    return found


def free_space(paths: Iterable[str]) -> dict[str, int]:
    """Return the free bytes of each file system, by the first of the paths on it."""
    found: dict[int, tuple[str, int]] = {}
    for path in paths:
        if Path(path).is_dir():
            system = os.statvfs(path)
            device = Path(path).stat().st_dev
            found.setdefault(device, (path, system.f_bavail * system.f_frsize))
    return dict(found.values())


def describe_host(container: str, packages: Packages, wanted: list[str]) -> dict[str, Any]:
    """Return the facts of this host."""
    release = os_release(read_text("/etc/os-release") or "")
    status = dict(
        line.split(":", 1)
        for line in (read_text("/proc/1/status") or "").splitlines()
        if ":" in line
    )
    capabilities = int(status.get("CapBnd", "0").strip(), 16)
    devices = pci_devices()
    generation = generation_of(devices)
    return {
        "distribution": release.get("ID", ""),
        "distribution_version": release.get("VERSION_ID", ""),
        "unsupported": unsupported(release.get("ID", ""), release.get("VERSION_ID", "")),
        "boot_id": boot_id(),
        "container": container,
        "chips": chip_count(devices),
        "generation": generation or "",
        "wants_huge_pages": wants_huge_pages(generation),
        "can_raise_limits": bool(capabilities >> CAP_SYS_RESOURCE & 1),
        "package_lists": any(Path("/var/lib/apt/lists").glob("*Packages*")),
        "missing_packages": packages.missing(wanted),
        # dpkg records its unfinished updates here.
        "unfinished_packages": packages.unfinished
        or (["dpkg"] if any(Path("/var/lib/dpkg/updates").glob("[0-9]*")) else []),
        "hard_limits": hard_limits(read_text("/proc/1/limits") or ""),
        "nr_open": int(read_text("/proc/sys/fs/nr_open") or 1048576),
    }
