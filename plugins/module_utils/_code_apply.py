# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look at code trees and put them there, each with its owner's rights. Private."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import _snapshot
from ._as_owner import CannotAs, as_owner
from ._code_trees import CannotResolve, Look, Tree, listed, patterns, resolve

DONE = ".tpu-fleet-release"
_LONG = 1800
_TRIES = 3
_PAUSE = 2.0


def git(*words: str, cwd: str = "/", check: bool = True, again: bool = False) -> str:
    """Run git as whoever this process is; nobody is asked for a password."""
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
        # There is no module here whose run_command could be called: this is another user's process.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            ["git", *words],
            cwd=cwd,
            env={**os.environ, **extra},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=_LONG,
            check=False,
            start_new_session=True,
        )
        if done.returncode == 0:
            break
    if done is not None and done.returncode and check:
        text = os.fsdecode(done.stderr).strip().splitlines()
        said = [line for line in text if line.startswith(("fatal:", "error:", "ERROR"))] or text
        raise CannotAs(f"git {words[0]}: {' '.join(said[-2:]) or 'failed without a word'}")
    return os.fsdecode(done.stdout) if done is not None else ""


def leads_to(link: "str | Path") -> str:
    """Return what a link says."""
    return os.readlink(link)  # noqa: PTH115 - Path.readlink came with Python 3.9


def resolve_here(tree: Tree) -> str:
    """Ask the repository which commit is meant."""
    wanted = patterns(tree.version)
    refs = git("ls-remote", "--", tree.repo, *wanted, again=True) if wanted else ""
    try:
        return resolve(tree.version, refs)
    except CannotResolve as error:
        raise CannotAs(f"{error} in {tree.repo}") from None


def look_here(tree: Tree, wanted: str) -> dict[str, Any]:
    """Describe what is on the host."""
    dest = Path(tree.dest)
    found: dict[str, Any] = {"dest": "absent", "target": "", "changes": []}
    if dest.is_symlink():
        target = str(dest.parent / leads_to(dest))
        found.update(dest="link", target=target)
        if Path(target).is_dir():
            found["changes"] = changes_in(target)
    elif dest.exists():
        found["dest"] = "directory" if dest.is_dir() else "file"
    found["there"] = bool(wanted) and Path(tree.release(wanted), _marker(tree)).exists()
    return found


def as_look(found: dict[str, Any]) -> Look:
    """Return what look_here found."""
    return Look(found["dest"], found["target"], found["there"], tuple(found["changes"]))


def _marker(tree: Tree) -> str:
    return f".git/{DONE}" if tree.repo else _snapshot.MARKER


def changes_in(release: str) -> list[str]:
    """Name what somebody changed in a version; what they, or programs, added is no change."""
    if Path(release, ".git").exists():
        return _git_changes(release)
    then = _listing(release)
    now = {entry.path: entry.line() for entry in _entries(release, then)}
    return sorted(path for path in then if now.get(path) != then[path])


def additions_in(release: str) -> list[str]:
    """Name what is in a version besides; of what Python leaves behind there is no loss."""
    if Path(release, ".git").exists():
        told = git("status", "--porcelain=v1", "-z", "--ignored", "-unormal", cwd=release)
        names = [part[3:] for part in told.split("\0") if part[:2] in ("??", "!!")]
        return [name for name in names if "__pycache__" not in name]
    then, found = _listing(release), []
    for root, folders, names in os.walk(release):
        folders[:] = [name for name in folders if not _snapshot.left_out(name)]
        here = Path(root).relative_to(release)
        links = [name for name in folders if Path(root, name).is_symlink()]
        paths = [(here / n).as_posix() for n in [*names, *links] if not _snapshot.left_out(n)]
        found += [path for path in paths if path not in then]
    return sorted(found)


def _listing(release: str) -> dict[str, str]:
    """Return what was unpacked: line by path."""
    try:
        text = Path(release, _snapshot.MARKER).read_text("utf-8", "surrogateescape")
        files = json.loads(text).get("files") or []
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
    if here != then:
        names.append(f"commit {here[:12]}")
    branches = git("for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=release)
    names += [f"branch {name}" for name in branches.split()]
    if git("stash", "list", cwd=release).strip():
        names.append("a stash")
    return sorted(names)


def content_of(tree: Tree, release: str) -> str:
    """Hash what is in a version now: equal on two workers when they would run the same."""
    if not tree.repo:
        return _snapshot.digest_of(_entries(release, _listing(release)))
    parts = [git("rev-parse", "HEAD^{tree}", cwd=release)]
    parts.append(git("submodule", "status", "--recursive", cwd=release))
    parts.append(git("diff", "HEAD", "--binary", "--submodule=diff", cwd=release))
    if tree.lfs:
        parts.append(git("lfs", "ls-files", "--long", cwd=release))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()


def prepare(tree: Tree, account: pwd.struct_passwd) -> None:
    """As root: make the folder of the versions, where the owner cannot make it."""
    parent = Path(tree.dest).parent

    def usable() -> bool:
        parent.mkdir(parents=True, exist_ok=True)
        if not os.access(str(parent), os.W_OK):
            return False
        Path(tree.releases).mkdir(mode=0o755, exist_ok=True)
        return True

    with contextlib.suppress(CannotAs):
        if as_owner(account, usable):
            return
    refuse_foreign(parent)
    parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    releases = Path(tree.releases)
    if not releases.exists():
        releases.mkdir(mode=0o755)
        os.chown(releases, account.pw_uid, account.pw_gid)


def refuse_foreign(folder: Path) -> None:
    """Refuse to work as root in a folder that somebody else could turn into another one."""
    real = Path(os.path.realpath(folder))
    for one in (real, *real.parents):
        if one.exists() and (one.stat().st_uid != 0 or one.stat().st_mode & 0o002):
            raise CannotAs(f"the owner cannot write in {folder}, and {one} is not root's alone")


def fetch_git(tree: Tree, commit: str) -> None:
    """As the owner: put a commit into a folder of its own."""
    store = f"{tree.releases}/store.git"
    if not Path(store, "HEAD").exists():
        shutil.rmtree(store, ignore_errors=True)
        git("init", "--quiet", "--bare", store)
        git("config", "gc.auto", "0", cwd=store)
    there = git("cat-file", "-t", commit, cwd=store, check=False).strip() == "commit"
    if not there:
        refs = ["+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"]
        git("fetch", "--quiet", "--no-auto-gc", "--", tree.repo, *refs, cwd=store, again=True)
    if git("cat-file", "-t", commit, cwd=store, check=False).strip() != "commit":
        # A commit that is on no branch any more; many servers give it all the same.
        git("fetch", "--quiet", "--no-auto-gc", "--", tree.repo, commit, cwd=store)
    git("update-ref", f"refs/tpu-fleet/{commit}", commit, cwd=store)
    release = tree.release(commit)
    new = f"{release}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(release, ignore_errors=True)  # one that is not whole
    git("clone", "--quiet", "--shared", "--no-checkout", "--no-tags", store, new)
    git("remote", "set-url", "origin", tree.repo, cwd=new)
    git("config", "gc.auto", "0", cwd=new)
    for branch in git("for-each-ref", "--format=%(refname:short)", "refs/heads", cwd=new).split():
        git("update-ref", "-d", f"refs/heads/{branch}", cwd=new)
    git("checkout", "--quiet", "--detach", commit, cwd=new)
    git("update-ref", "refs/tpu-fleet/release", commit, cwd=new)
    if tree.submodules and Path(new, ".gitmodules").exists():
        git("submodule", "--quiet", "update", "--init", "--recursive", cwd=new, again=True)
    if tree.lfs:
        git("config", "lfs.storage", f"{store}/lfs", cwd=new)
        git("lfs", "install", "--local", cwd=new)
        git("lfs", "pull", cwd=new, again=True)
        if tree.submodules:
            git("submodule", "--quiet", "foreach", "--recursive", "git lfs pull", cwd=new)
    Path(new, ".git", DONE).write_text(commit + "\n", encoding="ascii")
    Path(new).rename(release)


def unpack(tree: Tree, digest: str, archive: int) -> None:
    """As the owner: unpack a snapshot, given as an open file, into a folder of its own."""
    release = tree.release(digest)
    new = f"{release}.new"
    shutil.rmtree(new, ignore_errors=True)
    shutil.rmtree(release, ignore_errors=True)
    Path(new).mkdir(mode=0o755)
    with os.fdopen(archive, "rb") as stream, tarfile.open(fileobj=stream, mode="r:gz") as packed:
        # With the owner's rights alone, links may lead where they led on the controller.
        packed.extraction_filter = lambda member, _path: member
        names = []
        for member in packed:
            where = os.path.normpath(f"{new}/{member.name}")
            if not where.startswith(new + "/") or not (member.isreg() or member.issym()):
                raise CannotAs(f"the archive holds {member.name}, which is no file of a folder")
            packed.extract(member, new)
            names.append(member.name)
    # Git is not asked: the owner's home may be a repository, which ignores what is in it.
    entries = _snapshot.describe(Path(new), sorted({*names} - {_snapshot.MARKER}))
    if _snapshot.digest_of(entries) != digest:
        raise CannotAs("what was unpacked is not what was packed")
    # What people change is told from what was here.
    text = json.dumps({"digest": digest, "files": [entry.line() for entry in entries]})
    Path(new, _snapshot.MARKER).write_text(text + "\n", encoding="utf-8", errors="surrogateescape")
    Path(new).rename(release)


def switch(tree: Tree, release: str) -> None:
    """Lead the link to a version, in one step."""
    new = Path(tree.dest).with_name(f".{Path(tree.dest).name}.new")
    with contextlib.suppress(FileNotFoundError):
        new.unlink()
    new.symlink_to(release)
    new.replace(tree.dest)


def releases_of(tree: Tree) -> list[tuple[float, str]]:
    """List the whole versions that are there, with the time at which each came."""
    found = []
    for path in Path(tree.releases).glob("*"):
        marker = path / ".git" / DONE if tree.repo else path / _snapshot.MARKER
        if marker.exists():
            found.append((marker.stat().st_mtime, str(path)))
    return found


def paths_in_use() -> set[str]:
    """List the folders that processes work in, the files that they have open, and those of runs."""
    found: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = [
                process / "cwd",
                process / "root",
                process / "exe",
                *(process / "fd").iterdir(),
            ]
            for link in links:
                with contextlib.suppress(OSError):
                    found.add(leads_to(link))
        with contextlib.suppress(OSError, UnicodeError):
            lines = (process / "maps").read_text(encoding="utf-8").splitlines()
            found.update(line[line.index("/") :] for line in lines if "/" in line)
    definitions = Path("/etc/tpu-fleet/runs").glob("*.json")
    for path in [*definitions, *Path("/var/lib/tpu-fleet/runs").glob("*/status.json")]:
        if not path.name.endswith(".env.json"):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                folder = json.loads(path.read_text(encoding="utf-8")).get("workdir")
                if folder:
                    found.add(os.path.realpath(folder))
    return found


def remove_release(path: str) -> str:
    """As the owner: remove a version to which nobody did anything; say why it stays."""
    touched = changes_in(path) + additions_in(path)
    if touched:
        return f"{path} stays: somebody changed or added {listed(touched, 3)}"
    shutil.rmtree(path)
    return ""


def remove_rest(tree: Tree) -> None:
    """As the owner: remove what all versions share."""
    shutil.rmtree(f"{tree.releases}/store.git", ignore_errors=True)
