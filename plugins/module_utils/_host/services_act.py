# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bring the services of a host to their declared state. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import pwd
import secrets
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .as_user import UserError, as_user, give_folder, refuse_foreign
from .services import TEMPORARY_DIR, UNIT_DIR
from .services_look import (
    Entry,
    changed_at,
    kept_token,
    own_paths,
    own_units,
    problem_of,
    properties,
    surplus,
    systemctl,
    tail,
    there,
    token_is_as_wanted,
)
from .state import as_json, read_text, write_atomically
from .work import Failed


def remove(name: str) -> None:
    """Stop a service and remove its files."""
    for unit in own_units(name):
        if Path(UNIT_DIR, unit).exists():
            systemctl("disable", "--now", "--quiet", unit)
    remove_temporary(Path(TEMPORARY_DIR, name))
    for path in own_paths(name):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def remove_temporary(folder: Path) -> None:
    """Remove a service's temporary files with the rights of their owner, as far as that works."""

    def empty() -> None:
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()

    with contextlib.suppress(OSError, KeyError, UserError):
        as_user(pwd.getpwuid(folder.lstat().st_uid), empty)
        folder.rmdir()


def write_token(entry: Entry, user: pwd.struct_passwd) -> None:
    """Write the wanted token; a generated one is kept."""
    path = entry.token_file
    if token_is_as_wanted(entry):
        return
    if not entry.service.keep_token:
        path.unlink()
        return
    token = entry.token or kept_token(path) or secrets.token_urlsafe(32)
    # Without a line end, because some programs use the file's content unchanged.
    write_atomically(path, token, mode=0o600, uid=user.pw_uid, gid=user.pw_gid)


def make_folder(user: str, folder: str) -> None:
    """Create a folder with the user's rights, because root may have none there, as on NFS."""
    try:
        as_user(user, lambda: Path(folder).mkdir(parents=True, exist_ok=True))
    except UserError as error:
        raise Failed(f"{folder} cannot be created as {user}: {error}") from None


def make_private(user: pwd.struct_passwd, folder: str) -> None:
    """Create a user's private folder where only root can; a link there is not followed."""
    path = Path(folder)
    refuse_foreign(path.parent)
    path.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    give_folder(folder, user.pw_uid, user.pw_gid, 0o700)


def prepare(entry: Entry) -> None:
    """Check and create what the service needs before it can start."""
    service = entry.service
    try:
        user = pwd.getpwnam(service.user)
    except KeyError as error:
        raise Failed(
            f"{service.user} is not a user of this host. Declare it in fleet_users, for this slice"
        ) from error
    for need in service.needs if service.enabled else ():
        if not there(service.user, need["path"]):
            raise Failed(f"there is no {need['path']}. {need['remedy']}")
    for folder in service.private_folders:
        make_private(user, folder)
    for folder in service.folders:
        make_folder(service.user, folder)
    write_token(entry, user)


def write_files(entry: Entry) -> None:
    """Write unit, record and files, and remove files that are no longer wanted."""
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
    """Prepare the services; a problem of one does not keep the others from starting."""
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


def wait_for(entries: list[Entry], timeout: int) -> list[str]:
    """Wait until all services are up; return the problems of those that do not come up."""
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


def start(entries: list[Entry], reload: bool) -> None:
    """Pass the orders to systemd with as few calls as possible."""
    if reload:
        systemctl("daemon-reload")
    take_ports(entries)
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


def take_ports(entries: list[Entry]) -> None:
    """Have systemd listen on the ports of services, or stop listening.

    If another process has the port, people may have sent it the token, so that is replaced.
    """
    for entry in entries:
        service = entry.service
        if not entry.port_todo:
            continue
        if entry.port_todo == "stop":
            systemctl("disable", "--quiet", service.port_unit)
        systemctl("stop", service.port_unit, service.proxy_unit)
        if entry.port_todo == "stop":
            continue
        systemctl("enable", "--quiet", service.port_unit)
        try:
            systemctl("start", service.port_unit)
        except Failed:
            # wait_for() reports who has the port.
            replace_token(entry)
            continue
        note(entry, {**entry.seen.started_with, "port": entry.seen.now_with["port"]})


def replace_token(entry: Entry) -> None:
    """Replace a generated token by another one, and have the service read it."""
    if entry.service.keep_token and not entry.token:
        entry.token_file.unlink(missing_ok=True)
        write_token(entry, pwd.getpwnam(entry.service.user))
        if entry.todo != "start":
            entry.todo = "restart"


def note_start(entry: Entry) -> None:
    """Record what the service runs with, so that the next apply notices a change."""
    secret = {path: changed_at(path) for path in entry.seen.now_with["secrets"]}
    note(entry, {**entry.seen.now_with, "secrets": secret})


def note(entry: Entry, started_with: Mapping[str, Any]) -> None:
    """Record what a service and the socket of its port were started with."""
    text = as_json({**started_with})
    if read_text(entry.state_file) != text:
        entry.state_file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(entry.state_file, text, mode=0o600)
