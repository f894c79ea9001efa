# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the accounts of a host. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import fnmatch
import grp
import json
import os
import pwd
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path

from ..._host.as_user import UserError, read_as
from ..._host.mounts import point_of
from ..._host.shared_places import is_folder_of, tmux_folder
from ..._host.state import as_json, read_text, write_atomically
from ..._host.work import Run
from .plan import (
    ABSENT,
    KEYS_FILE,
    PRESENT,
    SUDOERS,
    TMPFILES,
    Account,
    Group,
    Home,
    Host,
    Process,
    User,
)

RECORD = Path("/var/lib/tpu-fleet/accounts.json")
RUNS = Path("/etc/tpu-fleet/runs")
GUEST_AGENT_USERS = "/var/lib/google/google_users"


def look(users: list[User], archive_dir: str, coming_shells: Iterable[str] = ()) -> Host:
    """Return the state of the host."""
    accounts = _accounts()
    processes = _processes()
    recorded = _recorded()
    homes, files = {}, {}
    tmpfiles = read_text(TMPFILES)
    if tmpfiles is not None:
        files[TMPFILES] = tmpfiles
    names = {user.name: user for user in users}
    for name in {*names, *recorded}:
        account, user = accounts.get(name), names.get(name)
        if account is not None:
            files.update(_keys_of(name, account))
        path = account.home if account else user.home if user else ""
        archived = user is not None and user.fate == ABSENT and user.home_on_removal == "archive"
        home = _home(path, archived) if path else None
        if home is not None:
            homes[path] = home
        rule = read_text(SUDOERS + name)
        if rule is not None:
            files[SUDOERS + name] = rule
    shells = {user.shell for user in users if os.access(user.shell, os.X_OK)}
    return Host(
        accounts=accounts,
        groups=_groups(),
        shells=frozenset(shells | set(coming_shells)),
        files=files,
        processes=processes,
        homes=homes,
        tmux_owners=frozenset(
            user.uid for user in users if is_folder_of(Path(tmux_folder(user.uid)), user.uid)
        ),
        foreign_names=_foreign_names(users, accounts),
        foreign_uids=_foreign_uids(users, accounts),
        runs=_runs(),
        guest_agent_users=frozenset((read_text(GUEST_AGENT_USERS) or "").split()),
        recorded=recorded,
        login=os.environ.get("SUDO_USER", ""),
        room=_room(archive_dir),
    )


def write_record(record: Mapping[str, int]) -> None:
    """Record the managed users."""
    RECORD.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    write_atomically(RECORD, as_json({"users": dict(record)}))


def ssh_problems(run: Run, users: list[User], host: Host) -> list[str]:
    """Return problems of the SSH server's settings that keep declared users out."""
    present = [user for user in users if user.fate == PRESENT]
    if not present:
        return []
    sshd = next((path for path in ("/usr/sbin/sshd", "/sbin/sshd") if os.access(path, os.X_OK)), "")
    if not sshd:
        return ["There is no SSH server on this host."]
    where = f"user={present[0].name},host=localhost,addr=127.0.0.1"
    code, out, err = run([sshd, "-T", "-C", where])
    if code != 0:
        return [f"The SSH server does not report its settings: {' '.join((err or out).split())}"]
    said: dict[str, list[str]] = {}
    for line in out.splitlines():
        key, _space, value = line.partition(" ")
        said.setdefault(key, []).extend(value.split())
    return settings_problems(said, present, host)


def settings_problems(
    said: Mapping[str, list[str]], users: Iterable[User], host: Host
) -> list[str]:
    """Return the settings of the SSH server that keep declared users out."""
    found = []
    if not any(path.endswith("authorized_keys2") for path in said.get("authorizedkeysfile", [])):
        found.append(
            "AuthorizedKeysFile of the SSH server does not name .ssh/authorized_keys2, where the "
            "declared keys are. Add it in /etc/ssh/sshd_config.d/."
        )
    if said.get("pubkeyauthentication") == ["no"]:
        found.append("PubkeyAuthentication of the SSH server is off. Switch it on.")
    for user in users:
        mine = {name for name, group in host.groups.items() if user.name in group.members}
        mine |= {user.name, *user.groups}
        checks = (
            ("AllowUsers", {user.name}, False),
            ("AllowGroups", mine, False),
            ("DenyUsers", {user.name}, True),
            ("DenyGroups", mine, True),
        )
        for key, names, denies in checks:
            patterns = said.get(key.lower(), [])
            hit = any(fnmatch.fnmatchcase(n, p.split("@")[0]) for n in names for p in patterns)
            if patterns and hit == denies:
                found.append(f"{key} of the SSH server keeps {user.name} out. Change it.")
    return found


def _accounts() -> dict[str, Account]:
    """Read only the host's own files: a directory such as OS Login cannot be changed here."""
    shadow = {}
    for line in (read_text("/etc/shadow") or "").splitlines():
        words = line.split(":")
        if len(words) > 7:
            shadow[words[0]] = (words[1], words[7])
    found = {}
    for line in (read_text("/etc/passwd") or "").splitlines():
        words = line.split(":")
        if len(words) != 7 or not words[2].isdigit():
            continue
        secret, expires = shadow.get(words[0], ("*", ""))
        found[words[0]] = Account(
            uid=int(words[2]),
            gid=int(words[3]),
            home=words[5],
            shell=words[6],
            password=not secret.startswith("*"),
            expires=int(expires) if re.fullmatch(r"-?\d+", expires) else None,
        )
    return found


def _groups() -> dict[str, Group]:
    found = {}
    for line in (read_text("/etc/group") or "").splitlines():
        words = line.split(":")
        if len(words) == 4 and words[2].isdigit():
            members = frozenset(name for name in words[3].split(",") if name)
            found[words[0]] = Group(int(words[2]), members)
    return found


def _foreign_names(users: Iterable[User], accounts: Mapping[str, Account]) -> dict[str, int]:
    found = {}
    for user in users:
        if user.name not in accounts:
            with contextlib.suppress(KeyError):
                found[user.name] = pwd.getpwnam(user.name).pw_uid
    return found


def _foreign_uids(users: Iterable[User], accounts: Mapping[str, Account]) -> dict[int, str]:
    known = {account.uid for account in accounts.values()}
    known_gids = {group.gid for group in _groups().values()}
    found = {}
    for user in users:
        if user.uid not in known:
            with contextlib.suppress(KeyError):
                found[user.uid] = pwd.getpwuid(user.uid).pw_name
        if user.gid not in known_gids and user.uid not in found:
            with contextlib.suppress(KeyError):
                found[user.uid] = grp.getgrgid(user.gid).gr_name
    return found


def _processes() -> dict[int, tuple[Process, ...]]:
    """Return the processes of each user."""
    found: dict[int, tuple[Process, ...]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            uid = entry.stat().st_uid
            program = (entry / "comm").read_text(encoding="utf-8", errors="replace").strip()
            found[uid] = (*found.get(uid, ()), Process(int(entry.name), program))
    return found


def _keys_of(name: str, account: Account) -> dict[str, str]:
    """Read the file of declared keys with the rights of its owner."""
    path = f"{account.home}/{KEYS_FILE}"
    # A system account is refused later; none of its files is read.
    if account.uid < 1000:
        return {}
    try:
        content = read_as(name, path)
    except UserError:
        return {}
    return {} if content is None else {path: content}


def _home(path: str, measured: bool) -> Home | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    kind = "folder" if Path(path).is_dir() and not Path(path).is_symlink() else "other"
    mounts = []
    for line in (read_text("/proc/self/mountinfo") or "").splitlines():
        place = point_of(line)
        if f"{place}/".startswith(f"{path}/"):
            mounts.append(place)
    size = _size_of(path) if measured and kind == "folder" else 0
    mode = stat.S_IMODE(status.st_mode) & 0o777
    return Home(kind, status.st_uid, mode, tuple(mounts), size)


def _size_of(path: str) -> int:
    """Return the size that an archive of a folder would have, at most."""
    total = 1 << 20
    for _parent, folders, files, handle in os.fwalk(path):
        for name in (*folders, *files):
            with contextlib.suppress(OSError):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                total += 1536 + min(status.st_size, status.st_blocks * 512)
    return total


def _room(folder: str) -> int:
    """Return the free bytes of a file system, without a reserve for others."""
    place = Path(folder)
    while not place.is_dir() and place != place.parent:
        place = place.parent
    status = os.statvfs(place)
    return max(0, status.f_bavail * status.f_frsize - (64 << 20))


def _runs() -> dict[str, tuple[str, ...]]:
    """Return the runs of each user."""
    found: dict[str, tuple[str, ...]] = {}
    for path in sorted(RUNS.glob("*.json")) if RUNS.is_dir() else ():
        with contextlib.suppress(OSError, ValueError, AttributeError):
            definition = json.loads(path.read_text(encoding="utf-8"))
            name, run = definition.get("user"), definition.get("run")
            if name and run:
                found[name] = (*found.get(name, ()), run)
    return found


def _recorded() -> dict[str, int]:
    try:
        users = json.loads(read_text(RECORD) or "{}").get("users", {})
    except (ValueError, AttributeError):
        return {}
    return {str(name): uid for name, uid in users.items() if isinstance(uid, int)}
