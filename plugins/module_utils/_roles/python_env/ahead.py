# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build environments while earlier roles still wait for packages. Private to tpu.fleet.

This only saves time: the role waits for it, then builds what is missing, or reports why it cannot.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from ..._host.locks import attempt, locked
from ..._host.state import LOCKS, STATE_DIR
from .apply import Job
from .look import Venv

LOCK = Path(STATE_DIR) / LOCKS / "venvs"
BUILD_SECONDS = 3 * 3600.0
"""How long the role waits for a build that began earlier: longer than any one may take."""


@contextlib.contextmanager
def alone(wait: bool = True) -> Iterator[bool]:
    """Yield whether no other process builds; wait for it by default. A child keeps the lock."""
    if wait:
        with locked(LOCK, BUILD_SECONDS):
            yield True
    else:
        with attempt(LOCK) as free:
            yield free


def begin(job: Job) -> bool:
    """Start to build, in another process, what needs no other role; return whether it started.

    A problem may be only that a code tree or a user is yet to come; the role reports what remains.
    """
    job.venvs = [venv for venv in job.venvs if _needs_no_role(venv)]
    if job.check or job.wrong or not job.venvs:
        return False
    with alone(wait=False) as free:
        if not free:
            return False
        child = os.fork()
        if child == 0:
            _build(job)
        return True


def _needs_no_role(venv: Venv) -> bool:
    """Return whether an environment has no files or rights of a user or a code tree."""
    ours = venv.spec.owner == "root" and venv.site is not None
    return ours and not (venv.error or venv.files or venv.spec.requirements or venv.spec.editable)


def _has_cache(job: Job) -> bool:
    """Wait for the cache of the slice, if it has one; without it, the index is not asked early."""
    if not job.params["shared_cache_url"]:
        return True
    with job.tools.at_work():
        return bool(job.tools.shared)


def _build(job: Job) -> None:
    """Build as the role will do it; what fails is for the role to report."""
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
        if not _has_cache(job):
            return
        # What the role removes, it removes itself.
        job.params["prune"] = False
        job.params["resolved"] = job.prepare()["locks"]
        job.build()
    finally:
        os._exit(0)
