# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inspect and install code trees, each with its owner's rights. Private."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import re
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..._core.plain_text import shown
from ..._host import snapshot as _snapshot
from ..._host.as_user import UserError, as_user, give_folder, read_plain, refuse_foreign
from ..._host.open_paths import TooMuchError, open_paths
from ..._host.runs import RunFiles
from ..._host.unpack import link_target
from ..git_access import trouble
from .plan import CannotResolve, Look, Tree, listed, patterns, resolve, there_is

DONE = ".tpu-fleet-release"
# The git setting with the branch that this role has created in a version.
BRANCH = "tpu-fleet.branch"
_LONG = 1800
_TRIES = 3
# Time limits: to resolve a version, to fetch it, and to inspect or remove a tree.
RESOLVE_SECONDS = 180.0
FETCH_SECONDS = _TRIES * _LONG + 60.0
LINK_SECONDS = 10.0
"""For the links in the paths of all runs."""
TREE_SECONDS = 600.0
# Enough for the listing of a snapshot with a million files.
MOST_OF_LISTING = 1 << 27
_PAUSE = 2.0


def git(*words: str, cwd: str = "/", check: bool = True, again: bool = False, url: str = "") -> str:
    """Run git as the user of this process, without password prompts; return its output.

    With `url`, an error explains why that repository cannot be read.
    """
    extra = {
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "/bin/true",
        "GIT_LFS_SKIP_SMUDGE": "1",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    done = None
    for attempt in range(_TRIES if again else 1):
        if attempt:
            time.sleep(_PAUSE * attempt)
        # No run_command, because there is no module in this process of another user.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            ["git", *words],
            cwd=cwd,
            env={**os.environ, **extra},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONG,
            check=False,
        )
        if done.returncode == 0:
            break
        cause = trouble.cause_of(os.fsdecode(done.stderr))
        if cause is not None and not cause.again:
            break
    if done is not None and done.returncode and check:
        if url:
            raise UserError(_explained(os.fsdecode(done.stderr), url))
        text = [shown(line) for line in os.fsdecode(done.stderr).strip().splitlines()]
        said = [line for line in text if line.startswith(("fatal:", "error:", "ERROR"))] or text
        raise UserError(f"git {words[0]}: {' '.join(said[-2:]) or 'failed without a word'}")
    return os.fsdecode(done.stdout) if done is not None else ""


def _explained(said: str, url: str) -> str:
    """Return why git cannot read a repository, with the keys that ssh offered to the server."""
    submodule = re.search(r"(?:clone of|fetch from) '([^']+)'", said)
    url = submodule[1] if submodule else url
    me = pwd.getpwuid(os.getuid())
    # The settings of git_access may rewrite the URL, to a host name with another key.
    host = trouble.host_of(git("ls-remote", "--get-url", "--", url, check=False).strip() or url)
    keys = []
    if host and not host.startswith("-"):
        told = subprocess.run(  # pylint: disable=ansible-bad-function
            ["ssh", "-G", "--", host],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONG,
            check=False,
        )
        names = [
            line.partition(" ")[2]
            for line in os.fsdecode(told.stdout).splitlines()
            if line.startswith("identityfile ")
        ]
        paths = [Path(me.pw_dir, name[2:]) if name[:2] == "~/" else Path(name) for name in names]
        keys = [str(path) for path in paths if path.is_file()]
    return trouble.explain(said, url, me.pw_name, keys)


def resolve_here(tree: Tree) -> str:
    """Return the commit that the version means in the repository."""
    wanted = patterns(tree.version)
    if not wanted:
        return resolve(tree.version, "")
    try:
        refs = git("ls-remote", "--", tree.repo, *wanted, again=True, url=tree.repo)
    except UserError as error:
        raise UserError(f"repo: {error}") from None
    try:
        return resolve(tree.version, refs)
    except CannotResolve as error:
        there = git("ls-remote", "--heads", "--tags", "--refs", "--", tree.repo, check=False)
        known = there_is(tree.version, there)
        raise UserError(f"version = {tree.version!r}: {error} in {tree.repo}. {known}") from None


def look_here(tree: Tree, wanted: str) -> dict[str, Any]:
    """Return the state of a tree on the host."""
    dest = Path(tree.dest)
    found: dict[str, Any] = {"dest": "absent", "target": "", "changes": []}
    if dest.is_symlink():
        target = str(dest.parent / link_target(dest))
        found.update(dest="link", target=target)
        if Path(target).is_dir():
            found["changes"] = changes_in(target)
    elif dest.exists():
        found["dest"] = "directory" if dest.is_dir() else "file"
    found["there"] = bool(wanted) and Path(tree.release(wanted), _marker(tree)).exists()
    return found


def as_look(found: dict[str, Any]) -> Look:
    """Return the result of look_here as a Look."""
    return Look(found["dest"], found["target"], found["there"], tuple(found["changes"]))


def _marker(tree: Tree) -> str:
    return f".git/{DONE}" if tree.repo else _snapshot.MARKER


def changes_in(release: str) -> list[str]:
    """Return the paths that a user has changed in a version; added files do not count."""
    if Path(release, ".git").exists():
        return _git_changes(release)
    then = listing(release)
    now = {entry.path: entry.line() for entry in _entries(release, then)}
    return sorted(path for path in then if now.get(path) != then[path])


def additions_in(release: str) -> list[str]:
    """Return files added to a version, without those that Python writes and can write again."""
    if Path(release, ".git").exists():
        told = git("status", "--porcelain=v1", "-z", "--ignored", "-unormal", cwd=release)
        names = [part[3:] for part in told.split("\0") if part[:2] in ("??", "!!")]
        return [name for name in names if "__pycache__" not in name]
    then, found = listing(release), []
    for root, folders, names in os.walk(release):
        folders[:] = [name for name in folders if not _snapshot.left_out(name)]
        here = Path(root).relative_to(release)
        links = [name for name in folders if Path(root, name).is_symlink()]
        paths = [(here / n).as_posix() for n in [*names, *links] if not _snapshot.left_out(n)]
        found += [path for path in paths if path not in then]
    return sorted(found)


def listing(release: str) -> dict[str, str]:
    """Return the listing of an unpacked snapshot: line by path."""
    try:
        said = read_plain(str(Path(release, _snapshot.MARKER)), MOST_OF_LISTING) or b"{}"
        files = json.loads(said.decode("utf-8", "surrogateescape")).get("files") or []
    except (OSError, ValueError):
        return {}
    return {line[19:]: line for line in files}


def _entries(release: str, paths: Iterable[str]) -> list[_snapshot.Entry]:
    folder = Path(release)
    there = [p for p in sorted(paths) if (folder / p).is_symlink() or (folder / p).is_file()]
    return _snapshot.describe(folder, there)


def _git_changes(release: str) -> list[str]:
    quiet = ("--untracked-files=no", "--ignore-submodules=untracked")
    told = git("status", "--porcelain=v1", "-z", *quiet, cwd=release)
    names, parts = [], iter(told.split("\0"))
    for part in parts:
        if part:
            names.append(part[3:])
            if part[0] in "RC":
                next(parts, None)
    here = git("rev-parse", "HEAD", cwd=release).strip()
    then = git("rev-parse", "refs/tpu-fleet/release", cwd=release, check=False).strip()
    on = git("symbolic-ref", "--quiet", "--short", "HEAD", cwd=release, check=False).strip()
    ours = git("config", BRANCH, cwd=release, check=False).strip()
    known = ("--not", "--remotes=origin", *([then] if then else []))

    def has_own(ref: str) -> bool:
        return bool(git("rev-list", "--max-count=1", ref, *known, cwd=release).strip())

    # Pulled commits are in the repository, so they are no local work.
    pulled = bool(ours) and on == ours and not has_own("HEAD")
    if here != then and not pulled:
        names.append(f"commit {here[:12]}")
    branches = git("for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=release)
    names += [
        f"branch {name}"
        for name in branches.split()
        if name != ours or (name != on and has_own(f"refs/heads/{name}"))
    ]
    if git("stash", "list", cwd=release).strip():
        names.append("a stash")
    return sorted(names)


def content_of(tree: Tree, release: str) -> str:
    """Return a hash of a version's present content, equal on workers that would run the same."""
    if not tree.repo:
        return _snapshot.digest_of(_entries(release, listing(release)))
    parts = [git("rev-parse", "HEAD^{tree}", cwd=release)]
    parts.append(git("submodule", "status", "--recursive", cwd=release))
    parts.append(git("diff", "HEAD", "--binary", "--submodule=diff", cwd=release))
    if tree.lfs:
        parts.append(git("lfs", "ls-files", "--long", cwd=release))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def can_prepare(tree: Tree) -> bool:
    """As the owner: create the folder of the versions, and return whether it is there."""
    parent, releases = Path(tree.dest).parent, Path(tree.releases)
    with contextlib.suppress(OSError):
        parent.mkdir(parents=True, exist_ok=True)
        if os.access(str(parent), os.W_OK):
            releases.mkdir(mode=0o755, exist_ok=True)
            return True
    return False


def prepare(tree: Tree, account: pwd.struct_passwd) -> None:
    """As root: create the folder of the versions, if the owner has no right to."""
    parent = Path(tree.dest).parent
    refuse_foreign(parent)
    parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    releases = Path(tree.releases)
    if not releases.exists():
        releases.mkdir(mode=0o755)
        give_folder(releases, account.pw_uid, account.pw_gid, 0o755)


def fetch_git(tree: Tree, commit: str) -> None:
    """As the owner: check out a commit into a new folder."""
    store = f"{tree.releases}/store.git"
    if not Path(store, "HEAD").exists():
        shutil.rmtree(store, ignore_errors=True)
        git("init", "--quiet", "--bare", store)
        git("config", "gc.auto", "0", cwd=store)
    there = git("cat-file", "-t", commit, cwd=store, check=False).strip() == "commit"
    if not there:
        refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        git(
            "fetch",
            "--quiet",
            "--no-auto-gc",
            "--",
            tree.repo,
            *refs,
            cwd=store,
            again=True,
            url=tree.repo,
        )
    if git("cat-file", "-t", commit, cwd=store, check=False).strip() != "commit":
        # The commit may be on no branch; many servers still deliver it by its id.
        git("fetch", "--quiet", "--no-auto-gc", "--", tree.repo, commit, cwd=store, url=tree.repo)
    git("update-ref", f"refs/tpu-fleet/{commit}", commit, cwd=store)
    release = tree.release(commit)
    new = f"{release}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(release, ignore_errors=True)  # an incomplete one
    git("clone", "--quiet", "--shared", "--no-checkout", "--no-tags", store, new)
    git("remote", "set-url", "origin", tree.repo, cwd=new)
    git("config", "gc.auto", "0", cwd=new)
    for branch in git("for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=new).split():
        git("update-ref", "-d", f"refs/heads/{branch}", cwd=new)
    branch = branch_of(tree, commit, new)
    if branch:
        git("checkout", "--quiet", "-b", branch, commit, cwd=new)
        git("branch", "--quiet", f"--set-upstream-to=origin/{branch}", branch, cwd=new)
        git("config", BRANCH, branch, cwd=new)
    else:
        git("checkout", "--quiet", "--detach", commit, cwd=new)
    git("update-ref", "refs/tpu-fleet/release", commit, cwd=new)
    if tree.submodules and Path(new, ".gitmodules").exists():
        git(
            "submodule",
            "--quiet",
            "update",
            "--init",
            "--recursive",
            cwd=new,
            again=True,
            url=tree.repo,
        )
    if tree.lfs:
        git("config", "lfs.storage", f"{store}/lfs", cwd=new)
        git("lfs", "install", "--local", cwd=new)
        git("lfs", "pull", cwd=new, again=True, url=tree.repo)
        if tree.submodules:
            git("submodule", "--quiet", "foreach", "--recursive", "git lfs pull", cwd=new)
    Path(new, ".git", DONE).write_text(commit + "\n", encoding="ascii")
    Path(new).rename(release)


def branch_of(tree: Tree, commit: str, clone: str) -> str:
    """Return the branch that was asked for; empty if a tag or commit was."""
    name = tree.version
    if name == "HEAD":
        told = git("ls-remote", "--symref", "--", tree.repo, "HEAD", check=False)
        match = re.match(r"ref: (refs/heads/\S+)\tHEAD", told)
        name = match[1] if match else ""
    elif name.startswith("refs/") and not name.startswith("refs/heads/"):
        return ""
    name = re.sub(r"^refs/heads/", "", name)
    there = f"refs/remotes/origin/{name}"
    # The branch may have moved since its commit was resolved.
    holds = git("branch", "--remotes", "--contains", commit, "--format=%(refname)", cwd=clone)
    return name if name and there in holds.split() else ""


def unpack(tree: Tree, digest: str, archive: int) -> None:
    """As the owner: unpack a snapshot, given as a file descriptor, into a new folder."""
    release = tree.release(digest)
    new = f"{release}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(release, ignore_errors=True)
    Path(new).mkdir(mode=0o755)
    with os.fdopen(archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r:gz") as packed:
        # With only the owner's rights, links may point to where they did on the controller.
        packed.extraction_filter = lambda member, _path: member
        names = []
        for member in packed:
            where = os.path.normpath(f"{new}/{member.name}")
            if not where.startswith(new + "/") or not (member.isreg() or member.issym()):
                raise UserError(f"the archive has {member.name}, which is not a file of a folder")
            packed.extract(member, new)
            names.append(member.name)
    # Without git, because a repository in the owner's home may ignore these files.
    entries = _snapshot.describe(Path(new), sorted({*names} - {_snapshot.MARKER}))
    if _snapshot.digest_of(entries) != digest:
        raise UserError("the unpacked files are not those that were packed")
    # Later changes are found by comparison with this listing.
    text = json.dumps({"digest": digest, "files": [entry.line() for entry in entries]})
    Path(new, _snapshot.MARKER).write_text(text + "\n", encoding="utf-8", errors="surrogateescape")
    Path(new).rename(release)


def switch(tree: Tree, release: str) -> None:
    """Point the link to a version, atomically."""
    new = Path(tree.dest).with_name(f".{Path(tree.dest).name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(release)
    new.replace(tree.dest)


def switch_if_owners(tree: Tree, release: str, target: str) -> tuple[bool, str]:
    """As the owner: switch, if the owner may; return whether it is done, and the content's hash."""
    is_done = target == release
    if not is_done and os.access(str(Path(tree.dest).parent), os.W_OK):
        switch(tree, release)
        is_done = True
    return is_done, content_of(tree, release)


def releases_of(tree: Tree, account: pwd.struct_passwd) -> list[tuple[float, str]]:
    """Return the complete versions with their times, read as their owner."""
    found = as_user(account, lambda: _releases(tree), seconds=TREE_SECONDS)
    return [(float(when), str(path)) for when, path in found]


def _releases(tree: Tree) -> list[tuple[float, str]]:
    """Return the complete versions, each with its time."""
    found = []
    for path in Path(tree.releases).glob("*"):
        marker = path / ".git" / DONE if tree.repo else path / _snapshot.MARKER
        if marker.exists():
            found.append((marker.stat().st_mtime, str(path)))
    return found


def paths_in_use() -> set[str] | None:
    """Return the paths that processes have open or work in, and the folders of runs.

    None if there are too many to look at, or one leads to a server that does not answer.
    """
    folders = sorted(RunFiles().workdirs())
    try:
        # In a process that can be left: a link in such a path may lead to a share.
        led_to = as_user(
            "root", lambda: [os.path.realpath(folder) for folder in folders], seconds=LINK_SECONDS
        )
        return open_paths().union(led_to)
    except (TooMuchError, UserError):
        return None


def remove_release(path: str) -> str:
    """As the owner: remove a version if it has no changes; return why it stays."""
    touched = changes_in(path) + additions_in(path)
    if touched:
        return f"{path} stays: a user has changed or added {listed(touched, 3)}"
    shutil.rmtree(path)
    return ""


def drop(release: str) -> None:
    """As the owner: remove a version that nothing has used."""
    for path in (f"{release}.new", release):
        shutil.rmtree(path, ignore_errors=True)


def remove_rest(tree: Tree) -> None:
    """As the owner: remove the store that all versions share."""
    shutil.rmtree(f"{tree.releases}/store.git", ignore_errors=True)


def remove_link(tree: Tree) -> None:
    """Remove the link to the versions, and their folder if it is empty."""
    dest = Path(tree.dest)
    if dest.is_symlink() and link_target(dest).startswith(tree.releases + "/"):
        dest.unlink()
    with contextlib.suppress(OSError):
        Path(tree.releases).rmdir()
