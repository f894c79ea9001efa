#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: host_services
short_description: Run programs for people as services of a host
version_added: 0.1.0
description:
  - Writes the unit of each service, starts it, and waits until it listens on its port. One that
    does not come up is an error that shows the end of its log.
  - A service whose settings did not change is left alone. One that O(role) made earlier and that
    is not listed any more is removed.
  - What there is, is written to C(/etc/tpu-fleet/services/NAME.json), which everybody may read.
author:
  - The tpu.fleet authors (@tpu-fleet)
options:
  role:
    description: Who declares the services.
    type: str
    required: true
  start_timeout:
    description: Seconds that a service may take until it listens.
    type: int
    default: 300
  services:
    description: The services.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the service; its unit is C(tpu-fleet-NAME.service).
        type: str
        required: true
      description:
        description: What it is, in some words.
        type: str
        required: true
      user:
        description: Linux user that it runs as.
        type: str
        required: true
      command:
        description: Program and arguments. No shell reads them, and they are no place for secrets.
        type: list
        elements: str
        required: true
      before_start:
        description: Programs, with their arguments, that must succeed before each start.
        type: list
        elements: list
        default: []
      workdir:
        description: Its folder. V(~) is the home of the user.
        type: str
        default: '~'
      environment:
        description: Environment variables that everybody may see.
        type: dict
        default: {}
      environment_files:
        description:
          - Files with environment variables that only the user may see.
          - Of a set of role P(tpu.fleet.env_secrets#role) that names secrets in Google Secret
            Manager, those are fetched before each start.
        type: list
        elements: path
        default: []
      memory_max:
        description: Most memory that it may use, as systemd writes it.
        type: str
        default: ''
      hardening:
        description: Whether it may never gain rights that its user has not.
        type: bool
        default: true
      stop_seconds:
        description: Seconds that it has to end.
        type: int
        default: 30
      address:
        description: Address on which it listens.
        type: str
        default: 127.0.0.1
      port:
        description: Port on which it listens. V(0) waits for none.
        type: int
        default: 0
      loopback_only:
        description: Whether it is an error when it listens on any other address.
        type: bool
        default: true
      venv:
        description: Python environment that it runs in.
        type: str
        default: ''
      restart_on_upgrade:
        description: Whether it is restarted when that environment was changed.
        type: bool
        default: false
      enabled:
        description: Whether it runs, now and after every boot.
        type: bool
        default: true
      patience:
        description: How many times it may end while it is waited for.
        type: int
        default: 3
      folders:
        description: Folders to make, as the user, where they are missing.
        type: list
        elements: path
        default: []
      private_folders:
        description: Folders to make for the user alone, by root, where they are missing.
        type: list
        elements: path
        default: []
      files:
        description: Files in a folder of its own, C(/etc/tpu-fleet/services/NAME.d).
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Path below that folder.
            type: str
            required: true
          content:
            description: What is in it.
            type: str
            required: true
          if_found:
            description: Pattern. The file is only written where something matches.
            type: str
            default: ''
      needs:
        description: What must be there before it is started.
        type: list
        elements: dict
        default: []
        suboptions:
          path:
            description: A path, or a pattern that something must match.
            type: str
            required: true
          remedy:
            description: What to do when it is missing.
            type: str
            required: true
      keep_token:
        description:
          - Whether a token is kept in C(/etc/tpu-fleet/services/NAME.token), for the user alone.
          - Where there is none, one is made.
        type: bool
        default: false
      facts:
        description: What else everybody should know of it.
        type: dict
        default: {}
  tokens:
    description: Tokens of services that keep one, by name, where they are not to be made here.
    type: dict
    default: {}
attributes:
  check_mode:
    description: Changes nothing, says what would change.
    support: full
  diff_mode:
    description: Shows units and other files before and after, never a token.
    support: full
"""

EXAMPLES = r"""
- name: Serve a folder to those who can log in
  tpu.fleet.host_services:
    role: my_role
    services:
      - name: files
        description: Files of alice
        user: alice
        command: [/usr/bin/python3, -m, http.server, --bind, 127.0.0.1, "8000"]
        port: 8000
"""

RETURN = r"""
services:
  description: What happened to each service, by name.
  type: dict
  returned: always
removed:
  description: Services that are not there any more.
  type: list
  elements: str
  returned: always
"""

import contextlib
import json
import os
import pwd
import secrets
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._host.as_user import (
    UserError,
    account_of,
    as_user,
    give_folder,
    read_plain,
    refuse_foreign,
)
from ..module_utils._host.services import (
    FETCHED_DIR,
    SECRETS_DIR,
    SERVICES_DIR,
    STATE_DIR,
    UNIT_DIR,
    Listener,
    Seen,
    Service,
    action,
    fetch_text,
    fingerprint,
    in_unit,
    listeners,
    reasons,
    record,
    set_of,
    unit_text,
)
from ..module_utils._host.state import as_json, read_text, write_atomically

SPEC: dict[str, Any] = {
    "name": {"type": "str", "required": True},
    "description": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "command": {"type": "list", "elements": "str", "required": True},
    "before_start": {"type": "list", "elements": "list", "default": []},
    "workdir": {"type": "str", "default": "~"},
    "environment": {"type": "dict", "default": {}},
    "environment_files": {"type": "list", "elements": "path", "default": []},
    "memory_max": {"type": "str", "default": ""},
    "hardening": {"type": "bool", "default": True},
    "stop_seconds": {"type": "int", "default": 30},
    "address": {"type": "str", "default": "127.0.0.1"},
    "port": {"type": "int", "default": 0},
    "loopback_only": {"type": "bool", "default": True},
    "venv": {"type": "str", "default": ""},
    "restart_on_upgrade": {"type": "bool", "default": False},
    "enabled": {"type": "bool", "default": True},
    "patience": {"type": "int", "default": 3},
    "folders": {"type": "list", "elements": "path", "default": []},
    "private_folders": {"type": "list", "elements": "path", "default": []},
    "files": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "content": {"type": "str", "required": True},
            "if_found": {"type": "str", "default": ""},
        },
    },
    "needs": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "path": {"type": "str", "required": True},
            "remedy": {"type": "str", "required": True},
        },
    },
    "keep_token": {"type": "bool", "default": False, "no_log": False},
    "facts": {"type": "dict", "default": {}},
}
# What the file of a token may hold.
MOST_OF_TOKEN = 1 << 20
NOT_OF_A_SERVICE = (
    "patience",
    "folders",
    "private_folders",
    "files",
    "needs",
    "keep_token",
)


class Failed(Exception):
    """Something is missing, or did not come up."""


@dataclass
class Entry:
    """One service with everything that is written for it."""

    service: Service
    params: dict[str, Any]
    # Where it is not to be made here.
    token: str = ""
    files: dict[str, str] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    todo: str = ""

    @property
    def folder(self) -> Path:
        """Return the folder of its files."""
        return Path(SERVICES_DIR, f"{self.service.name}.d")

    @property
    def token_file(self) -> Path:
        """Return where its token is."""
        return Path(SERVICES_DIR, f"{self.service.name}.token")

    @property
    def state_file(self) -> Path:
        """Return where it is noted what the running one was started with."""
        return Path(STATE_DIR, f"{self.service.name}.json")


def systemctl(*words: str) -> str:
    """Give systemd an order."""
    # run_command is a method of the module, which is not at hand here.
    # pylint: disable-next=ansible-bad-function
    done: subprocess.CompletedProcess[str] = subprocess.run(
        ["systemctl", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Failed(f"systemctl {' '.join(words)}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def properties(units: list[str]) -> dict[str, dict[str, str]]:
    """Ask systemd about units, also about those that it does not know."""
    if not units:
        return {}
    names = "Id,ActiveState,UnitFileState,NRestarts,NeedDaemonReload,Result"
    found = {}
    for block in systemctl("show", "--property", names, *units).strip().split("\n\n"):
        facts = dict(line.partition("=")[::2] for line in block.splitlines())
        found[facts.get("Id", "")] = facts
    return found


def all_listeners() -> list[Listener]:
    """See which ports are taken."""
    return listeners(read_text(f"/proc/net/{name}") or "" for name in ("tcp", "tcp6"))


def holder(listener: Listener) -> tuple[int, str]:
    """Find the process that listens: its number and its cgroups."""
    wanted = f"socket:[{listener.inode}]"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for descriptor in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    if os.path.realpath(descriptor).endswith(wanted):
                        return int(process.name), read_text(process / "cgroup") or ""
    return 0, ""


def command_of(pid: int) -> str:
    """Name a process for a message."""
    words = (read_text(f"/proc/{pid}/cmdline") or "").split("\0")
    return f"process {pid} ({' '.join(words[:2]).strip()})" if pid else "somebody"


def there(user: str, pattern: str) -> bool:
    """Tell whether something that the user can see matches a path or a pattern."""
    account = account_of(user)
    if account is None:
        return False
    try:
        return as_user(account, lambda: any(Path("/").glob(pattern.lstrip("/"))))
    except UserError as error:
        raise Failed(f"{pattern} cannot be looked at: {error}. Mend or remove it") from None


def entry_of(role: str, params: dict[str, Any], tokens: dict[str, Any]) -> Entry:
    """Turn arguments into a service and its files."""
    own = {key: value for key, value in params.items() if key not in NOT_OF_A_SERVICE}
    sets = [name for name in map(set_of, params["environment_files"]) if name]
    fetched = [name for name in sets if names_google_secrets(name)]
    entry = Entry(Service(role=role, fetched=fetched, **own), params)
    entry.token = str(tokens.get(entry.service.name, ""))
    for file in params["files"]:
        if not file["if_found"] or there(entry.service.user, file["if_found"]):
            entry.files[str(entry.folder / file["name"])] = file["content"]
    entry.files[f"{UNIT_DIR}/{entry.service.unit}"] = unit_text(entry.service)
    if entry.service.fetched:
        entry.files[f"{UNIT_DIR}/{entry.service.fetch_unit}"] = fetch_text(entry.service)
    where = str(entry.token_file) if entry.params["keep_token"] else ""
    entry.files[f"{SERVICES_DIR}/{entry.service.name}.json"] = as_json(record(entry.service, where))
    return entry


def described(
    role: str, services: list[dict[str, Any]], tokens: dict[str, Any]
) -> tuple[list[Entry], list[str]]:
    """Turn all arguments into services; what is in the way of one stops none of another."""
    entries, problems = [], []
    for params in services:
        try:
            entries.append(entry_of(role, params, tokens))
        except (Failed, UserError, OSError) as error:
            problems.append(f"{params['name']}: {error}")
    return entries, problems


def names_google_secrets(name: str) -> bool:
    """Tell whether a set of secrets has some that are fetched when they are used."""
    try:
        known = json.loads(read_text(f"{SECRETS_DIR}/{name}.json") or "{}")
    except ValueError:
        return False
    return bool(known.get("google_secrets"))


def changed_at(path: str) -> int:
    """Say when a file was changed; its content is nobody's business."""
    try:
        return Path(path).stat().st_mtime_ns
    except OSError:
        return 0


def look(entry: Entry, facts: dict[str, str]) -> None:
    """See how the service is, and what would have to happen to it."""
    described = [f"{SECRETS_DIR}/{name}.json" for name in entry.service.fetched]
    secret = {p: changed_at(p) for p in [*entry.params["environment_files"], *described]}
    if entry.params["keep_token"]:
        path = str(entry.token_file)
        secret[path] = changed_at(path) if token_is_as_wanted(entry) else 0
    program = {
        path: text for path, text in entry.files.items() if not path.startswith(SERVICES_DIR)
    }
    with_venv = ""
    if entry.service.venv:
        with_venv = os.path.realpath(entry.service.venv)
    entry.seen = Seen(
        active=facts.get("ActiveState", "inactive"),
        enabled=facts.get("UnitFileState") == "enabled",
        started_with=json.loads(read_text(entry.state_file) or "{}"),
        now_with={
            "files": fingerprint(program),
            "secrets": secret,
            "venv": with_venv,
        },
    )
    entry.todo = action(entry.service, entry.seen)


def stale(role: str, kept: set[str]) -> list[str]:
    """Find services that the role made and does not want any more."""
    found = []
    for path in sorted(Path(SERVICES_DIR).glob("*.json")):
        with contextlib.suppress(ValueError):
            known = json.loads(read_text(path) or "{}")
            if isinstance(known, dict) and known.get("role") == role and path.stem not in kept:
                found.append(path.stem)
    return found


def own_paths(name: str) -> list[Path]:
    """List what belongs to a service; its record goes last, so that a removal can be taken up."""
    return [
        Path(UNIT_DIR, f"tpu-fleet-{name}.service"),
        Path(UNIT_DIR, f"tpu-fleet-secrets-{name}.service"),
        Path(FETCHED_DIR, name),
        Path(SERVICES_DIR, f"{name}.d"),
        Path(SERVICES_DIR, f"{name}.token"),
        Path(STATE_DIR, f"{name}.json"),
        Path(SERVICES_DIR, f"{name}.json"),
    ]


def remove(name: str) -> None:
    """End a service and remove its files."""
    unit = f"tpu-fleet-{name}.service"
    if Path(UNIT_DIR, unit).exists():
        systemctl("disable", "--now", unit)
    for path in own_paths(name):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def surplus(entry: Entry) -> list[Path]:
    """List files in its folder that are not wanted any more."""
    fetches = Path(UNIT_DIR, f"tpu-fleet-secrets-{entry.service.name}.service")
    return [
        path
        for path in [*sorted(entry.folder.rglob("*")), fetches]
        if path.is_file() and str(path) not in entry.files
    ]


def kept_token(path: Path) -> str:
    """Return the token in a file that is the user's, who may have put anything there."""
    try:
        return (read_plain(str(path), MOST_OF_TOKEN) or b"").decode("utf-8", "surrogateescape")
    except UserError:
        return ""


def token_is_as_wanted(entry: Entry) -> bool:
    """Tell whether the token is there, belongs to the user, and is the one that was given."""
    path, given = entry.token_file, entry.token
    if not entry.params["keep_token"]:
        return not path.exists()
    try:
        status = path.stat()
        owner = pwd.getpwnam(entry.service.user).pw_uid
    except (OSError, KeyError):
        return False
    if status.st_uid != owner or status.st_mode & 0o777 != 0o600 or status.st_size == 0:
        return False
    return kept_token(path) == given if given else status.st_size <= MOST_OF_TOKEN


def write_token(entry: Entry, user: pwd.struct_passwd) -> None:
    """Make the token that is wanted; one that is there is kept."""
    path = entry.token_file
    if token_is_as_wanted(entry):
        return
    if not entry.params["keep_token"]:
        path.unlink()
        return
    token = entry.token or kept_token(path) or secrets.token_urlsafe(32)
    # Without an end of line: some programs take the file as it is.
    write_atomically(path, token, mode=0o600, uid=user.pw_uid, gid=user.pw_gid)


def make_folder(user: str, folder: str) -> None:
    """Make a folder with the rights of a user: where root has none, as on NFS, the user has."""
    try:
        as_user(user, lambda: Path(folder).mkdir(parents=True, exist_ok=True))
    except UserError as error:
        raise Failed(f"{folder} cannot be made as {user}: {error}") from None


def make_private(user: pwd.struct_passwd, folder: str) -> None:
    """Make a folder for a user alone where root alone can; a link there is not followed."""
    path = Path(folder)
    refuse_foreign(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    give_folder(folder, user.pw_uid, user.pw_gid, 0o700)


def prepare(entry: Entry) -> None:
    """Check and make what the service needs before it can start."""
    service = entry.service
    try:
        user = pwd.getpwnam(service.user)
    except KeyError as error:
        raise Failed(
            f"{service.user} is no user of this host. Declare it in "
            "user_accounts_users, for this slice"
        ) from error
    for need in entry.params["needs"] if service.enabled else ():
        if not there(service.user, need["path"]):
            raise Failed(f"there is no {need['path']}. {need['remedy']}")
    for folder in entry.params["private_folders"]:
        make_private(user, folder)
    for folder in entry.params["folders"]:
        make_folder(service.user, folder)
    write_token(entry, user)


def write_files(entry: Entry) -> None:
    """Write unit, record and files, and remove what is not wanted any more."""
    for name, text in entry.files.items():
        path = Path(name)
        if read_text(path) != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, text)
    for path in surplus(entry):
        path.unlink()
        if path.parent != Path(UNIT_DIR):
            with contextlib.suppress(OSError):
                path.parent.rmdir()


def prepared(entries: list[Entry]) -> tuple[list[Entry], list[str]]:
    """Write what the services need; what is in the way of one stops none of another."""
    ready, problems = [], []
    for entry in entries:
        try:
            prepare(entry)
        except (Failed, UserError, OSError) as error:
            problems.append(f"{entry.service.name}: {error}")
            continue
        write_files(entry)
        ready.append(entry)
    return ready, problems


def problem_of(entry: Entry, facts: dict[str, str], restarts: int) -> str:
    """Say what keeps a service from being up; empty when it is."""
    service = entry.service
    state = facts.get("ActiveState", "unknown")
    if int(facts.get("NRestarts") or 0) - restarts >= entry.params["patience"]:
        raise Failed(f"it ended {entry.params['patience']} times")
    if state != "active":
        return f"it is {state}"
    if not service.port:
        return ""
    found = [listener for listener in all_listeners() if listener.port == service.port]
    if not found:
        return f"it does not listen on port {service.port} yet"
    for listener in found:
        pid, cgroups = holder(listener)
        if not in_unit(cgroups, service.unit):
            return f"port {service.port} is held by {command_of(pid)}"
        if service.loopback_only and not listener.loopback:
            raise Failed(
                f"it listens on port {service.port} for other machines too. Take that out of its "
                "settings"
            )
    return ""


def wait_for(entries: list[Entry], timeout: int) -> list[str]:
    """Wait until all are up; say of each that does not come what keeps it."""
    deadline = time.monotonic() + timeout
    units = [entry.service.unit for entry in entries]
    begun = {unit: int(f.get("NRestarts") or 0) for unit, f in properties(units).items()}
    waiting, problems = list(entries), []
    while waiting:
        facts = properties([entry.service.unit for entry in waiting])
        still = []
        for entry in waiting:
            unit = entry.service.unit
            try:
                problem = problem_of(entry, facts.get(unit, {}), begun.get(unit, 0))
                if problem and time.monotonic() > deadline:
                    raise Failed(f"after {timeout} s {problem}")
            except Failed as error:
                end = tail(entry.service)
                problems.append(f"{entry.service.name} did not come up: {error}.{end}")
                continue
            if problem:
                still.append(entry)
        waiting = still
        if waiting:
            time.sleep(1)
    return problems


def tail(service: Service) -> str:
    """Return the end of a service's log."""
    units = [f"--unit={unit}" for unit in (service.unit, service.fetch_unit) if unit]
    argv = ["journalctl", *units, "--lines", "15", "--no-pager", "--output", "cat"]
    # run_command is a method of the module, which is not at hand here.
    # pylint: disable-next=ansible-bad-function
    done: subprocess.CompletedProcess[str] = subprocess.run(
        argv, capture_output=True, text=True, check=False
    )
    text = done.stdout.strip()
    return f" The end of its log:\n{text}" if text else ""


def start(entries: list[Entry], reload: bool) -> None:
    """Give systemd its orders, as few as possible."""
    if reload:
        systemctl("daemon-reload")
    on = [entry.service.unit for entry in entries if entry.service.enabled]
    off = [entry.service.unit for entry in entries if not entry.service.enabled]
    disabled = [e.service.unit for e in entries if e.service.unit in on and not e.seen.enabled]
    enabled = [e.service.unit for e in entries if e.service.unit in off and e.seen.enabled]
    if disabled:
        systemctl("enable", "--quiet", *disabled)
    if enabled:
        systemctl("disable", "--quiet", *enabled)
    for verb in ("stop", "restart", "start"):
        units = [entry.service.unit for entry in entries if entry.todo == verb]
        if units:
            systemctl(verb, "--no-block" if verb != "stop" else "--quiet", *units)


def note_start(entry: Entry) -> None:
    """Note what the service runs with, so that the next run knows whether that is still so."""
    secret = {path: changed_at(path) for path in entry.seen.now_with["secrets"]}
    text = as_json({**entry.seen.now_with, "secrets": secret})
    if read_text(entry.state_file) != text:
        entry.state_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(entry.state_file, text, mode=0o600)


def differences(entries: list[Entry], gone: list[str]) -> list[dict[str, str]]:
    """Show what would be different."""
    found = []
    for entry in entries:
        for path, text in entry.files.items():
            before = read_text(path) or ""
            if before != text:
                found.append(_difference(path, before, text))
        found += [_difference(str(path), read_text(path) or "", "") for path in surplus(entry)]
        name = entry.service.name
        if not token_is_as_wanted(entry):
            found.append(_difference(f"token of {name}", "", "another\n"))
        if entry.todo or entry.seen.enabled != entry.service.enabled:
            after = "runs" if entry.service.enabled else "is stopped"
            why = "; ".join(reasons(entry.service, entry.seen)) if entry.todo == "restart" else ""
            state = f"{entry.seen.active}\n"
            found.append(_difference(f"service {name}", state, f"{after} {why}".strip() + "\n"))
    found += [_difference(f"service {name}", "there\n", "") for name in gone]
    return found


def _difference(header: str, before: str, after: str) -> dict[str, str]:
    return {"before_header": header, "after_header": header, "before": before, "after": after}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "role": {"type": "str", "required": True},
            "start_timeout": {"type": "int", "default": 300},
            "services": {"type": "list", "elements": "dict", "default": [], "options": SPEC},
            # Not in the services: Ansible writes those to the journal, where it hides a value only
            # as it is, and not as Python quotes it.
            "tokens": {"type": "dict", "default": {}, "no_log": True},
        },
        supports_check_mode=True,
    )
    role = module.params["role"]
    tokens = module.params["tokens"]
    entries, problems = described(role, module.params["services"], tokens)
    try:
        facts = properties([entry.service.unit for entry in entries])
        for entry in entries:
            look(entry, facts.get(entry.service.unit, {}))
        gone = stale(role, {params["name"] for params in module.params["services"]})
        found = differences(entries, gone)
        result = {
            "changed": bool(found),
            "diff": found,
            "services": {entry.service.name: entry.todo or "unchanged" for entry in entries},
            "removed": gone,
        }
        if module.check_mode:
            if problems:
                raise Failed("; ".join(problems))
            module.exit_json(**result)
        for name in gone:
            remove(name)
        if entries:
            Path(SERVICES_DIR).mkdir(parents=True, exist_ok=True)
        entries, unprepared = prepared(entries)
        problems += unprepared
        reload = any(change["before_header"].startswith(UNIT_DIR) for change in found) or bool(gone)
        reload |= any(f.get("NeedDaemonReload") == "yes" for f in facts.values())
        start(entries, reload)
        problems += wait_for(
            [entry for entry in entries if entry.service.enabled], module.params["start_timeout"]
        )
        if problems:
            raise Failed("; ".join(problems))
        for entry in entries:
            if entry.service.enabled:
                note_start(entry)
    except (Failed, UserError, OSError) as error:
        module.fail_json(msg=f"{role}: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
