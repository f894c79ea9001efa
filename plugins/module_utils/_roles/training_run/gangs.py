# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workers of a run over several slices, and the ports on which workers meet. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_PORTS = 20


def gangs(
    runs: Iterable[Mapping[str, Any]],
    own: str,
    hosts: Sequence[str],
    peers: Iterable[Mapping[str, Any]],
) -> dict[str, list[list[str]]]:
    """Return the addresses of the workers of each run with multislice, slice by slice.

    A host trusts its own knowledge about its own slice. While one of the slices is not completely
    known, the list is empty.
    """
    known: dict[str, dict[int, str]] = {}
    for peer in peers:
        if peer.get("address"):
            known.setdefault(str(peer["slice"]), {})[int(peer["worker"])] = str(peer["address"])
    found = {}
    for run in runs:
        if not run.get("multislice"):
            continue
        lists = []
        for name in run.get("slices") or ():
            there = dict(enumerate(hosts)) if name == own else known.get(str(name), {})
            # A missing number is a worker that is unknown.
            whole = sorted(there) == list(range(len(there)))
            lists.append([there[number] for number in sorted(there)] if whole else [])
        found[str(run["name"])] = lists if all(lists) else []
    return found


def gang_ports(runs: Iterable[Mapping[str, Any]], base: int, count: int = _PORTS) -> dict[str, int]:
    """Return the port of each run.

    Runs with the same leading slice get different ports while there are enough. A run keeps its
    port when others are declared after it.
    """
    ports: dict[str, int] = {}
    taken: set[tuple[str, int]] = set()
    for run in sorted(runs, key=lambda run: not run.get("peer_port")):
        where = _led_on(run)
        start = int(hashlib.sha256(str(run["name"]).encode()).hexdigest()[:8], 16)
        wanted = [base + (start + step) % count for step in range(count)]
        if run.get("peer_port"):
            wanted = [int(run["peer_port"])]
        free = [port for port in wanted if not any((name, port) in taken for name in where)]
        port = (free or wanted)[0]
        ports[str(run["name"])] = port
        taken.update((name, port) for name in where)
    return ports


def _led_on(run: Mapping[str, Any]) -> list[str]:
    slices = [str(name) for name in run.get("slices") or ()]
    return slices[:1] if run.get("multislice") else slices
