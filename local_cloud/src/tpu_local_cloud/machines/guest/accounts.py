"""Accounts from the `ssh-keys` of the metadata, as Google's guest agent creates them."""

from __future__ import annotations

import json
import os
import pwd
import re
import subprocess
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

MARK = "# Added by Google"
SUDOERS = "google-sudoers"
GROUPS = ("adm", "dip", "docker", "lxd", "plugdev", "video")
STATE = Path("/var/lib/google/google_users")
_USER = re.compile(r"^[a-z_][a-z0-9_-]{0,31}$")


def wanted_keys(
    instance: Mapping[str, str], project: Mapping[str, str], now: datetime
) -> dict[str, list[str]]:
    """Return the keys for each user, from the node's and the project's attributes."""
    texts = [instance.get("ssh-keys", "")]
    if instance.get("block-project-ssh-keys", "").lower() != "true":
        texts.append(project.get("ssh-keys", ""))
    keys: dict[str, list[str]] = {}
    for line in "\n".join(texts).splitlines():
        user, colon, key = line.strip().partition(":")
        key = key.strip()
        if not colon or not key or not _USER.match(user) or expired(key, now):
            continue
        if key not in keys.setdefault(user, []):
            keys[user].append(key)
    return keys


def expired(key: str, now: datetime) -> bool:
    """Return whether a key of the form `TYPE BASE64 google-ssh {"expireOn": …}` has expired."""
    parts = key.split(None, 3)
    if len(parts) < 4 or parts[2] != "google-ssh":
        return False
    try:
        limit = datetime.strptime(json.loads(parts[3])["expireOn"], "%Y-%m-%dT%H:%M:%S%z")
    except (ValueError, KeyError, TypeError):
        return True
    return limit <= now


def authorized_keys(current: str, keys: Iterable[str]) -> str:
    """Return the file with our lines replaced and all others kept."""
    kept: list[str] = []
    ours = False
    for line in current.splitlines():
        if ours:
            ours = False
        elif line == MARK:
            ours = True
        else:
            kept.append(line)
    for key in keys:
        kept += [MARK, key]
    return "".join(f"{line}\n" for line in kept)


def apply(keys: Mapping[str, list[str]]) -> None:
    """Update the accounts of this machine; former users lose their keys and sudo."""
    _ensure_sudoers()
    known = set(STATE.read_text().split()) if STATE.exists() else set()
    for user in sorted({*keys, *known}):
        entry = _account(user, create=user in keys)
        if entry is None:
            continue
        if user in keys and user not in known:
            _run("usermod", "--append", "--groups", ",".join(_present(SUDOERS, *GROUPS)), user)
        elif user not in keys:
            _run("gpasswd", "--delete", user, SUDOERS)
        _write_keys(entry, keys.get(user, []))
    STATE.parent.mkdir(parents=True, exist_ok=True)
    STATE.write_text("".join(f"{user}\n" for user in sorted(keys)))


def _ensure_sudoers() -> None:
    if not _present(SUDOERS):
        _run("groupadd", "--system", SUDOERS)
    rule = Path("/etc/sudoers.d/google_sudoers")
    if not rule.exists():
        rule.write_text(f"%{SUDOERS} ALL=(ALL:ALL) NOPASSWD:ALL\n")
        rule.chmod(0o440)


def _present(*names: str) -> list[str]:
    lines = Path("/etc/group").read_text().splitlines()
    groups = {line.split(":", 1)[0] for line in lines}
    return [name for name in names if name in groups]


def _account(user: str, *, create: bool) -> Any:
    try:
        return pwd.getpwnam(user)
    except KeyError:
        if not create:
            return None
    if _run("useradd", "--create-home", "--shell", "/bin/bash", "--password", "*", user):
        return pwd.getpwnam(user)
    return None


def _write_keys(entry: pwd.struct_passwd, keys: list[str]) -> None:
    folder = Path(entry.pw_dir) / ".ssh"
    path = folder / "authorized_keys"
    current = path.read_text() if path.exists() else ""
    text = authorized_keys(current, keys)
    if text == current:
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    scratch = folder / "authorized_keys.google"
    scratch.write_text(text)
    scratch.chmod(0o600)
    os.chown(scratch, entry.pw_uid, entry.pw_gid)
    scratch.replace(path)


def _run(*command: str) -> bool:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        print(f"{' '.join(command)}: {done.stderr.strip()}", flush=True)
    return done.returncode == 0


def now() -> datetime:
    """Return the time at which keys are checked for expiry."""
    return datetime.now().astimezone()
