# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide how a service runs and what must happen to it. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

UNIT_DIR = "/etc/systemd/system"
SERVICES_DIR = "/etc/tpu-fleet/services"
STATE_DIR = "/var/lib/tpu-fleet/services"
SECRETS_DIR = "/etc/tpu-fleet/secrets"
FETCHED_DIR = "/run/tpu-fleet/secrets"
RUNTIME_DIR = "/run/tpu-fleet"
# Temporary files of services. A folder below /run cannot be used, because nothing there may be
# executed, and compilers and frameworks load libraries from their temporary files.
TEMPORARY_DIR = "/var/lib/tpu-fleet/tmp"

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
    # No shell reads it, and it is no place for secrets.
    command: Sequence[str]
    # Programs with their arguments that must succeed before each start.
    before_start: Sequence[Sequence[str]] = ()
    # `~` is the home of the user.
    workdir: str = "~"
    # All users may see these, and the variables in the files only the user.
    environment: Mapping[str, str] = field(default_factory=dict)
    environment_files: Sequence[str] = ()
    # Sets of secrets with entries in Google Secret Manager.
    fetched: Sequence[str] = ()
    # As systemd writes it.
    memory_max: str = ""
    # Whether it may never gain rights that its user has not.
    hardening: bool = True
    stop_seconds: int = 30
    address: str = "127.0.0.1"
    # 0: it listens on none.
    port: int = 0
    # Whether it is an error when it listens on any other address.
    loopback_only: bool = True
    # Whether systemd listens on the port, and the program on a socket in its own folder. If another
    # process has the port, that is an error, and a generated token is replaced.
    proxied: bool = False
    venv: str = ""
    restart_on_upgrade: bool = False
    enabled: bool = True
    # How many times it may end while it is waited for.
    patience: int = 3
    # Folders to make where they are missing: as the user, and by root for the user alone.
    folders: Sequence[str] = ()
    private_folders: Sequence[str] = ()
    # Each has a name below NAME.d and its content; and if_found, without a match of which it is not
    # written.
    files: Sequence[Mapping[str, str]] = ()
    # Each is a path, or a pattern, that must be there before the start, with a remedy.
    needs: Sequence[Mapping[str, str]] = ()
    # Whether a token is kept in NAME.token, for the user alone; a missing one is created.
    keep_token: bool = False
    # What all users may know of it, besides.
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unit(self) -> str:
        """Return the name of its unit."""
        return f"tpu-fleet-{self.name}.service"

    @property
    def fetch_unit(self) -> str:
        """Return the name of the unit that fetches its secrets from Google; empty without any."""
        return f"tpu-fleet-secrets-{self.name}.service" if self.fetched else ""

    @property
    def port_unit(self) -> str:
        """Return the name of the socket unit that listens on its port; empty without one."""
        return f"tpu-fleet-port-{self.name}.socket" if self.proxied else ""

    @property
    def proxy_unit(self) -> str:
        """Return the name of the unit that passes connections on; empty without one."""
        return f"tpu-fleet-port-{self.name}.service" if self.proxied else ""

    @property
    def socket(self) -> str:
        """Return the UNIX socket on which the program listens; empty if it listens on its port."""
        return socket_of(self.name) if self.proxied else ""

    @property
    def temporary(self) -> str:
        """Return the folder of its temporary files, which only its user can enter."""
        return f"{TEMPORARY_DIR}/{self.name}"


@dataclass(frozen=True)
class Seen:
    """The present state of a service on the host."""

    active: str = "inactive"
    enabled: bool = False
    # Whether systemd listens on its port; of a service without a socket unit, false.
    listening: bool = False
    # A description of what it was started with, and of what it would be started with now.
    started_with: Mapping[str, Any] = field(default_factory=dict)
    now_with: Mapping[str, Any] = field(default_factory=dict)


def socket_of(name: str) -> str:
    """Return the UNIX socket of a service, in the folder that only its user can enter."""
    return f"{RUNTIME_DIR}/{name}/http"


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
        # In /tmp another user could create what a program is about to open there.
        f"Environment={assigned('TMPDIR', service.temporary)}",
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
    # Whatever used its temporary files has ended.
    before = [["/usr/bin/find", service.temporary, "-mindepth", "1", "-delete"]]
    lines += [f"ExecStartPre=-{' '.join(quoted(word) for word in words)}" for words in before]
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
        f"StateDirectory=tpu-fleet/tmp/{service.name}",
        "StateDirectoryMode=0700",
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


def port_text(service: Service, ipv6: bool) -> str:
    """Return the socket unit of a port: systemd listens there before any user's program runs.

    A user who binds the port of another user's service first would receive its token. For the name
    localhost a client tries the address of IPv6 first.
    """
    lines = [
        f"# Managed by tpu.fleet (role {service.role}).",
        "[Unit]",
        # With another user the socket is another one, so that the first user has no part in it.
        f"Description=Port of {service.unit} for {service.user}",
        "",
        "[Socket]",
        f"ListenStream=127.0.0.1:{service.port}",
        *([f"ListenStream=[::1]:{service.port}"] if ipv6 else []),
        "FreeBind=yes",
        "",
        "[Install]",
        "WantedBy=sockets.target",
    ]
    return "\n".join(lines) + "\n"


def proxy_text(service: Service) -> str:
    """Return the unit that passes connections from the port on to the program's UNIX socket."""
    lines = [
        f"# Managed by tpu.fleet (role {service.role}).",
        "[Unit]",
        f"Description=Connections to {service.unit}",
        # systemd gives a port up whose unit is started too often.
        "StartLimitIntervalSec=0",
        "",
        "[Service]",
        f"User={service.user}",
        # Limits how often it is started for a user who is gone.
        "ExecStartPre=+/bin/sleep 0.2",
        f"ExecStart=/lib/systemd/systemd-socket-proxyd --connections-max=4096 {service.socket}",
        "LimitNOFILE=16384",
        "OOMScoreAdjust=500",
        *HARDENING,
    ]
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


def port_action(service: Service, seen: Seen) -> str:
    """Return what must happen to the socket unit: start, restart, stop, or an empty text.

    It is restarted only when it changed, because another user could bind the port meanwhile.
    """
    if not service.proxied:
        return ""
    if not service.enabled:
        return "stop" if seen.listening else ""
    if not seen.listening:
        return "start"
    return "restart" if seen.started_with.get("port") != seen.now_with.get("port") else ""


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


def unix_listeners(table: str) -> set[str]:
    """Return the paths on which processes listen, of the table /proc/net/unix."""
    words = [line.split(maxsplit=7) for line in table.splitlines()[1:]]
    # The flag that marks a socket which accepts connections.
    return {one[7] for one in words if len(one) == 8 and int(one[3], 16) & 0x10000}


def in_unit(cgroups: str, unit: str) -> bool:
    """Return whether a process belongs to a unit, by its /proc/PID/cgroup."""
    return re.search(rf"/{re.escape(unit)}(?:/|$)", cgroups, re.MULTILINE) is not None
