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
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from . import glance, named
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
        "/etc/systemd/system/tpu-fleet-venv@.service",
        "/etc/systemd/system/timers.target.wants/tpu-fleet-apply.timer",
    }
)
# Larger files are compared only by size and times.
_HASHED = 1 << 20
# Separates a file's content from its times. The target of a link cannot contain it.
_WHEN = "\0"
_ABSENT = f"absent{_WHEN}"
# Limits for a look at one user's files.
SECONDS = 10.0
_MOST_ENTRIES = 10_000


@dataclass(frozen=True)
class Watch:
    """The paths and units to look at."""

    trees: Sequence[str] = ("/etc", "/usr/local", "/opt/tpu-fleet")
    # What is below these is left out; the entry itself is not.
    closed: Sequence[str] = (
        "/opt/tpu-fleet/venvs",
        "/opt/tpu-fleet/apply",
        # They may have a million files, and come after the apply.
        "/opt/tpu-fleet/datasets",
    )
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


def part_of(
    watch: Watch, files: Iterable[str], trees: Iterable[str], records: Sequence[str]
) -> Watch:
    """Return what looks at these alone, as far as a look at everything would see them."""

    def is_seen(path: str) -> bool:
        shut = any(path != folder and _below(path, [folder]) for folder in watch.closed)
        return path in watch.files or (_below(path, watch.trees) and not shut)

    return Watch(
        trees=list(filter(is_seen, trees)),
        closed=watch.closed,
        files=list(filter(is_seen, files)),
        homes=(),
        units=(),
        records=records,
        environments=(),
        dotfiles=watch.dotfiles,
    )


@dataclass
class Seen:
    """What a look has looked at, for the glances that follow it."""

    started_ns: int = field(default_factory=time.time_ns)
    # By the owner with whose rights it was looked at.
    paths: Dict[str, List[str]] = field(default_factory=dict)
    # Those of them that were there. What went meanwhile was not looked at.
    there: Set[str] = field(default_factory=set)
    mounts: Dict[str, str] = field(default_factory=dict)
    units: Dict[str, str] = field(default_factory=dict)
    # By the path of a run's status, the lines that say whether it runs.
    runs: Dict[str, bytes] = field(default_factory=dict)
    patterns: Sequence[str] = ()
    # Whether everything could be looked at.
    whole: bool = True

    def add(self, owner: str, paths: Iterable[str]) -> None:
        """Note paths of an owner; what is no path is left out."""
        self.paths.setdefault(owner, []).extend(path for path in paths if path[:1] == "/")

    def add_found(self, owner: str, found: Mapping[str, str]) -> None:
        """Note what a look has found."""
        self.add(owner, found)
        self.there.update(path for path, state in found.items() if state and state != _ABSENT)


def look(
    watch: Watch, before: Optional[Mapping[str, str]] = None, seen: Optional[Seen] = None
) -> Dict[str, str]:
    """Return the state of paths, units and mounts, by name.

    Files that have not changed since `before` are not read again.
    """
    known = before or {}
    seen = seen or Seen()
    found: Dict[str, str] = {}
    away = _elsewhere()
    for root in [*watch.trees, *watch.files, *watch.more]:
        for path in [] if _below(root, away) else _walk(root, watch.closed):
            if path not in IGNORED:
                found[path] = _describe(path, known.get(path, ""))
    seen.add_found("root", found)
    if watch.homes:
        found.update(_homes(watch, away, known, seen))
    # Only the entries themselves: their contents belong to their users.
    patterns = [*watch.records, *watch.environments]
    for owner, paths in named.paths(patterns).items():
        new = [p for p in paths if p not in found and p not in IGNORED and not _below(p, away)]
        found.update(_of(owner, f"what {owner} has", partial(_several, new, known), seen))
    for name, (owner, build) in named.packages(watch.environments).items():
        if not _below(build, away):
            there = _of(owner, name, partial(_packages, name, build), seen)
            found.update({what: state for what, state in there.items() if state})
    # A record that comes or goes changes its folder.
    seen.add("root", [pattern.rpartition("/")[0] for pattern in patterns])
    seen.mounts, seen.patterns = glance.mounts(), watch.units
    seen.units = glance.units(watch.units) if watch.units else {}
    found.update({f"mount {point}": f"{text}{_WHEN}" for point, text in seen.mounts.items()})
    found.update({f"unit {name}": f"{text}{_WHEN}" for name, text in seen.units.items()})
    return found


def with_own(
    before: Mapping[str, str], now: Mapping[str, str], is_own: Callable[[str], bool]
) -> Dict[str, str]:
    """Return the earlier description, with the present state of the caller's own paths.

    What else has changed meanwhile stays a difference.
    """
    kept = {name: state for name, state in before.items() if not is_own(name)}
    return {**kept, **{name: state for name, state in now.items() if is_own(name)}}


def _homes(
    watch: Watch, away: Sequence[str], known: Mapping[str, str], seen: Seen
) -> Dict[str, str]:
    """Return the state of what roles put into homes."""
    found: Dict[str, str] = {}
    for account in named.people():
        home = account.pw_dir
        if _below(home, away):
            continue
        roots = [f"{home}/{name}" for name in watch.homes]
        links = [f"{home}/{name}" for name in named.links(account.pw_name, watch.dotfiles)]
        seen.add("root", [named.links_of(account.pw_name, watch.dotfiles)])

        def work(roots: Sequence[str] = roots, links: Sequence[str] = links) -> Dict[str, str]:
            entries = [path for root in roots for path in _walk(root, ())]
            return _several([*entries, *links], known)

        found.update(_of(account.pw_name, f"home of {account.pw_name}", work, seen))
    return found


def _of(owner: str, what: str, work: Callable[[], Dict[str, str]], seen: Seen) -> Dict[str, str]:
    """Look with the rights of the owner; a failure becomes an entry of the result."""
    account = account_of(owner)
    if account is None:
        return {}
    try:
        found = as_user(account, work, seconds=SECONDS)
    except UserError as error:
        seen.whole = False
        return {f"{what}, which cannot be looked at ({error}),": _WHEN}
    seen.add_found(owner, found)
    return found


def _packages(name: str, build: str) -> Dict[str, str]:
    """Return what is installed; and, without a state, the folders that say so."""
    return {name: named.installed(build) + _WHEN, **dict.fromkeys(named.folders(build), "")}


def _several(paths: Sequence[str], known: Mapping[str, str]) -> Dict[str, str]:
    return {path: _describe(path, known.get(path, "")) for path in paths}


def keep_glance(
    seen: Seen, kept: Path, own: Iterable[Path], agent: str, asks: str, answer: bytes
) -> None:
    """Keep an answer, to be given again while nothing has changed since this look.

    `own` are the files on which the answer depends besides what was looked at.
    """
    if not seen.whole:
        return
    seen.add("root", map(str, own))
    paths: List[Tuple["glance.Rights", Dict[str, "glance.Facts"]]] = []
    for owner, names in seen.paths.items():
        account = account_of(owner)
        if account is None:
            return
        work = partial(_facts, list(dict.fromkeys(names)))
        rights: glance.Rights = None
        if account.pw_uid == 0:
            facts = work()
        else:
            try:
                said = as_user(account, work, seconds=SECONDS)
            except UserError:
                return
            groups = tuple(os.getgrouplist(account.pw_name, account.pw_gid))
            rights = (account.pw_uid, account.pw_gid, groups)
            facts = {path: one and tuple(one) for path, one in said.items()}
        if any(one is None and path in seen.there for path, one in facts.items()):
            return
        paths.append((rights, facts))
    texts = {path: glance.text_of(path) for path in seen.paths["root"] if path[:5] == "/sys/"}
    also = {
        "texts": {glance.BOOT_ID: glance.text_of(glance.BOOT_ID), **texts},
        "runs": seen.runs,
        "mounts": seen.mounts,
        "units": seen.units,
        "patterns": tuple(seen.patterns),
    }
    glance.keep(agent, asks, answer, paths, also, seen.started_ns, str(kept))


def _facts(paths: Sequence[str]) -> Dict[str, glance.Facts]:
    return {path: glance.facts_of(path) for path in paths}


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
        return _ABSENT
    about = f"{there.st_mode:o} {there.st_uid}:{there.st_gid}"
    if stat.S_ISLNK(there.st_mode):
        with contextlib.suppress(OSError):
            about += f" -> {os.readlink(path)}"  # noqa: PTH115 - pathlib has it since 3.9
    if not stat.S_ISREG(there.st_mode):
        return f"{about}{_WHEN}"
    # A user can set mtime, but not ctime.
    when = f"{_WHEN}{there.st_ino} {there.st_ctime_ns} {there.st_size}"
    # The kernel's own files change without a change of their times.
    if path[:5] != "/sys/" and before.startswith(f"{about} ") and before.endswith(when):
        return before
    return f"{about} {_content(path, there)}{when}"


def _content(path: str, there: os.stat_result) -> str:
    # Files of /sys report the size of a page, and have less content.
    if there.st_size <= _HASHED:
        with contextlib.suppress(OSError, UserError):
            return hashlib.sha256(read_plain(path, _HASHED) or b"").hexdigest()
    return f"{there.st_size} {there.st_mtime_ns} {there.st_ctime_ns}"


def _elsewhere() -> List[str]:
    """Return the network mounts, because a look below one hangs while its server is away."""
    return [point for _source, point, kind, _options in glance.mounted() if kind in glance.NETWORK]


def _below(path: str, points: Sequence[str]) -> bool:
    return any(path == point or path.startswith(f"{point}/") for point in points)
