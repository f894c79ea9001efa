# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of a host before its setup, and the reasons why setup is impossible. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

RELEASES = {"debian": ("12",), "ubuntu": ("22.04", "24.04")}
SUPPORTED = "Ubuntu 22.04, Ubuntu 24.04 and Debian 12"
RECREATE = (
    "Create the slice again with a current runtime version: tpu-ubuntu2204-base (v2 to v4), "
    "v2-alpha-tpuv5-lite (v5e), v2-alpha-tpuv5 (v5p) or v2-alpha-tpuv6e (v6e) as runtime_version "
    "in fleet_slices, with recreate: true; data disks stay"
)
# The last ansible-core that still runs on hosts with the older Pythons.
OLD_PYTHON = {(3, 8): "2.19", (3, 7): "2.17", (3, 6): "2.16"}
# A check that needs no Python; all commands but df are built into the shell.
QUESTION = (
    '. /etc/os-release; echo "distribution=$ID $VERSION_ID"; '
    'echo "python=$({python} --version 2>/dev/null)"; '
    "df -Pk / /tmp /var/tmp 2>/dev/null | while read -r device size used free percent path; "
    'do echo "free=$path $free"; done'
)
FULL_KB = 1024


# -- packages ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Packages:
    """What dpkg knows about packages."""

    versions: Mapping[str, str] = field(default_factory=dict)
    unfinished: list[str] = field(default_factory=list)

    def missing(self, wanted: list[str]) -> list[str]:
        """Return the packages that are not installed, in the given order."""
        return [name for name in wanted if not self._is_there(name)]

    def _is_there(self, wanted: str) -> bool:
        name, equals, version = wanted.partition("=")
        name = name.partition("/")[0].partition(":")[0]
        there = self.versions.get(name)
        return there is not None and (not equals or there == version)


def read_packages(text: str) -> Packages:
    """Read lines of name, version and state (wanted, present, broken)."""
    versions = {}
    unfinished = []
    for line in text.splitlines():
        words = line.split()
        # Without a version, the package is not installed, or was removed.
        state = words[-1] if words else ""
        if len(words) < 2 or len(state) < 2 or not state[:2].isalpha():
            continue
        name = words[0]
        # H, U and F: begun and not finished. t and W: triggers, which the next run processes.
        if state[1] in "HUF" or state[2:3] == "R":
            unfinished.append(name)
        elif state[1] in "itW" and len(words) == 3:
            versions[name] = words[1]
    return Packages(versions, unfinished)


# -- room --------------------------------------------------------------------------------------


def too_full(free: Mapping[str, int], min_free_mb: int) -> str | None:
    """Return a message if a file system has too little free space, or None."""
    short = {path: size for path, size in free.items() if size < min_free_mb << 20}
    if not short or min_free_mb <= 0:
        return None
    shown = " and ".join(f"{path} ({size >> 20} MB free)" for path, size in sorted(short.items()))
    first = sorted(short)[0]
    return (
        f"The disk of this host is full: {shown}, but setup needs {min_free_mb} MiB. Nothing was "
        f"changed. To find large files: sudo du -xhd2 {first} | sort -h | tail. Safe to "
        "remove: sudo apt-get clean; sudo journalctl --vacuum-size=200M; old checkpoints and "
        "~/.cache. Then run this again (fleet_min_free is the limit)."
    )


# -- a host on which no module runs ------------------------------------------------------------


def explain(told: str, answer: str, ansible_version: str, least: tuple[int, int]) -> str | None:
    """Return why no module runs on a host, from Ansible's message and the shell's answer.

    None if they do not show it.
    """
    seen: dict[str, str] = {}
    free: dict[str, int] = {}
    for line in answer.splitlines():
        key, _equals, value = line.strip().partition("=")
        if key == "free":
            path, _space, size = value.partition(" ")
            if size.isdigit():
                free[path] = int(size)
        else:
            seen[key] = value.strip()
    full = sorted(path for path, size in free.items() if size < FULL_KB)
    if full or "No space left on device" in told:
        where = " and ".join(full) or "a file system of this host"
        return (
            f"The disk of this host is full: no space is left on {where}, so not even Ansible "
            "can run there. Nothing was changed. To find large files: ssh to it and run "
            "sudo du -xhd2 / | sort -h | tail. Safe to remove: sudo apt-get clean; "
            "sudo journalctl --vacuum-size=200M; old checkpoints and ~/.cache. Then run this again."
        )
    distribution = seen.get("distribution") or "an unknown distribution"
    python = seen.get("python", "").replace("Python ", "")
    if not python and "python" in seen:
        return (
            f"This host ({distribution}) has no Python at /usr/bin/python3, which Ansible needs. "
            "On Ubuntu and Debian: sudo apt-get install python3."
        )
    numbers = tuple(int(word) for word in re.findall(r"\d+", python)[:2])
    if len(numbers) == 2 and numbers < least:
        last = OLD_PYTHON.get(numbers)
        way = f" The last one that can is ansible-core {last}, but" if last else " But"
        return (
            f"This host ({distribution}) has Python {python}, and ansible-core {ansible_version} "
            f"needs {least[0]}.{least[1]} or later there.{way} tpu.fleet supports {SUPPORTED} "
            f"only. {RECREATE}."
        )
    return None


def unsupported(distribution: str, release: str) -> str:
    """Return a message if a host's distribution is not supported; empty if it is."""
    if release in RELEASES.get(distribution, ()):
        return ""
    return f"This host is {distribution} {release}; tpu.fleet supports {SUPPORTED}. {RECREATE}."


def as_text(result: Mapping[str, Any]) -> str:
    """Return all output of a failed module as one text."""
    keys = ("msg", "module_stderr", "module_stdout", "exception", "stderr", "stdout")
    return "\n".join(str(result[key]) for key in keys if result.get(key))
