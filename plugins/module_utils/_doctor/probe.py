# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run probes that may hang, each in a separate process that is given up at its time limit.

A process that waits for a dead file server cannot be killed. It is left behind, with no open pipe
that others wait for, and ends when the server answers. Runs on Python 3.8.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import signal
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Tuple

from .._host.as_user import take_rights

_CHUNK = 65536
# Maximum size of a probe's answer, which a user's program may control.
_MOST_BYTES = 8_000_000
_USUAL = 20.0


def more_patient(limit: float, time_limit: float) -> float:
    """Return the time limit of one probe; a longer total limit extends each of them."""
    return limit * max(1.0, time_limit / _USUAL)


@dataclass(frozen=True)
class Probe:
    """One probe: its name, its function and its time limit."""

    name: str
    look: Callable[[], Any]
    limit: float
    # The user; only root can become another one.
    uid: Optional[int] = None


@dataclass
class _Child:
    probe: Probe
    pid: int
    pipe: int
    deadline: float
    data: bytes = b""


def probe_all(probes: List[Probe], time_limit: float) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """Run all probes in parallel; return their results, and why some have none."""
    start = time.monotonic()
    waiting = [_begin(probe, start + min(probe.limit, time_limit)) for probe in probes]
    found: Dict[str, Any] = {}
    failed: Dict[str, str] = {}
    while waiting:
        pause = max(0.0, min(child.deadline for child in waiting) - time.monotonic())
        ready, _writable, _broken = select.select([child.pipe for child in waiting], [], [], pause)
        over = time.monotonic()
        left = []
        for child in waiting:
            if child.pipe in ready:
                chunk = os.read(child.pipe, _CHUNK)
                child.data += chunk
                if not chunk:
                    _settle(child, found, failed)
                    continue
                if len(child.data) > _MOST_BYTES:
                    failed[child.probe.name] = f"it answered more than {_MOST_BYTES} bytes"
                    _give_up(child)
                    continue
            elif over >= child.deadline:
                limit = min(child.probe.limit, time_limit)
                failed[child.probe.name] = f"no answer within {limit:.3g} s"
                _give_up(child)
                continue
            left.append(child)
        waiting = left
    return found, failed


def _begin(probe: Probe, deadline: float) -> _Child:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setpgid(0, 0)
            os.close(reader)
            # Ansible's connection ends only when no process holds it open.
            nothing = os.open(os.devnull, os.O_RDWR)
            for number in (0, 1, 2):
                os.dup2(nothing, number)
            _answer(probe, writer)
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    return _Child(probe, pid, reader, deadline)


def _answer(probe: Probe, writer: int) -> None:
    try:
        if probe.uid is not None:
            become(probe.uid)
        answer = {"found": probe.look()}
    except Exception as error:  # report any error
        answer = {"failed": str(error) or type(error).__name__}
    with os.fdopen(writer, "wb") as stream:
        stream.write(json.dumps(answer).encode())


def become(uid: int) -> None:
    """Give up all rights but those of a user."""
    if os.geteuid() != 0 or uid == 0:
        return
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        account = pwd.struct_passwd((str(uid), "", uid, uid, "", "/", ""))
    take_rights(account)


def _settle(child: _Child, found: Dict[str, Any], failed: Dict[str, str]) -> None:
    os.close(child.pipe)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child.pid, 0)
    try:
        answer = json.loads(child.data.decode())
    except ValueError:
        failed[child.probe.name] = "the probe ended early"
        return
    if "found" in answer:
        found[child.probe.name] = answer["found"]
    else:
        failed[child.probe.name] = answer["failed"]


def _give_up(child: _Child) -> None:
    os.close(child.pipe)
    for kill, number in ((os.killpg, child.pid), (os.kill, child.pid)):
        with contextlib.suppress(OSError):
            kill(number, signal.SIGKILL)
    # Do not wait for a process that cannot be killed.
    with contextlib.suppress(ChildProcessError):
        os.waitpid(child.pid, os.WNOHANG)
