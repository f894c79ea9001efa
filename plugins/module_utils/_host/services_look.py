# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the present state of a host's services, and what would change. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import pwd
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import listeners
from .as_user import UserError, account_of, as_user, read_plain
from .services import (
    FETCHED_DIR,
    SECRETS_DIR,
    SERVICES_DIR,
    STATE_DIR,
    UNIT_DIR,
    Seen,
    Service,
    action,
    fetch_text,
    fingerprint,
    in_unit,
    port_action,
    port_text,
    proxy_text,
    reasons,
    record,
    set_of,
    unit_text,
    unix_listeners,
)
from .state import as_json, read_text
from .work import Failed, difference, units_shown

# The largest token file that is read.
MOST_OF_TOKEN = 1 << 20


@dataclass
class Entry:
    """One service with all files that are written for it."""

    service: Service
    # The given token; empty if one must be generated here.
    token: str = ""
    files: dict[str, str] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    todo: str = ""
    # What must happen to the socket unit that listens on its port.
    port_todo: str = ""

    @property
    def folder(self) -> Path:
        """Return the folder of its files."""
        return Path(SERVICES_DIR, f"{self.service.name}.d")

    @property
    def token_file(self) -> Path:
        """Return the path of its token."""
        return Path(SERVICES_DIR, f"{self.service.name}.token")

    @property
    def state_file(self) -> Path:
        """Return the file that records what the running service was started with."""
        return Path(STATE_DIR, f"{self.service.name}.json")


def systemctl(*words: str) -> str:
    """Run systemctl; return its output, or raise Failed."""
    # run_command is a method of the module, which is not available here.
    # pylint: disable-next=ansible-bad-function
    done: subprocess.CompletedProcess[str] = subprocess.run(
        ["systemctl", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Failed(f"systemctl {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def properties(units: list[str]) -> dict[str, dict[str, str]]:
    """Return the properties of units, also of units that systemd does not know."""
    if not units:
        return {}
    names = "Id,ActiveState,UnitFileState,NRestarts,NeedDaemonReload,Result"
    return units_shown(systemctl("show", "--property", names, *units))


def there(user: str, pattern: str) -> bool:
    """Return whether a path or pattern matches something that the user can see."""
    account = account_of(user)
    if account is None:
        return False
    rooted = f"/{pattern.lstrip('/')}"
    try:
        # Path.glob of Python 3.12 reads each folder on the way, also one that may only be entered.
        return as_user(account, lambda: any(glob.iglob(rooted, recursive=True)))  # noqa: PTH207 - therefore
    except UserError as error:
        raise Failed(f"{pattern} cannot be read: {error}. Repair or remove it") from None


def entry_of(role: str, params: dict[str, Any], tokens: dict[str, Any]) -> Entry:
    """Return a service and its files for the arguments of a module."""
    sets = [name for name in map(set_of, params.get("environment_files", ())) if name]
    fetched = [name for name in sets if names_google_secrets(name)]
    entry = Entry(Service(role=role, fetched=fetched, **params))
    entry.token = str(tokens.get(entry.service.name, ""))
    for file in entry.service.files:
        if "if_found" not in file or there(entry.service.user, file["if_found"]):
            entry.files[str(entry.folder / file["name"])] = file["content"]
    entry.files[f"{UNIT_DIR}/{entry.service.unit}"] = unit_text(entry.service)
    if entry.service.fetched:
        entry.files[f"{UNIT_DIR}/{entry.service.fetch_unit}"] = fetch_text(entry.service)
    if entry.service.proxied:
        ipv6 = Path("/proc/net/if_inet6").exists()
        entry.files[f"{UNIT_DIR}/{entry.service.port_unit}"] = port_text(entry.service, ipv6)
        entry.files[f"{UNIT_DIR}/{entry.service.proxy_unit}"] = proxy_text(entry.service)
    where = str(entry.token_file) if entry.service.keep_token else ""
    entry.files[f"{SERVICES_DIR}/{entry.service.name}.json"] = as_json(record(entry.service, where))
    return entry


def described(
    role: str, services: list[dict[str, Any]], tokens: dict[str, Any]
) -> tuple[list[Entry], list[str]]:
    """Return all services of the arguments; a problem of one does not affect the others."""
    entries, problems = [], []
    for params in services:
        try:
            entries.append(entry_of(role, params, tokens))
        except (Failed, UserError, OSError) as error:
            problems.append(f"{params['name']}: {error}")
    return entries, problems


def names_google_secrets(name: str) -> bool:
    """Return whether a set of secrets has some that are fetched when a service starts."""
    try:
        known = json.loads(read_text(f"{SECRETS_DIR}/{name}.json") or "{}")
    except ValueError:
        return False
    return bool(known.get("google_secrets"))


def changed_at(path: str) -> int:
    """Return when a file was changed; its content is secret, so it is not read."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def units_of(entries: list[Entry]) -> list[str]:
    """Return the units whose state decides: the services, and the sockets of their ports."""
    services = [entry.service for entry in entries]
    return [unit for one in services for unit in (one.unit, one.port_unit) if unit]


def look(entry: Entry, known: dict[str, dict[str, str]]) -> None:
    """Read the present state of a service, and decide what must happen to it."""
    facts = known.get(entry.service.unit, {})
    port = f"{UNIT_DIR}/{entry.service.port_unit}"
    described = [f"{SECRETS_DIR}/{name}.json" for name in entry.service.fetched]
    secret = {p: changed_at(p) for p in [*entry.service.environment_files, *described]}
    if entry.service.keep_token:
        path = str(entry.token_file)
        secret[path] = changed_at(path) if token_is_as_wanted(entry) else 0
    program = {
        path: text
        for path, text in entry.files.items()
        if path != port and not path.startswith(SERVICES_DIR)
    }
    with_venv = ""
    if entry.service.venv:
        with_venv = os.path.realpath(entry.service.venv)
    entry.seen = Seen(
        active=facts.get("ActiveState", "inactive"),
        enabled=facts.get("UnitFileState") == "enabled",
        listening=known.get(entry.service.port_unit, {}).get("ActiveState") == "active",
        started_with=json.loads(read_text(entry.state_file) or "{}"),
        now_with={
            "files": fingerprint(program),
            "secrets": secret,
            "venv": with_venv,
            **({"port": fingerprint({port: entry.files[port]})} if entry.service.proxied else {}),
        },
    )
    entry.todo = action(entry.service, entry.seen)
    entry.port_todo = port_action(entry.service, entry.seen)


def stale(role: str, kept: set[str]) -> list[str]:
    """Return services that the role has created and that are no longer declared."""
    found = []
    for path in sorted(Path(SERVICES_DIR).glob("*.json")):
        with contextlib.suppress(ValueError):
            known = json.loads(read_text(path) or "{}")
            if isinstance(known, dict) and known.get("role") == role and path.stem not in kept:
                found.append(path.stem)
    return found


def own_units(name: str) -> list[str]:
    """Return the units that may run of a service."""
    names = ("port-{}.socket", "port-{}.service", "{}.service")
    return [f"tpu-fleet-{one.format(name)}" for one in names]


def own_paths(name: str) -> list[Path]:
    """Return a service's paths; its record is last, so that an interrupted removal is repeated."""
    return [
        *(Path(UNIT_DIR, unit) for unit in own_units(name)),
        Path(UNIT_DIR, f"tpu-fleet-secrets-{name}.service"),
        Path(FETCHED_DIR, name),
        Path(SERVICES_DIR, f"{name}.d"),
        Path(SERVICES_DIR, f"{name}.token"),
        Path(STATE_DIR, f"{name}.json"),
        Path(SERVICES_DIR, f"{name}.json"),
    ]


def surplus(entry: Entry) -> list[Path]:
    """Return files of the service that are no longer wanted."""
    fetches = Path(UNIT_DIR, f"tpu-fleet-secrets-{entry.service.name}.service")
    return [
        path
        for path in [*sorted(entry.folder.rglob("*")), fetches]
        if path.is_file() and str(path) not in entry.files
    ]


def kept_token(path: Path) -> str:
    """Return the token in a file; empty if it is not a plain file, because the user owns it."""
    try:
        return (read_plain(str(path), MOST_OF_TOKEN) or b"").decode("utf-8", "surrogateescape")
    except UserError:
        return ""


def token_is_as_wanted(entry: Entry) -> bool:
    """Return whether the token exists, belongs to the user, and is the given one, if any."""
    path, given = entry.token_file, entry.token
    if not entry.service.keep_token:
        return not path.exists()
    try:
        status = path.stat()
        owner = pwd.getpwnam(entry.service.user).pw_uid
    except (OSError, KeyError):
        return False
    if status.st_uid != owner or status.st_mode & 0o777 != 0o600 or status.st_size == 0:
        return False
    return kept_token(path) == given if given else status.st_size <= MOST_OF_TOKEN


def tail(service: Service) -> str:
    """Return the end of a service's log."""
    units = [f"--unit={unit}" for unit in (service.unit, service.fetch_unit) if unit]
    argv = ["journalctl", *units, "--lines", "15", "--no-pager", "--output", "cat"]
    # run_command is a method of the module, which is not available here.
    # pylint: disable-next=ansible-bad-function
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv, capture_output=True, text=True, check=False
    )
    text = done.stdout.strip()
    return f" The end of its log:\n{text}" if text else ""


def problem_of(entry: Entry, facts: dict[str, str], restarts: int) -> str:
    """Return why a service is not up; empty if it is. Raise Failed if it never will be."""
    service = entry.service
    state = facts.get("ActiveState", "unknown")
    if int(facts.get("NRestarts") or 0) - restarts >= entry.service.patience:
        raise Failed(f"it ended {entry.service.patience} times")
    if state != "active":
        return f"it is {state}"
    if not service.port:
        return ""
    if service.proxied:
        return _problem_of_proxied(service)
    found = listeners.of_port(service.port)
    if not found:
        return f"it does not listen on port {service.port} yet"
    for listener in found:
        pid = listeners.holder(listener)
        if not in_unit(read_text(f"/proc/{pid}/cgroup") or "", service.unit):
            return f"port {service.port} is held by {listeners.described(listener)}"
        if service.loopback_only and not listener.loopback:
            raise Failed(
                f"it listens on port {service.port} for other machines too. Change this in its "
                "settings"
            )
    return ""


def _problem_of_proxied(service: Service) -> str:
    if properties([service.port_unit])[service.port_unit].get("ActiveState") != "active":
        who = listeners.taken(service.port)
        raise Failed(
            f"port {service.port} is held by {who[0]}. End it, or declare another port"
            if who
            else f"systemd does not listen on port {service.port}. Apply once more"
        )
    if service.socket not in unix_listeners(read_text("/proc/net/unix") or ""):
        return f"it does not listen on {service.socket} yet"
    return ""


def differences(entries: list[Entry], gone: list[str]) -> list[dict[str, str]]:
    """Return what would change, as --diff shows it."""
    found = []
    for entry in entries:
        for path, text in entry.files.items():
            before = read_text(path) or ""
            if before != text:
                found.append(difference(path, before, text))
        found += [difference(str(path), read_text(path) or "", "") for path in surplus(entry)]
        name = entry.service.name
        if not token_is_as_wanted(entry):
            found.append(difference(f"token of {name}", "", "another\n"))
        if entry.port_todo:
            after = "is closed" if entry.port_todo == "stop" else "is held by systemd"
            found.append(difference(f"port of {name}", "", f"{after}\n"))
        if entry.todo or entry.seen.enabled != entry.service.enabled:
            after = "runs" if entry.service.enabled else "is stopped"
            why = "; ".join(reasons(entry.service, entry.seen)) if entry.todo == "restart" else ""
            state = f"{entry.seen.active}\n"
            found.append(difference(f"service {name}", state, f"{after} {why}".strip() + "\n"))
    found += [difference(f"service {name}", "there\n", "") for name in gone]
    return found
