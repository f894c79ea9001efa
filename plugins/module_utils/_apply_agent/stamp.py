# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a machine's state after an apply, and what has changed since.

The description does not know which role wrote what: it covers whole folders, so that it misses
nothing. An irrelevant change (a lease, a clock) costs one run of Ansible, which changes nothing,
and is then part of the description. One look takes some hundredths of a second.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import subprocess
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Mapping, Optional, Sequence

from . import named
from .as_user import UserError, account_of, as_user, read_plain

# Changed at each boot or over time, and by no role.
IGNORED = frozenset(
    {
        "/etc/adjtime",
        "/etc/fake-hwclock.data",
        "/etc/ld.so.cache",
        "/etc/mtab",
        "/etc/resolv.conf",
        # The agent's own units, which it checks at each call.
        "/etc/systemd/system/tpu-fleet-apply.service",
        "/etc/systemd/system/tpu-fleet-apply.timer",
        "/etc/systemd/system/timers.target.wants/tpu-fleet-apply.timer",
    }
)
# Units that apply the roles, and exist only meanwhile.
_OURS = ("tpu-fleet-apply.", "tpu-fleet-self-setup.")
# Larger files are compared only by size and times.
_HASHED = 1 << 20
_NETWORK = ("nfs", "nfs4", "fuse.gcsfuse", "fuse")
# Separates a file's content from its times. The target of a link cannot contain it.
_WHEN = "\0"
# Limits for a look at one user's files.
SECONDS = 10.0
_MOST_ENTRIES = 10_000


@dataclass(frozen=True)
class Watch:
    """The paths and units to look at."""

    trees: Sequence[str] = ("/etc", "/usr/local", "/opt/tpu-fleet")
    # What is below these is left out; the entry itself is not.
    closed: Sequence[str] = ("/opt/tpu-fleet/venvs", "/opt/tpu-fleet/apply")
    files: Sequence[str] = (
        "/var/lib/dpkg/status",
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "/var/lib/tpu-fleet/state.json",
    )
    # In each home: files for logins, and files that roles put there.
    homes: Sequence[str] = (".ssh", ".netrc", ".config/pip", ".config/uv", ".gitconfig")
    units: Sequence[str] = ("tpu-fleet-*", "ssh.service", "cron.service", "nfs-server.service")
    # Records of the paths that roles put elsewhere, and of environments.
    records: Sequence[str] = ("/var/lib/tpu-fleet/code/*.json", "/etc/tpu-fleet/secrets/*.json")
    environments: Sequence[str] = ("/var/lib/tpu-fleet/venvs/*.json",)
    dotfiles: str = named.DOTFILES
    more: Sequence[str] = field(default=())


def look(watch: Watch, before: Optional[Mapping[str, str]] = None) -> Dict[str, str]:
    """Return the state of paths, units and mounts, by name.

    Files that have not changed since `before` are not read again.
    """
    known = before or {}
    found: Dict[str, str] = {}
    away = _elsewhere()
    for root in [*watch.trees, *watch.files, *watch.more]:
        for path in [] if _below(root, away) else _walk(root, watch.closed):
            if path not in IGNORED:
                found[path] = _describe(path, known.get(path, ""))
    if watch.homes:
        found.update(_homes(watch, away, known))
    # Only the entries themselves: their contents belong to their users.
    for owner, paths in named.paths([*watch.records, *watch.environments]).items():
        new = [p for p in paths if p not in found and p not in IGNORED and not _below(p, away)]
        found.update(_of(owner, f"what {owner} has", partial(_several, new, known)))
    for name, (owner, build) in named.packages(watch.environments).items():
        if not _below(build, away):
            found.update(_of(owner, name, partial(_packages, name, build)))
    found.update(_mounts())
    found.update(_units(watch.units))
    return found


def _homes(watch: Watch, away: Sequence[str], known: Mapping[str, str]) -> Dict[str, str]:
    """Return the state of what roles put into homes."""
    found: Dict[str, str] = {}
    for account in named.people():
        home = account.pw_dir
        if _below(home, away):
            continue
        roots = [f"{home}/{name}" for name in watch.homes]
        links = [f"{home}/{name}" for name in named.links(account.pw_name, watch.dotfiles)]

        def work(roots: Sequence[str] = roots, links: Sequence[str] = links) -> Dict[str, str]:
            entries = [path for root in roots for path in _walk(root, ())]
            return _several([*entries, *links], known)

        found.update(_of(account.pw_name, f"home of {account.pw_name}", work))
    return found


def _of(owner: str, what: str, work: Callable[[], Dict[str, str]]) -> Dict[str, str]:
    """Look with the rights of the owner; a failure becomes an entry of the result."""
    account = account_of(owner)
    if account is None:
        return {}
    try:
        return as_user(account, work, seconds=SECONDS)
    except UserError as error:
        return {f"{what}, which cannot be looked at ({error}),": _WHEN}


def _packages(name: str, build: str) -> Dict[str, str]:
    return {name: named.installed(build) + _WHEN}


def _several(paths: Sequence[str], known: Mapping[str, str]) -> Dict[str, str]:
    return {path: _describe(path, known.get(path, "")) for path in paths}


def differences(before: Mapping[str, str], now: Mapping[str, str]) -> List[str]:
    """Return the differences, one line each."""
    told = []
    for name in sorted({*before, *now}):
        if name not in now:
            told.append(f"{name} is gone")
        elif name not in before:
            told.append(f"{name} is new")
        elif not _same(before[name], now[name]):
            told.append(f"{name} was changed")
    return told


def failures(now: Mapping[str, str]) -> List[str]:
    """Return the failed units: no declaration wants that, even if it is recorded."""
    return [f"{name} has failed" for name, state in sorted(now.items()) if _has_failed(name, state)]


def _has_failed(name: str, state: str) -> bool:
    return name.startswith("unit ") and state.rpartition(_WHEN)[0].endswith(" failed")


def _same(before: str, now: str) -> bool:
    # A file that was rewritten with the same content has not changed.
    return before.rpartition(_WHEN)[0] == now.rpartition(_WHEN)[0]


def _walk(root: str, closed: Sequence[str], most: int = _MOST_ENTRIES) -> Iterator[str]:
    folders, count = [root], 0
    yield root
    while folders:
        folder = folders.pop()
        if folder in closed:
            continue
        try:
            if stat.S_ISLNK(os.lstat(folder).st_mode):
                continue
            entries = list(os.scandir(folder))
        except OSError:
            continue
        count += len(entries)
        if os.geteuid() != 0 and count > most:
            raise UserError(f"{root} has more than {most} entries")
        for entry in entries:
            yield entry.path
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)


def _describe(path: str, before: str) -> str:
    try:
        there = os.lstat(path)
    except OSError:
        return f"absent{_WHEN}"
    about = f"{there.st_mode:o} {there.st_uid}:{there.st_gid}"
    if stat.S_ISLNK(there.st_mode):
        with contextlib.suppress(OSError):
            about += f" -> {os.readlink(path)}"  # noqa: PTH115 - pathlib has it since 3.9
    if not stat.S_ISREG(there.st_mode):
        return f"{about}{_WHEN}"
    # A user can set mtime, but not ctime.
    when = f"{_WHEN}{there.st_ino} {there.st_ctime_ns} {there.st_size}"
    if before.startswith(f"{about} ") and before.endswith(when):
        return before
    return f"{about} {_content(path, there)}{when}"


def _content(path: str, there: os.stat_result) -> str:
    # Files of /sys report the size of a page, and have less content.
    if there.st_size <= _HASHED:
        with contextlib.suppress(OSError, UserError):
            return hashlib.sha256(read_plain(path, _HASHED) or b"").hexdigest()
    return f"{there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}"


def _mounts() -> Dict[str, str]:
    found = {}
    for source, point, kind, options in _mounted():
        # Other mounts come and go with processes, logins and first uses.
        if source.startswith("/dev/") or kind in _NETWORK:
            writable = "ro" if "ro" in options.split(",") else "rw"
            found[f"mount {point}"] = f"{source} {kind} {writable}{_WHEN}"
    return found


def _elsewhere() -> List[str]:
    """Return the network mounts, because a look below one hangs while its server is away."""
    return [point for _source, point, kind, _options in _mounted() if kind in _NETWORK]


def _mounted() -> List[List[str]]:
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
        return [line.split(" ")[:4] for line in lines]
    return []


def _below(path: str, points: Sequence[str]) -> bool:
    return any(path == point or path.startswith(f"{point}/") for point in points)


def _units(patterns: Sequence[str]) -> Dict[str, str]:
    command = [
        "systemctl",
        "list-units",
        "--all",
        "--plain",
        "--no-legend",
        "--no-pager",
    ]
    try:
        # pylint: disable-next=ansible-bad-function
        done = subprocess.run(
            [*command, *patterns],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return _states(done.stdout.decode("utf-8", "replace"))


def _states(listed: str) -> Dict[str, str]:
    """Return the state of each unit from the output of systemctl list-units."""
    states = {}
    for line in listed.splitlines():
        words = line.split()
        # A unit whose file was removed stays listed while it is in the state failed.
        if len(words) >= 4 and words[1] != "not-found" and not words[0].startswith(_OURS):
            states[words[0]] = (words[1], words[2])
    found = {}
    for name, (loaded, active) in states.items():
        if name.endswith(".service") and f"{name[: -len('.service')]}.timer" in states:
            # A service with a timer starts and ends with it.
            active = "failed" if active == "failed" else "at times"
        found[f"unit {name}"] = f"{loaded} {active}{_WHEN}"
    return found
