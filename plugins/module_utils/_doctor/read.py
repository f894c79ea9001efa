# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse a machine's files and outputs: mounts, dpkg, units, login files. No I/O.

Runs on Python 3.8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

# File systems that are neither a disk nor a server.
PSEUDO = frozenset(
    {
        *("autofs", "bpf", "binfmt_misc", "cgroup", "cgroup2", "configfs", "debugfs", "devpts"),
        *("devtmpfs", "efivarfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore"),
        *("ramfs", "rpc_pipefs", "securityfs", "squashfs", "sysfs", "tracefs"),
    }
)
# File systems that hang when their server does.
REMOTE = ("nfs", "cifs", "fuse", "9p", "ceph", "lustre", "glusterfs")


@dataclass(frozen=True)
class Mount:
    """One mount, as it is or as it is declared."""

    point: str
    type: str
    source: str
    options: Tuple[str, ...] = ()
    there: bool = True
    declared: bool = False
    # Mounted only on demand, so it may be absent.
    optional: bool = False
    # The unit that mounts it; without one it is in fstab.
    unit: str = ""
    wanted_writable: bool = False

    @property
    def read_only(self) -> bool:
        """Return whether nothing can be written."""
        return "ro" in self.options

    def with_wish(self, wish: Optional[Mount]) -> Mount:
        """Return the same mount with what was declared about it."""
        if wish is None:
            return self
        # An unresponsive server appears as the automount point.
        source = wish.source if self.type == "autofs" else self.source
        kind = wish.type if self.type == "autofs" else self.type
        return replace(
            self,
            source=source,
            type=kind,
            declared=True,
            wanted_writable=wish.wanted_writable,
            unit=wish.unit,
        )


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def mountinfo(text: str) -> Iterator[Mount]:
    """Read /proc/self/mountinfo; of several mounts at one point the last one is visible."""
    for line in text.splitlines():
        before, _dash, after = line.partition(" - ")
        left, right = before.split(), after.split()
        if len(left) < 6 or len(right) < 2:
            continue
        options = tuple(dict.fromkeys([*left[5].split(","), *(right[2:] and right[2].split(","))]))
        yield Mount(_unescaped(left[4]), right[0], _unescaped(right[1]), options)


def fstab_mounts(text: str) -> Iterator[Mount]:
    """Read /etc/fstab, without the root."""
    for line in text.splitlines():
        words = line.split()
        if len(words) < 4 or words[0].startswith("#") or words[1] in ("swap", "none"):
            continue
        point, options = _unescaped(words[1]), tuple(words[3].split(","))
        if point in ("/", "/boot", "/boot/efi") or words[2] in PSEUDO or words[2] == "tmpfs":
            continue
        optional = "noauto" in options and "x-systemd.automount" not in options
        yield Mount(
            point, words[2], _unescaped(words[0]), options, there=False, declared=True,
            optional=optional, wanted_writable="ro" not in options,
        )  # fmt: skip


def is_remote(mount: Mount) -> bool:
    """Return whether it depends on a server."""
    return mount.type.startswith(REMOTE) and mount.type != "fusectl"


def is_worth_a_look(mount: Mount) -> bool:
    """Return whether a mount holds data: a server, a bucket, a disk other than the boot disk."""
    if is_remote(mount):
        return True
    apart = mount.point.startswith(("/mnt/", "/data", "/srv", "/media/", "/nfs", "/home/"))
    return apart and mount.source.startswith("/dev/")


def measured(mounts: Iterable[Mount]) -> List[Mount]:
    """Return the local file systems whose space is checked; for one disk the shortest path."""
    found: Dict[str, Mount] = {}
    for mount in mounts:
        if mount.type in PSEUDO or is_remote(mount):
            continue
        if mount.point.startswith(("/run", "/sys", "/proc", "/snap", "/dev/", "/var/lib/docker")):
            if mount.point != "/dev/shm":  # noqa: S108 - it is only measured
                continue
        elif mount.point == "/dev":
            continue
        key = mount.source if mount.source.startswith("/dev/") else mount.point
        if key not in found or len(mount.point) < len(found[key].point):
            found[key] = mount
    # Single files are mounted into containers.
    return [m for m in found.values() if not re.match(r"/(etc|usr)/", m.point)]


def dpkg_states(text: str) -> Dict[str, str]:
    """Read /var/lib/dpkg/status: the state of each package."""
    found, name = {}, ""
    for line in text.splitlines():
        if line.startswith("Package: "):
            name = line[len("Package: ") :].strip()
        elif line.startswith("Status: "):
            found[name] = line[len("Status: ") :].strip()
    return found


def dpkg_unfinished(states: Mapping[str, str]) -> Tuple[List[str], List[str]]:
    """Return the packages that only need configuration, and those that need more."""
    unfinished, broken = [], []
    for name, status in states.items():
        words = status.split()
        if len(words) != 3:
            continue
        _want, flag, state = words
        if state in ("unpacked", "half-configured", "triggers-pending", "triggers-awaited"):
            unfinished.append(name)
        elif state == "half-installed" or flag == "reinstreq":
            broken.append(name)
    return sorted(unfinished), sorted(broken)


def unit_blocks(text: str) -> List[Dict[str, str]]:
    """Read the output of systemctl show for several units."""
    blocks = []
    for block in text.strip().split("\n\n"):
        unit = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if unit.get("Id"):
            blocks.append(unit)
    return blocks


_ASSIGNMENT = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*)$")


def variables_in(text: str) -> Dict[str, str]:
    """Read the variables that a login file sets."""
    found = {}
    for line in text.splitlines():
        match = _ASSIGNMENT.match(line)
        if match:
            found[match[1]] = match[2].strip().strip("\"'")
    return found


def preloads(value: str) -> List[str]:
    """Return the libraries of LD_PRELOAD or ld.so.preload."""
    lines = [line.partition("#")[0] for line in value.splitlines()]
    return [word for line in lines for word in re.split(r"[\s:]+", line) if word]
