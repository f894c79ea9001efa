# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how a service runs and what must happen to it. No I/O. Private to tpu.fleet."""

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

# These take no right from a program that its user has, and do not change its view of the file
# system: it sees disks and shares that are mounted later, and the TPU's devices.
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
    """One program that runs as a user."""

    name: str
    role: str
    description: str
    user: str
    command: Sequence[str]
    before_start: Sequence[Sequence[str]] = ()
    workdir: str = "~"
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_files: Sequence[str] = ()
    # Sets of secrets with entries in Google Secret Manager.
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
        """Return the name of its unit."""
        return f"tpu-fleet-{self.name}.service"

    @property
    def fetch_unit(self) -> str:
        """Return the name of the unit that fetches its secrets from Google; empty without any."""
        return f"tpu-fleet-secrets-{self.name}.service" if self.fetched else ""


@dataclass(frozen=True)
class Seen:
    """The present state of a service on the host."""

    active: str = "inactive"
    enabled: bool = False
    # A description of what it was started with, and of what it would be started with now.
    started_with: Mapping[str, Any] = field(default_factory=dict)
    now_with: Mapping[str, Any] = field(default_factory=dict)


def quoted(word: str) -> str:
    """Return a word quoted so that systemd reads it unchanged."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return '"' + text.replace("%", "%%").replace("$", "$$") + '"'


def assigned(name: str, value: str) -> str:
    """Return an assignment for Environment=, in which a dollar sign is not special."""
    return quoted(f"{name}={value}").replace("$$", "$")


def unit_text(service: Service) -> str:
    """Return the text of the unit."""
    lines = [
        f"# Managed by tpu.fleet (role {service.role}).",
        "[Unit]",
        f"Description={service.description.replace('%', '%%')}",
        "After=network-online.target remote-fs.target nss-user-lookup.target",
        "Wants=network-online.target",
        *(f"{key}={service.fetch_unit}" for key in ("After", "Wants") if service.fetched),
        # Retry without limit, because a folder or a network may appear later.
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
    # If a set was not fetched, its file is missing: the start fails and systemd retries.
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
        # When memory runs out, the kernel should end this service before the training.
        "OOMScoreAdjust=500",
    ]
    if service.memory_max:
        lines.append(f"MemoryMax={service.memory_max}")
    if service.hardening:
        lines += HARDENING
    lines += ["", "[Install]", "WantedBy=multi-user.target"]
    return "\n".join(lines) + "\n"


def fetch_text(service: Service) -> str:
    """Return the unit that fetches the secrets as root, which checks the user's permission.

    It is a separate unit, because in the service's unit even a command with "+" gets the service's
    variables, some from files of its user. LD_PRELOAD would let these decide what root runs.
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
    """Return the public description of a service: what it is and how to reach it."""
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
    """Return the set of secrets that a file belongs to; empty for any other file."""
    folder, _slash, name = path.rpartition("/")
    return name[: -len(".env")] if folder == SECRETS_DIR and name.endswith(".env") else ""


def fingerprint(files: Mapping[str, str]) -> str:
    """Return a short hash of file contents."""
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()[:16]


def action(service: Service, seen: Seen) -> str:
    """Return what must happen to a service: start, restart, stop, or an empty text."""
    alive = seen.active in ("active", "activating", "reloading")
    if not service.enabled:
        return "stop" if alive else ""
    if not alive:
        return "start"
    return "restart" if reasons(service, seen) else ""


def reasons(service: Service, seen: Seen) -> list[str]:
    """Return why a running service must be restarted."""
    found = []
    for key, what in (("files", "its settings"), ("secrets", "a secret of its")):
        if seen.started_with.get(key) != seen.now_with.get(key):
            found.append(f"{what} changed")
    # python_env keeps an old build while a program uses it, so this restart is optional.
    if service.restart_on_upgrade and seen.started_with.get("venv") != seen.now_with.get("venv"):
        found.append("its environment was changed")
    return found


@dataclass(frozen=True)
class Listener:
    """A port with a listening process."""

    address: str
    port: int
    inode: str

    @property
    def loopback(self) -> bool:
        """Return whether only this machine can reach it."""
        return self.address in LOOPBACK


LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")
_LISTENING = "0A"


def listeners(tables: Iterable[str]) -> list[Listener]:
    """Return the listeners in the tables /proc/net/tcp and tcp6."""
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
    """Return whether a process belongs to a unit, by its /proc/PID/cgroup."""
    return re.search(rf"/{re.escape(unit)}(?:/|$)", cgroups, re.MULTILINE) is not None
