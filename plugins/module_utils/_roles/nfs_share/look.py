# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a host's NFS support and files, and test its shares. Private to tpu.fleet."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from pathlib import Path

from ..._host.as_user import PATH
from ..._host.state import read_text
from ..._host.work import Run
from .plan import DROP_IN, EXPORTS, MARK, MASKED, SETTINGS, UNITS, Plan, Times

NOTHING = "/dev/null"


def has_kernel(run: Run, kind: str) -> bool:
    """Return whether the kernel has a file system, or a module for it."""
    known = (read_text("/proc/filesystems") or "").split()
    if kind in known:
        return True
    modprobe = shutil.which("modprobe", path=PATH)
    name = {"nfs4": "nfsv4"}.get(kind, kind)
    if not modprobe:
        return False
    return bool(run([modprobe, "--dry-run", "--quiet", name])[0] == 0)


def lacking(run: Run, wanted: Plan) -> list[str]:
    """Return what the kernel lacks for the plan, in words."""
    kinds = []
    if wanted.exports and not has_kernel(run, "nfsd"):
        kinds.append("export (nfsd)")
    if wanted.mounts and not has_kernel(run, "nfs4"):
        kinds.append("mount (nfs4)")
    return kinds


def missing_packages(wanted: Plan) -> list[str]:
    """Return the packages that are needed and not installed."""
    found = []
    if wanted.exports and not Path("/usr/sbin/exportfs").exists():
        found.append("nfs-kernel-server")
    if (wanted.mounts or wanted.exports) and not Path("/sbin/mount.nfs4").exists():
        found.append("nfs-common")
    return found


def files_now() -> dict[str, str]:
    """Return the files that this module has written."""
    places = [Path(path) for path in (EXPORTS, SETTINGS, DROP_IN)]
    for kind in ("mount", "automount"):
        places += sorted(Path(UNITS).glob(f"*.{kind}"))
    found = {}
    for place in places:
        # Other units may be dangling links, or unreadable.
        with contextlib.suppress(OSError):
            text = None if place.is_symlink() else read_text(place)
            if text is not None and text.startswith(MARK):
                found[str(place)] = text
    return found


def masks() -> dict[str, str]:
    """Return the paths at which units are masked."""
    return {f"{UNITS}/{unit}": unit for unit in MASKED}


def is_masked(path: str) -> bool:
    """Return whether a unit is masked."""
    return Path(path).is_symlink() and os.path.realpath(path) == NOTHING


def fstab_targets(text: str) -> list[str]:
    """Return the mount points of fstab, without the root."""
    lines = [line.split() for line in text.splitlines() if not line.lstrip().startswith("#")]
    found = [words[1] for words in lines if len(words) >= 2 and words[1].startswith("/")]
    return [target.rstrip("/") for target in found if target != "/"]


def answers(path: str, limit: float) -> bool:
    """Return whether a share answers in time, even if the mount hangs."""
    # pylint: disable-next=ansible-bad-function  # run_command has no time limit.
    process = subprocess.Popen(
        ["stat", "--file-system", "--format=%T", f"{path}/."],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        universal_newlines=True,
    )
    try:
        out, _error = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        # Not waited for, because it may hang in the kernel.
        process.kill()
        return False
    return process.returncode == 0 and out.strip() == "nfs"


def exported(run: Run) -> set[str]:
    """Return the folders that the server exports now."""
    _code, out, _error = run(["exportfs", "-s"])
    return {line.split()[0] for line in out.splitlines() if line.startswith("/")}


def probe(run: Run, wanted: Plan, times: Times) -> list[str]:
    """Return a problem for each export that is missing and each share that does not answer."""
    found = []
    if wanted.exports:
        served = exported(run)
        for export in wanted.exports:
            if export.clients and export.folder not in served:
                found.append(f"{export.folder} (share {export.name}) is not exported here")
    for mount in wanted.mounts:
        for pause in (3, 0):
            if answers(mount.path, times.mount + times.timeout):
                break
            time.sleep(pause)
        else:
            found.append(
                f"{mount.path} (share {mount.name}) does not answer. Is the server {mount.server} "
                f"up, does it export {mount.folder}, and does the firewall let TCP 2049 through?"
            )
    return found
