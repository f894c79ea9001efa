# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wishes of this host, kept so that its own units can go by them.

The timer checks whether they still hold, and the queue has environments built that they declare.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, List, Sequence

from .place import Place, read, write
from .wish import Wish

UNIT = "tpu-fleet-apply"
VENV_UNIT = "tpu-fleet-venv@.service"
_QUEUE = "run_queue"
WHO = "the timer of this host"
_SERVICE = """# Managed by tpu.fleet.
[Unit]
Description=Apply the roles of tpu.fleet if this machine has changed
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -I -S {agent} again
"""
_VENV = """# Managed by tpu.fleet.
[Unit]
Description=Build environment %i, which a submitted run needs
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -I -S {agent} need %i
TimeoutStartSec=3h
"""
_TIMER = """# Managed by tpu.fleet.
[Unit]
Description=Check regularly whether this machine is still as tpu.fleet declares it

[Timer]
OnBootSec={every}
OnUnitActiveSec={every}
RandomizedDelaySec=5%

[Install]
WantedBy=timers.target
"""


def kept(place: Place) -> List[Wish]:
    """Return the kept wishes, without those that a later one has replaced."""
    return [Wish.read(data) for data in read(place.wishes) or []]


def keep(place: Place, wish: Wish) -> None:
    """Keep a wish; it replaces what earlier wishes say about the same roles."""
    rest = [old.without(wish.roles) for old in kept(place)]
    _keep(place, [*(old for old in rest if old.roles), wish])


def _keep(place: Place, wishes: Sequence[Wish]) -> None:
    data: List[Dict[str, Any]] = [asdict(one) for one in wishes]
    if data != (read(place.wishes) or []):
        write(place.wishes, json.dumps(data))
    every = next((one.every for one in reversed(wishes) if one.every), "")
    _schedule(place.units, every, any(_serves(one) for one in wishes))


def _serves(wish: Wish) -> bool:
    """Return whether a wish may have this machine serve the queue."""
    return _QUEUE in wish.roles and _QUEUE not in wish.undeclared


def _schedule(units: Path, every: str, queue: bool) -> None:
    """Install the timer, and the unit for the queue; remove what is not wanted.

    `every` is empty without a timer. Does nothing if all is already so.
    """
    # A unit starts this very agent, because another version may not understand these wishes.
    agent = Path(__file__).parents[1].resolve()
    wanted = {
        units / f"{UNIT}.service": _SERVICE.format(agent=agent) if every else "",
        units / f"{UNIT}.timer": _TIMER.format(every=every) if every else "",
        units / VENV_UNIT: _VENV.format(agent=agent) if queue else "",
    }
    changed = False
    for path, text in wanted.items():
        there = path.read_text(encoding="utf-8") if path.exists() else ""
        if text == there:
            continue
        changed = True
        if text:
            write(path, text)
            path.chmod(0o644)
        else:
            if path.name != VENV_UNIT:
                _systemctl("disable", "--now", path.name)
            path.unlink()
    if changed:
        _systemctl("daemon-reload")
        if every:
            _systemctl("enable", f"{UNIT}.timer")
            _systemctl("restart", f"{UNIT}.timer")


def _systemctl(*words: str) -> None:
    with contextlib.suppress(OSError):
        # pylint: disable-next=ansible-bad-function
        subprocess.run(
            ["systemctl", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
            check=False,
        )
