# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The workers of a run over several slices, and the ports on which workers meet. No I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_PORTS = 20
PAIRS_OF_PORTS = 2000


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
    """Return the port of each run on which its agents meet."""
    runs = list(runs)
    given = {str(run["name"]): int(run["peer_port"]) for run in runs if run.get("peer_port")}
    known = {name: port - base for name, port in given.items()}
    return {name: base + one for name, one in _numbers(runs, count, "sha256", known).items()}


def port_numbers(runs: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of each run, from which the ports of its programs follow."""
    return _numbers(list(runs), PAIRS_OF_PORTS, "sha1", {})


def _numbers(
    runs: Sequence[Mapping[str, Any]], count: int, digest: str, given: Mapping[str, int]
) -> dict[str, int]:
    """Return a number below a count for each run.

    Runs with the same leading slice get different ones while there are enough. A run keeps its
    number when others are declared after it.
    """
    numbers: dict[str, int] = {}
    taken: set[tuple[str, int]] = set()
    for run in sorted(runs, key=lambda run: str(run["name"]) not in given):
        where, name = _led_on(run), str(run["name"])
        start = int(hashlib.new(digest, name.encode()).hexdigest()[:8], 16)
        wanted = [(start + step) % count for step in range(count)]
        if name in given:
            wanted = [given[name]]
        free = (one for one in wanted if not any((place, one) in taken for place in where))
        numbers[name] = number = next(free, wanted[0])
        taken.update((place, number) for place in where)
    return numbers


def _led_on(run: Mapping[str, Any]) -> list[str]:
    slices = [str(name) for name in run.get("slices") or ()]
    return slices[:1] if run.get("multislice") else slices
