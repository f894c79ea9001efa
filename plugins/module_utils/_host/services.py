# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how a service for people runs and what must happen to it. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

UNIT_DIR = "/etc/systemd/system"
SERVICES_DIR = "/etc/tpu-fleet/services"
STATE_DIR = "/var/lib/tpu-fleet/services"
SECRETS_DIR = "/etc/tpu-fleet/secrets"
FETCHED_DIR = "/run/tpu-fleet/secrets"

# They take no right away that a user has, and nothing of the file system: disks and shares that are
# mounted later are seen, and a TPU's devices stay where they are.
HARDENING = (
    "NoNewPrivileges=yes",
    "CapabilityBoundingSet=",
    "RestrictSUIDSGID=yes",
    "RestrictRealtime=yes",
    "LockPersonality=yes",
    "SystemCallArchitectures=native",
)


@dataclass(frozen=True)
class Service:
    """One program that runs for somebody."""

    name: str
    role: str
    description: str
    user: str
    command: Sequence[str]
    before_start: Sequence[Sequence[str]] = ()
    workdir: str = "~"
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_files: Sequence[str] = ()
    # Sets of secrets that have some in Google Secret Manager.
    fetched: Sequence[str] = ()
    memory_max: str = ""
    hardening: bool = True
    stop_seconds: int = 30
    address: str = "127.0.0.1"
    port: int = 0
    loopback_only: bool = True
    venv: str = ""
    restart_on_upgrade: bool = False
    enabled: bool = True
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Name its unit."""
        return f"tpu-fleet-{self.name}.service"

    @property
    def fetch_unit(self) -> str:
        """Name the unit that fetches its secrets from Google; empty without such secrets."""
        return f"tpu-fleet-secrets-{self.name}.service" if self.fetched else ""


@dataclass(frozen=True)
class Seen:
    """What is known of a service on the host."""

    active: str = "inactive"
    enabled: bool = False
    # What it was last started with, and what it would be started with now.
    started_with: Mapping[str, Any] = field(default_factory=dict)
    now_with: Mapping[str, Any] = field(default_factory=dict)


def quoted(word: str) -> str:
    """Write one word so that systemd reads it as it is."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + text.replace("%", "%%").replace("$", "$$") + '"'


def assigned(name: str, value: str) -> str:
    """Write one assignment of Environment=, where a dollar sign stands for itself."""
    return quoted(f"{name}={value}").replace("$$", "$")


def unit_text(service: Service) -> str:
    """Write the unit."""
    lines = [
        f"# Managed by tpu.fleet (role {service.role}).",
        "[Unit]",
        f"Description={service.description.replace('%', '%%')}",
        "After=network-online.target remote-fs.target nss-user-lookup.target",
        "Wants=network-online.target",
        *(f"{key}={service.fetch_unit}" for key in ("After", "Wants") if service.fetched),
        # A folder or a network that is not there yet may come later.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"User={service.user}",
        f"WorkingDirectory={service.workdir.replace('%', '%%')}",
    ]
    lines += [
        f"Environment={assigned(name, str(value))}"
        for name, value in sorted(service.environment.items())
    ]
    lines += [f"EnvironmentFile={path}" for path in service.environment_files]
    # While one of them was not fetched, the service does not start, and is started again.
    lines += [
        f"EnvironmentFile={FETCHED_DIR}/{service.name}/{name}.env" for name in service.fetched
    ]
    lines += [
        f"ExecStartPre={' '.join(quoted(word) for word in words)}" for words in service.before_start
    ]
    lines += [
        f"ExecStart={' '.join(quoted(word) for word in service.command)}",
        "Restart=always",
        "RestartSec=5",
        f"TimeoutStopSec={service.stop_seconds}",
        "KillMode=mixed",
        f"RuntimeDirectory=tpu-fleet/{service.name}",
        "RuntimeDirectoryMode=0700",
        "LimitNOFILE=1048576",
        "LimitMEMLOCK=infinity",
        # When memory runs out, the training on this machine is worth more.
        "OOMScoreAdjust=500",
    ]
    if service.memory_max:
        lines.append(f"MemoryMax={service.memory_max}")
    if service.hardening:
        lines += HARDENING
    lines += ["", "[Install]", "WantedBy=multi-user.target"]
    return "\n".join(lines) + "\n"


def fetch_text(service: Service) -> str:
    """Write the unit that fetches its secrets as root, who looks whether the user may have them.

    It is a unit of its own: in the service's, also a command with "+" has the variables of the
    service, and of files that belong to its user. With LD_PRELOAD these choose what root runs.
    """
    words = ["--service", quoted(service.name), "--user", quoted(service.user), *service.fetched]
    lines = [
        f"# Managed by tpu.fleet (role {service.role}).",
        "[Unit]",
        f"Description=Secrets of {service.unit}",
        "After=network-online.target nss-user-lookup.target",
        "Wants=network-online.target",
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        "Type=oneshot",
        f"ExecStart=/usr/local/bin/tpu-fleet-secrets fetch {' '.join(words)}",
        "TimeoutStartSec=120",
    ]
    return "\n".join(lines) + "\n"


def record(service: Service, token_file: str) -> dict[str, Any]:
    """Say to everybody on the host what there is and how to reach it."""
    return {
        "name": service.name,
        "role": service.role,
        "description": service.description,
        "user": service.user,
        "address": service.address,
        "port": service.port,
        "unit": service.unit,
        "enabled": service.enabled,
        **({"token_file": token_file} if token_file else {}),
        **service.facts,
    }


def set_of(path: str) -> str:
    """Name the set of secrets whose variables a file has; empty for a file of another kind."""
    folder, _slash, name = path.rpartition("/")
    return name[: -len(".env")] if folder == SECRETS_DIR and name.endswith(".env") else ""


def fingerprint(files: Mapping[str, str]) -> str:
    """Tell contents apart."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


def action(service: Service, seen: Seen) -> str:
    """Say what must happen to it: start, restart, stop, or nothing."""
    alive = seen.active in ("active", "activating", "reloading")
    if not service.enabled:
        return "stop" if alive else ""
    if not alive:
        return "start"
    return "restart" if reasons(service, seen) else ""


def reasons(service: Service, seen: Seen) -> list[str]:
    """List why a service that runs must be started anew."""
    found = []
    for key, what in (("files", "its settings"), ("secrets", "a secret of its")):
        if seen.started_with.get(key) != seen.now_with.get(key):
            found.append(f"{what} changed")
    # The programs of an environment stay where they are as long as somebody uses them.
    if service.restart_on_upgrade and seen.started_with.get("venv") != seen.now_with.get("venv"):
        found.append("its environment was changed")
    return found


@dataclass(frozen=True)
class Listener:
    """A port that somebody listens on."""

    address: str
    port: int
    inode: str

    @property
    def loopback(self) -> bool:
        """Say whether only this machine reaches it."""
        return self.address in LOOPBACK


LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
_LISTENING = "0A"


def listeners(tables: Iterable[str]) -> list[Listener]:
    """Read /proc/net/tcp and tcp6."""
    found = []
    for table in tables:
        for line in table.splitlines()[1:]:
            words = line.split()
            if len(words) < 10 or words[3] != _LISTENING:
                continue
            address, _sep, port = words[1].partition(":")
            found.append(Listener(address, int(port, 16), words[9]))
    return found


def in_unit(cgroups: str, unit: str) -> bool:
    """Tell from /proc/PID/cgroup whether a process belongs to a unit."""
    return re.search(rf"/{re.escape(unit)}(?:/|$)", cgroups, re.MULTILINE) is not None
