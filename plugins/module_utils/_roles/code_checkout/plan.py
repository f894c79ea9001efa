# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolve the version of a code tree, and decide what to install and remove. No I/O."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from ..._core.plain_text import shown
from ..._schema.values import ENTRY_NAME
from ..git_access import address

RECORDS = "/var/lib/tpu-fleet/code"
ROOT = "/opt/tpu-fleet/code"
COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")


class CannotResolve(Exception):
    """A version that cannot be resolved; the text has the reason."""


@dataclass(frozen=True)
class Tree:
    """One declared code tree."""

    name: str
    owner: str
    dest: str
    repo: str = ""
    version: str = "HEAD"
    submodules: bool = True
    lfs: bool = False
    local_changes: str = "refuse"

    @property
    def releases(self) -> str:
        """Return the folder of its versions, which is beside the link to one of them."""
        return posixpath.join(
            posixpath.dirname(self.dest), f".{posixpath.basename(self.dest)}.releases"
        )

    @property
    def kind(self) -> str:
        """Return git or snapshot."""
        return "git" if self.repo else "snapshot"

    def release(self, version: str) -> str:
        """Return the folder of a version."""
        return posixpath.join(self.releases, version[:16])

    @property
    def record(self) -> str:
        """Return the path of the record of the installed version."""
        return f"{RECORDS}/{self.name}.json"


def tree_of(entry: Mapping[str, Any]) -> Tree:
    """Return the tree for a declaration."""
    return Tree(
        name=str(entry["name"]),
        owner=str(entry["user"]),
        dest=posixpath.normpath(str(entry.get("path") or f"{ROOT}/{entry['name']}")),
        repo=str(entry.get("repo") or ""),
        version=str(entry.get("version") or "HEAD"),
        submodules=entry.get("submodules") is not False,
        lfs=bool(entry.get("lfs")),
        local_changes=str(entry.get("local_changes") or "refuse"),
    )


def problems_of(entry: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return (key, message, remedy) for each problem of a tree; no message has a password."""
    found = []
    name = str(entry.get("name") or "")
    if not ENTRY_NAME.fullmatch(name):
        found.append(("name", "is not a name", "Use letters, digits, dash and underscore"))
    path = entry.get("path")
    if path and (not str(path).startswith("/") or ".." in str(path).split("/") or path == "/"):
        found.append(("path", "is not a whole path", "Begin it with /, without .."))
    repo, local = entry.get("repo"), entry.get("local_path")
    if bool(repo) == bool(local):
        message = "has both repo and local_path" if repo else "has neither repo nor local_path"
        remedy = "Set repo (and version) for git, or local_path for a copy of a local folder"
        found.append(("", message, remedy))
    if repo and (wrong := address.problem_of(str(repo))):
        found.append(("repo", *wrong))
    version = str(entry.get("version") or "HEAD")
    if version.startswith("-") or re.search(r"[\x00-\x20~^:?*\[\\]|\.\.|@\{", version):
        message = "is not a branch, tag or commit"
        found.append(("version", message, "Use main, v1.2 or a full commit id"))
    return found


def resolve(version: str, refs: str) -> str:
    """Return the commit that a version means, given what `git ls-remote` printed."""
    if COMMIT.fullmatch(version):
        return version
    commits = {}
    for line in refs.splitlines():
        commit, tab, name = line.partition("\t")
        if tab:
            commits[name] = commit

    def of(name: str) -> str:
        # An annotated tag is a separate object; ^{} names the commit that it tags.
        return commits.get(name + "^{}") or commits.get(name, "")

    if version == "HEAD" or version.startswith("refs/"):
        found = of(version)
        if found:
            return found
    branch, tag = of(f"refs/heads/{version}"), of(f"refs/tags/{version}")
    if branch and tag and branch != tag:
        raise CannotResolve(
            f"{version} is a branch and a tag; write refs/heads/{version} or refs/tags/{version}"
        )
    if branch or tag:
        return branch or tag
    if re.fullmatch(r"[0-9a-f]{4,63}", version):
        raise CannotResolve(f"there is no branch or tag {version}; a commit needs its full id")
    raise CannotResolve(f"there is no branch or tag {version}")


def patterns(version: str) -> list[str]:
    """Return the patterns for `git ls-remote`; empty if it is not needed."""
    if COMMIT.fullmatch(version):
        return []
    if version == "HEAD" or version.startswith("refs/"):
        return [version, version + "^{}"]
    heads, tags = f"refs/heads/{version}", f"refs/tags/{version}"
    return [heads, tags, tags + "^{}"]


def there_is(version: str, refs: str) -> str:
    """Return the branches and tags that `git ls-remote` printed, the most similar one first."""
    names = [line.partition("\t")[2] for line in refs.splitlines()]
    known = {shown(re.sub(r"^refs/(heads|tags)/", "", name), 80): None for name in names if name}
    if not known:
        return "It has no branch and no tag yet: push one"
    near = get_close_matches(version, known, 1)
    others = [name for name in known if name not in near]
    meant = f"Did you mean {near[0]}? " if near else ""
    return f"{meant}There is {listed([*near, *others])}"


@dataclass(frozen=True)
class Look:
    """The state of one tree on the host."""

    dest: str = "absent"
    """absent | link | directory | file"""
    target: str = ""
    there: bool = False
    """Whether the folder of the wanted version is complete."""
    changes: tuple[str, ...] = field(default_factory=tuple)
    """What a user has changed in the version that the link points to."""


def obstacle(tree: Tree, wanted: str, look: Look) -> str:
    """Return why the link cannot be switched; empty if it can."""
    if look.dest in ("directory", "file"):
        return (
            f"{tree.dest} is a {look.dest} that this role did not create; move it away "
            f"(mv {tree.dest} {tree.dest}.mine), or give the tree another dest"
        )
    if look.dest == "link" and not look.target.startswith(tree.releases + "/"):
        return f"{tree.dest} is a link to {look.target}, which this role did not create; remove it"
    switching = look.dest == "link" and look.target != tree.release(wanted)
    if switching and look.changes and tree.local_changes == "refuse":
        return (
            f"{look.target} has local changes: {listed(look.changes)}. Commit and push, or undo "
            "them; or set local_changes: keep, which keeps them there and installs the new version"
        )
    return ""


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def may_go(
    releases: Iterable[tuple[float, str]], current: str, used: Iterable[str], keep: int
) -> list[str]:
    """Return the old versions that are not in use.

    Releases are (time, path); used are paths of processes and definitions, at or below a version.
    """
    newest = sorted(releases, reverse=True)
    busy = set(used)
    kept = {path for _time, path in newest[:keep]}
    gone = []
    for _time, path in newest:
        in_use = any(one == path or one.startswith(path + "/") for one in busy)
        if path != current and path not in kept and not in_use:
            gone.append(path)
    return gone
