# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The safe repairs. Runs on Python 3.8.

Each repair checks again, immediately before it acts, whether it is still safe. None ends, signals
or disturbs another user's process.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Callable, Dict, List, Set, Tuple

from .._host.state import boot_id, write_atomically
from . import gather
from .check import OK, SKIPPED, Finding
from .gather import Place
from .host import marker_path
from .probe import Probe, probe_all

DPKG_SECONDS, MOUNT_SECONDS, UNIT_SECONDS = 300.0, 30.0, 60.0


class NotMended(Exception):
    """The repair failed, or is no longer safe."""


def _do(*argv: str, limit: float) -> None:
    """Run a command with a time limit."""
    _found, failed = probe_all([Probe("it", lambda: _command(argv), limit)], limit)
    if failed:
        raise NotMended(f"{' '.join(argv)}: {failed['it']}")


def _command(argv: Tuple[str, ...]) -> None:
    # In a separate process without an AnsibleModule, so without run_command.
    # pylint: disable-next=ansible-bad-function
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={
            **os.environ,
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "DEBIAN_FRONTEND": "noninteractive",
            "LC_ALL": "C",
        },
    )
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        raise NotMended(lines[-1] if lines else f"it ends with {done.returncode}")


def remove_lock_file(place: Place, _subject: str) -> str:
    """Remove libtpu's lock file, if no process has a chip open now."""
    held = gather.holders()
    if held:
        raise NotMended(f"process {held[0]['pid']} has opened a chip meanwhile")
    Path(place.lock_file).unlink()
    return f"removed {place.lock_file}"


def configure_packages(_place: Place, _subject: str) -> str:
    """Finish an interrupted dpkg, unless another process holds its lock."""
    locks = gather.apt()["locks"]
    if locks:
        raise NotMended(f"{locks[0]['path']} is held by process {locks[0]['pid']}")
    _do("dpkg", "--force-confold", "--configure", "-a", limit=DPKG_SECONDS)
    return "ran dpkg --configure -a"


def restart_unit(_place: Place, subject: str) -> str:
    """Restart a failed unit."""
    _do("systemctl", "reset-failed", subject, limit=UNIT_SECONDS)
    _do("systemctl", "restart", subject, limit=UNIT_SECONDS)
    return f"restarted {subject}"


def start_agent(_place: Place, subject: str) -> str:
    """Start the agent of a run."""
    unit = f"tpu-fleet-run@{subject}.service"
    _do("systemctl", "reset-failed", unit, limit=UNIT_SECONDS)
    _do("systemctl", "start", unit, limit=UNIT_SECONDS)
    return f"started {unit}"


def mount(_place: Place, subject: str) -> str:
    """Mount a declared mount that is missing."""
    unit = next((m.unit for m in gather.mounts() if m.point == subject), "")
    if unit:
        _do("systemctl", "restart", unit, limit=MOUNT_SECONDS)
    else:
        _do("mount", subject, limit=MOUNT_SECONDS)
    return f"mounted {subject}"


def remount(place: Place, subject: str) -> str:
    """Unmount a dead mount and mount it again; programs that use it have already failed."""
    _do("umount", "-l", subject, limit=MOUNT_SECONDS)
    return mount(place, subject).replace("mounted", "unmounted and mounted")


def stamp_ready(place: Place, _subject: str) -> str:
    """Mark the machine as ready in this boot."""
    write_atomically(marker_path(place), boot_id() + "\n")
    return "wrote the ready marker for this boot"


MENDS: Dict[Tuple[str, str], Callable[[Place, str], str]] = {
    ("lock_file", "stale"): remove_lock_file,
    ("lock_file", "others"): remove_lock_file,
    ("apt", "interrupted"): configure_packages,
    ("units", "failed"): restart_unit,
    ("runs", "no_agent"): start_agent,
    ("mounts", "stale"): remount,
    ("mounts", "absent"): mount,
}
READY = ("ready", "older_boot")


def mendable(findings: List[Finding]) -> List[Finding]:
    """Return the possible repairs; a machine is marked ready only if nothing else is wrong."""
    found = [finding for finding in findings if (finding.check, finding.case) in MENDS]
    others = [f for f in findings if f.status not in (OK, SKIPPED) and f.check != "ready"]
    stale = [f for f in findings if (f.check, f.case) == READY]
    return found + (stale if not others else [])


def mend(
    place: Place, findings: List[Finding], tried: Set[Tuple[str, str]], dry: bool
) -> List[Dict[str, str]]:
    """Do the possible repairs that were not tried yet; return what was done, or why not."""
    done = []
    for finding in mendable(findings):
        if (finding.check, finding.subject) in tried:
            continue
        key = (finding.check, finding.case)
        action = stamp_ready if key == READY else MENDS[key]
        about = {"check": finding.check, "subject": finding.subject, "problem": finding.says}
        try:
            did = f"would: {finding.fix}" if dry else action(place, finding.subject)
            done.append({**about, "did": did, "failed": ""})
        except (NotMended, OSError) as error:
            done.append({**about, "did": "", "failed": str(error)})
    return done
