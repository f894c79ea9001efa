# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a worker exports and mounts, and the files for it. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..._host.mounts import GUARDS, unit_name
from ..._schema.values import ENTRY_NAME

MARK = "# Managed by tpu.fleet (role nfs_share)."
UNITS = "/etc/systemd/system"
EXPORTS = "/etc/exports.d/tpu-fleet.exports"
SETTINGS = "/etc/nfs.conf.d/tpu-fleet.conf"
DROP_IN = f"{UNITS}/nfs-server.service.d/tpu-fleet.conf"
# Units that NFSv3 needs and version 4 does not.
MASKED = ("rpcbind.socket", "rpcbind.service", "rpc-statd.service", "rpc-statd-notify.service")
# File handles must stay valid after a reboot, and on a disk that was formatted again.
_FSID = uuid.UUID("7a1c1f5e-3a86-4b5b-9d4c-6f2f0f4f9d11")

PATH = re.compile(r"^(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+$")
SERVER = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+)$")
MODE = re.compile(r"^[0-7]{3,4}$")


@dataclass(frozen=True)
class Me:
    """This host, as in the inventory."""

    slice: str
    worker: int
    zone: str


@dataclass(frozen=True)
class Times:
    """Time limits in seconds."""

    timeout: int = 30
    mount: int = 15
    idle: int = 600
    grace: int = 20


@dataclass(frozen=True)
class Export:
    """A folder that this host exports."""

    name: str
    folder: str
    path: str
    read_only: bool
    owner: str
    group: str
    mode: str
    clients: tuple[str, ...]
    disk: str = ""
    """The mount point in fstab that the folder is on; empty for the root file system."""


@dataclass(frozen=True)
class Mount:
    """A share that this host mounts."""

    name: str
    server: str
    folder: str
    path: str
    read_only: bool
    waits: bool


@dataclass(frozen=True)
class Plan:
    """All exports and mounts of this host."""

    exports: tuple[Export, ...] = ()
    mounts: tuple[Mount, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    """Mount points that stay unchanged because their server's address is unknown."""

    @property
    def idle(self) -> bool:
        """Return whether this host has no shares at all."""
        return not (self.exports or self.mounts or self.kept)


def problems_of(share: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (key, message, remedy) for each problem of a declared share."""
    found = []
    rules = {
        "name": (
            ENTRY_NAME,
            "is not a name for a share",
            "Use letters, digits, dash and underscore",
        ),
        "path": (PATH, "is not a folder", "Write an absolute path without spaces, not / itself"),
        "export_path": (PATH, "is not a folder", "Write an absolute path without spaces, not /"),
        "server": (SERVER, "is not an address", "Write an IP address or a host name"),
        "permissions": (
            MODE,
            "are not permissions",
            'Write them in octal and in quotes, like "1777"',
        ),
    }
    for key, (rule, message, remedy) in rules.items():
        value = share.get(key)
        if isinstance(value, str) and value and not rule.fullmatch(value):
            found.append((key, message, remedy))
    if bool(share.get("slice")) == bool(share.get("server")):
        message = "needs a server"
        found.append(("slice", message, "Set slice to one of the fleet, or server to an address"))
    worker = share.get("worker")
    if isinstance(worker, int) and worker < 0:
        found.append(("worker", "is not the number of a worker", "Count from 0"))
    return found


def plan(
    shares: Iterable[Mapping[str, Any]],
    hosts: Sequence[Mapping[str, Any]],
    me: Me,
    disks: Iterable[str] = (),
) -> Plan:
    """Return what this host exports and mounts; `disks` are the mount points of its fstab."""
    disks = tuple(disks)
    exports, mounts, kept = [], [], {}
    for share in shares:
        path, folder = share["path"], share.get("export_path") or share["path"]
        slice_name, worker = share.get("slice"), share.get("worker") or 0
        read_only = bool(share.get("read_only"))
        server: Mapping[str, Any] | None = None
        if slice_name:
            server = next(
                (h for h in hosts if (h["slice"], h["worker"]) == (slice_name, worker)), {}
            )
        if slice_name and (me.slice, me.worker) == (slice_name, worker):
            clients = {
                host["address"]
                for host in hosts
                if host.get("address")
                and (host["slice"], host["worker"]) != (slice_name, worker)
                and _wanted(share, host["slice"], host.get("zone", ""), me.zone)
            }
            owner, group = share.get("user") or "root", share.get("group") or "root"
            mode = share.get("permissions") or "1777"
            exports.append(
                Export(
                    share["name"], folder, path, read_only, owner, group, mode,
                    tuple(sorted(clients, key=_in_order)), disk_of(folder, disks),
                )
            )  # fmt: skip
            continue
        zone = None if server is None else server.get("zone", "") if server else me.zone
        if not _wanted(share, me.slice, me.zone, zone):
            continue
        address = share.get("server") if server is None else server.get("address")
        if not address:
            kept[path] = f"{slice_name} has no worker {worker} with an address now"
            continue
        waits = share.get("on_timeout") == "wait"
        mounts.append(Mount(share["name"], address, folder, path, read_only, waits))
    return Plan(tuple(exports), tuple(mounts), kept)


def _wanted(share: Mapping[str, Any], slice_name: str, zone: str, server_zone: str | None) -> bool:
    if share.get("slices"):
        return slice_name in share["slices"]
    return server_zone is None or zone == server_zone


def disk_of(folder: str, disks: Iterable[str]) -> str:
    """Return the innermost of the mount points that a folder is at or below."""
    return max((disk for disk in disks if f"{folder}/".startswith(f"{disk}/")), key=len, default="")


def _in_order(address: str) -> tuple[list[int], str]:
    return [int(part) for part in address.split(".") if part.isdigit()], address


# -- files -------------------------------------------------------------------------------------


def files(wanted: Plan, times: Times) -> dict[str, str]:
    """Return the files of the shares, by path."""
    found = {}
    if wanted.exports:
        found[EXPORTS] = MARK + "\n" + "".join(_export_line(export) for export in wanted.exports)
        # Ordered after the disks without requiring them: a missing disk stops no other share.
        disks = sorted(
            {f"{unit_name(export.disk)}.mount" for export in wanted.exports if export.disk}
        )
        if disks:
            found[DROP_IN] = f"{MARK}\n[Unit]\nAfter={' '.join(disks)}\n"
    if wanted.exports or wanted.mounts:
        found[SETTINGS] = _settings(times)
    for export in wanted.exports:
        if export.folder != export.path:
            found[f"{UNITS}/{unit_name(export.path)}.mount"] = _bind_unit(export)
    for mount in wanted.mounts:
        found[f"{UNITS}/{unit_name(mount.path)}.mount"] = _mount_unit(mount, times)
        found[f"{UNITS}/{unit_name(mount.path)}.automount"] = _automount_unit(mount, times)
    return found


def _export_line(export: Export) -> str:
    access = "ro" if export.read_only else "rw"
    identity = uuid.uuid5(_FSID, export.name)
    options = f"{access},sync,root_squash,no_subtree_check,sec=sys,fsid={identity}"
    if export.disk:
        # If the disk is not mounted, the folder below it must not be exported.
        options += f",mountpoint={export.disk}"
    clients = "".join(f" {address}({options})" for address in export.clients)
    # A line without clients would export to all hosts.
    return f"{export.folder}{clients}\n" if clients else f"# {export.folder}: no client yet\n"


def _settings(times: Times) -> str:
    return f"""{MARK}
# Version 4 alone, so that one port, TCP 2049, is all that a firewall has to let through.
[nfsd]
vers2 = n
vers3 = n
vers4 = y
udp = n
tcp = y
lease-time = {times.grace}
grace-time = {times.grace}
"""


def _bind_unit(export: Export) -> str:
    return f"""{MARK}
[Unit]
Description=NFS share {export.name} at the path where its clients have it
RequiresMountsFor={export.folder}

[Mount]
What={export.folder}
Where={export.path}
Type=none
Options={",".join(["bind", *GUARDS])}

[Install]
WantedBy=multi-user.target
"""


def _mount_unit(mount: Mount, times: Times) -> str:
    # retrans: a request is repeated after a third of the time, and once more after another.
    tenths = max(10, times.timeout * 10 // 3)
    patience = "hard" if mount.waits else f"softerr,timeo={tenths},retrans=2"
    server = f"[{mount.server}]" if ":" in mount.server else mount.server
    access = "ro" if mount.read_only else "rw"
    options = ",".join([access, patience, "retry=0", *GUARDS, "noatime"])
    return f"""{MARK}
[Unit]
Description=NFS share {mount.name}

[Mount]
What={server}:{mount.folder}
Where={mount.path}
Type=nfs4
Options={options},_netdev
TimeoutSec={times.mount}
# A server that is away must not hold up a shutdown.
LazyUnmount=true
"""


def _automount_unit(mount: Mount, times: Times) -> str:
    return f"""{MARK}
[Unit]
Description=NFS share {mount.name}, mounted when somebody looks there

[Automount]
Where={mount.path}
TimeoutIdleSec={times.idle}

[Install]
WantedBy=remote-fs.target
"""
