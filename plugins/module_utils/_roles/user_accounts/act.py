# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Carry out the plan for the accounts of a host. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import stat
import time
from datetime import datetime, timezone
from pathlib import Path

from ..._host.as_user import UserError, as_user, give_folder, refuse_foreign, sync_folder
from ..._host.shared_places import take_folder
from ..._host.state import write_atomically
from ..._host.work import Failed, Run
from .plan import Step

SKELETON = Path("/etc/skel")
SESSION_END = 15.0


def carry_out(step: Step, run: Run, archive_dir: str) -> None:
    """Carry out one step."""
    if step.argv:
        code, out, err = run(list(step.argv), path_prefix="/usr/sbin:/sbin")
        if code != 0:
            raise Failed((err or out).strip())
    elif step.renumber:
        renumber(*step.renumber)
    elif step.work == "end session":
        end_session(step.owner, run)
    elif step.work == "make":
        make_home(step.path, step.owner)
    elif step.work == "mode":
        set_mode(step.path, step.owner, step.mode)
    elif step.work == "take":
        owner = pwd.getpwnam(step.owner)
        take_folder(Path(step.path), owner.pw_uid, owner.pw_gid)
    elif step.work == "archive":
        archive(step.path, step.owner, Path(archive_dir), run)
    elif step.work == "delete":
        delete(step.path)
    elif step.owner == "root":
        if step.content is None:
            Path(step.path).unlink()
        else:
            write_atomically(step.path, step.content, mode=step.mode)
    else:
        write_user_file(step)


def renumber(folder: str, old_uid: int, new_uid: int, old_gid: int, new_gid: int) -> None:
    """Change uid and gid of one owner's files; other owners and other file systems are left out."""
    device = os.lstat(folder).st_dev
    for _parent, folders, files, handle in os.fwalk(folder):
        for name in (".", *folders, *files):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(name, dir_fd=handle, follow_symlinks=False)
                uid = new_uid if status.st_uid == old_uid else -1
                gid = new_gid if status.st_gid == old_gid else -1
                if (uid, gid) != (-1, -1) and status.st_dev == device:
                    os.chown(name, uid, gid, dir_fd=handle, follow_symlinks=False)
        folders[:] = [name for name in folders if _is_on(name, handle, device)]


def _is_on(name: str, handle: int, device: int) -> bool:
    with contextlib.suppress(FileNotFoundError):
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_dev == device
    return False


def write_user_file(step: Step) -> None:
    """Write or remove a file below a home with the rights of its owner."""
    owner = pwd.getpwnam(step.owner)

    def work() -> None:
        if step.content is None:
            # A user who is removed or locked cannot log in, with or without the file.
            with contextlib.suppress(OSError):
                Path(step.path).unlink()
            return
        Path(step.path).parent.mkdir(mode=0o700, exist_ok=True)
        write_atomically(
            step.path, step.content, mode=step.mode, uid=owner.pw_uid, gid=owner.pw_gid
        )

    as_user(owner, work, umask=0o077)


def end_session(name: str, run: Run) -> None:
    """End what systemd keeps for a removed user, and wait until it is gone."""
    run(["loginctl", "terminate-user", name])
    uid = pwd.getpwnam(name).pw_uid
    deadline = time.monotonic() + SESSION_END
    while _is_busy(uid):
        if time.monotonic() > deadline:
            raise Failed("the session does not end")
        time.sleep(0.2)


def _is_busy(uid: int) -> bool:
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.stat().st_uid == uid:
                return True
    return False


def make_home(path: str, name: str) -> None:
    """Create a missing home with the files of a new one."""
    owner = pwd.getpwnam(name)
    try:
        refuse_foreign(Path(path).parent)
        Path(path).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(path).mkdir(mode=0o700)
        give_folder(path, owner.pw_uid, owner.pw_gid, 0o700)
    except UserError as error:
        raise Failed(f"{error}. Declare a home in a folder that only root can write") from None

    def work() -> None:
        for entry in SKELETON.iterdir() if SKELETON.is_dir() else ():
            target = Path(path, entry.name)
            if entry.is_dir() and not entry.is_symlink():
                shutil.copytree(str(entry), str(target), symlinks=True)
            else:
                shutil.copy2(str(entry), str(target), follow_symlinks=False)

    as_user(owner, work, umask=0o077)


def set_mode(path: str, name: str, mode: int) -> None:
    """Set who may enter a home, with the rights of its owner."""

    def work() -> None:
        special = stat.S_IMODE(os.lstat(path).st_mode) & ~0o777
        Path(path).chmod(special | mode)

    as_user(pwd.getpwnam(name), work)


def archive(home: str, stem: str, folder: Path, run: Run) -> Path:
    """Archive a home: atomically, and without replacing another archive."""
    _private_folder(folder)
    stamp = datetime.now(timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    trial = folder / f".{stem}-{stamp}.{os.getpid()}.partial"
    # Incomplete archives of interrupted applies are useless.
    for left in folder.glob(f".{stem}-*.partial"):
        left.unlink()
    handle = os.open(str(trial), os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW, 0o600)
    try:
        os.close(handle)
        place = Path(home)
        code, _out, err = run(
            [
                *("tar", "--create", f"--file={trial}", "--sparse", "--numeric-owner"),
                *("--acls", "--xattrs", "--one-file-system", "--warning=no-file-ignored"),
                *(f"--directory={place.parent}", "--", f"./{place.name}"),
            ]
        )
        if code != 0:
            raise Failed(f"tar failed: {err.strip()}")
        with open(trial, "rb") as stream:
            os.fsync(stream.fileno())
        target = _free_name(trial, folder / f"{stem}-{stamp}.tar")
    finally:
        with contextlib.suppress(FileNotFoundError):
            trial.unlink()
    sync_folder(str(folder))
    return target


def _private_folder(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != 0:
        raise Failed(f"{folder} is not a folder that belongs to root")
    folder.chmod(0o700)


def _free_name(trial: Path, wanted: Path) -> Path:
    """Give the archive its name; unlike a rename, a link never replaces an existing file."""
    for number in range(1, 1000):
        target = wanted if number == 1 else wanted.with_name(f"{wanted.stem}.{number}.tar")
        try:
            os.link(trial, target)
        except FileExistsError:
            continue
        return target
    raise Failed(f"there are a thousand archives like {wanted}")


def delete(home: str) -> None:
    """Delete a home, renamed first, so that no partly deleted folder has its name."""
    place = Path(home)
    going = place.with_name(f".{place.name}.tpu-fleet-deletes")
    if going.exists():
        shutil.rmtree(str(going))
    place.rename(going)
    os.chown(going, 0, 0, follow_symlinks=False)
    going.chmod(0o700)
    # rmtree must be safe against a user who swaps a folder for a link.
    if not shutil.rmtree.avoids_symlink_attacks:
        raise Failed("this Python cannot delete a tree safely")
    shutil.rmtree(str(going))
