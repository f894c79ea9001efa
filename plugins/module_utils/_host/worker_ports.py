# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which ports the workers of a run need from each other, and what a test of them shows. No I/O.

The run agent uses this file too, and it is sent to workers.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST, SLICE, ALL = "worker 0", "workers of the slice", "all workers"
"""The workers that listen: worker 0 alone, each for those of its slice, each for all others."""
OPEN, REFUSED, TIMEOUT, NO_ROUTE = "open", "refused", "timeout", "no route"
"""What a connection shows. Refused: the packets arrive, and no process listens now."""
RESULTS = (OPEN, REFUSED, TIMEOUT, NO_ROUTE)
MOST = 512
"""Connections that one worker tries; of more workers each is tried by some."""
_VERSION = re.compile(r"\d+")


@dataclass(frozen=True)
class Row:
    """A port that a framework opens for other workers."""

    framework: str
    """The package that opens it, by its name in the venv."""
    what: str
    ports: tuple[int, ...]
    on: str
    source: str
    """Where this is known from."""
    variables: tuple[str, ...] = ()
    """What a run may set to choose another port: a number, or addresses with ports."""
    since: str = ""
    before: str = ""
    """The versions that use it, from `since` on and older than `before`."""


TABLE: tuple[Row, ...] = (
    Row(
        "jax",
        "JAX's coordinator",
        (8476,),
        FIRST,
        "jax-ml/jax#35905; jax/_src/clusters/cloud_tpu_cluster.py of 0.8.0",
        ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"),
        before="0.8.1",
    ),
    Row(
        "jax",
        "JAX's coordinator",
        (8482,),
        FIRST,
        "jax-ml/jax#35905; jax/_src/clusters/cloud_tpu_cluster.py of 0.10.2",
        ("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_PORT"),
        since="0.8.1",
    ),
    Row(
        "libtpu",
        "libtpu's topology",
        (8471,),
        SLICE,
        "Google's manifests for TPUs on GKE: the default port between TPU VMs",
        ("TPU_PROCESS_ADDRESSES",),
    ),
    Row(
        "torch_xla",
        "a process of torch_xla for each chip",
        (8476, 8477, 8478, 8479),
        SLICE,
        "torch_xla/_internal/tpu.py: configure_topology, base_port",
        ("TPU_PROCESS_ADDRESSES",),
    ),
    Row(
        "torch_xla",
        "torch_xla's rendezvous",
        (12355,),
        FIRST,
        "torch_xla/_internal/rendezvous.py: MASTER_PORT",
        ("MASTER_PORT",),
    ),
)


@dataclass(frozen=True)
class Gang:
    """What a run's definition says of its workers and their ports."""

    hosts: tuple[str, ...]
    """The internal addresses of all workers."""
    worker: int
    slices: tuple[int, ...]
    """The number of workers of each slice."""
    peer_port: int
    coordinator_port: int
    megascale_port: int
    """0 where the run has one slice."""

    @classmethod
    def of(cls, definition: Mapping[str, Any]) -> Gang:
        """Read a run's definition; raises KeyError, TypeError, ValueError for what is none."""
        hosts = tuple(map(str, definition["hosts"]))
        slices = tuple(len(part) for part in definition.get("slices") or [])
        return cls(
            hosts,
            int(definition["worker"]),
            slices or (len(hosts),),
            int(definition["peer_port"]),
            int(definition["coordinator_port"]),
            int(definition.get("megascale_port") or 8080) if slices else 0,
        )

    def slice_of(self, worker: int) -> int:
        """Return which slice a worker is of."""
        for number, size in enumerate(self.slices):
            if worker < size:
                return number
            worker -= size
        return len(self.slices)


@dataclass(frozen=True)
class Need:
    """A port that workers of a run need from each other."""

    port: int
    what: str
    on: str


@dataclass(frozen=True)
class Target:
    """A connection to try."""

    worker: int
    address: str
    port: int
    what: str = ""


@dataclass(frozen=True)
class Tried:
    """What the test of one connection showed."""

    worker: int
    """The worker that it went to."""
    port: int
    result: str
    what: str = ""

    @property
    def blocked(self) -> bool:
        """Say whether the packets did not arrive."""
        return self.result in (TIMEOUT, NO_ROUTE)


def version_key(version: str) -> tuple[int, ...]:
    """Return a sort key for a version, from its leading numbers."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, _VERSION.findall(match[0]))) if match else ()


def applies(row: Row, versions: Mapping[str, str]) -> bool:
    """Say whether a row holds for these packages; without any, for the newest JAX and libtpu."""
    known = versions or {"jax": "", "libtpu": ""}
    if row.framework not in known:
        return False
    found = version_key(known[row.framework])
    if not found:  # not known: the newest
        return not row.before
    late = not row.since or found >= version_key(row.since)
    return late and (not row.before or found < version_key(row.before))


def ports_in(value: str) -> list[int]:
    """Return the ports that a variable names: a number, or addresses separated by commas."""
    words = [word.strip().rpartition(":")[2] for word in value.split(",")]
    found = [int(word) for word in words if word.isdigit() and len(word) <= 5]
    return list(dict.fromkeys(port for port in found if 0 < port < 65536))


def chosen(row: Row, env: Mapping[str, str]) -> list[int]:
    """Return the ports that a run's variables choose in the place of the usual ones."""
    return next(
        (ports for name in row.variables for ports in [ports_in(env.get(name, ""))] if ports), []
    )


def needed(
    gang: Gang, versions: Mapping[str, str], env: Mapping[str, str], chips: bool
) -> list[Need]:
    """Return the ports that the workers of a run need; none where there is one worker.

    `versions` are the packages of the run's environment, `env` its variables. Without chips a
    framework opens only what a variable names.
    """
    if len(gang.hosts) < 2:
        return []
    found = [
        Need(gang.peer_port, "the run agents", FIRST),
        Need(gang.coordinator_port, "TPU_FLEET_COORDINATOR", FIRST),
    ]
    for row in TABLE:
        ports = chosen(row, env) or (list(row.ports) if chips else [])
        found += [Need(port, row.what, row.on) for port in ports if applies(row, versions)]
    if gang.megascale_port and chips:
        port = (ports_in(env.get("MEGASCALE_PORT", "")) or [gang.megascale_port])[0]
        found.append(Need(port, "MEGASCALE_PORT", ALL))
    first: dict[tuple[int, str], Need] = {}
    for need in found:
        first.setdefault((need.port, need.on), need)
    return list(first.values())


def targets(gang: Gang, needs: Iterable[Need], most: int = MOST) -> list[Target]:
    """Return what one worker tries: worker 0 first, then the workers after it, in a ring."""
    me, count = gang.worker, len(gang.hosts)
    ring = [(me + step) % count for step in range(1, count)]
    order = sorted(ring, key=lambda worker: worker != 0)
    found = [
        Target(worker, gang.hosts[worker], need.port, need.what)
        for worker in order
        for need in needs
        if _listens(gang, worker, need)
    ]
    return found[:most]


def _listens(gang: Gang, worker: int, need: Need) -> bool:
    if need.on == FIRST:
        return worker == 0
    return need.on == ALL or gang.slice_of(worker) == gang.slice_of(gang.worker)


def rows(tried: Iterable[Tried]) -> list[dict[str, Any]]:
    """Return results as evidence has them."""
    return [{"worker": one.worker, "port": one.port, "result": one.result} for one in tried]


def blocked_lines(found: Mapping[int, Iterable[Tried]]) -> list[str]:
    """Say which workers cannot reach which port, in one line for each port.

    `found` has what each worker tried of workers that are there: where no packet arrives all the
    same, a firewall is in between.
    """
    by_port: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for worker in sorted(found):
        for one in found[worker]:
            if one.blocked:
                key = (one.port, one.what, one.result)
                by_port.setdefault(key, []).append((worker, one.worker))
    return [_blocked_line(*key, pairs) for key, pairs in sorted(by_port.items())]


def _blocked_line(port: int, what: str, result: str, pairs: Sequence[tuple[int, int]]) -> str:
    """Say which workers cannot reach a port; each pair is from one worker to another."""
    to = sorted({there for _here, there in pairs})
    where = f"worker {to[0]}:{port}" if len(to) == 1 else f"port {port} of {named(to)}"
    why = "a firewall" if result == TIMEOUT else "no route"
    use = f" ({what})" if what else ""
    return f"{named([here for here, _there in pairs])} cannot reach {where}{use}: {why}"


def advice(found: Mapping[int, Iterable[Tried]], hosts: Iterable[str], network: str = "") -> str:
    """Say what is blocked, and the command that opens it; empty if all ports are reached."""
    tried = {worker: list(of_worker) for worker, of_worker in found.items()}
    lines = blocked_lines(tried)
    ports = {one.port for some in tried.values() for one in some if one.result == TIMEOUT}
    if ports:
        lines.append(f"open it: {firewall_command(ports, hosts, network)}")
    return "; ".join(lines)


def ranges(numbers: Iterable[int]) -> list[str]:
    """Return numbers in order as texts, with those in a row as one: 1-3, 7."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]


def named(workers: Sequence[int]) -> str:
    """Name some workers: worker 2, workers 1 and 3, workers 1-3 and 7."""
    words = ranges(workers)
    most = f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]
    return f"worker{'s' if len(set(workers)) > 1 else ''} {most}"


def firewall_command(ports: Iterable[int], hosts: Iterable[str], network: str = "") -> str:
    """Return gcloud's command that lets the workers reach these ports; `network` may be unknown."""
    allowed = ",".join(f"tcp:{port}" for port in sorted(set(ports)))
    ranges = ",".join(_ranges(hosts))
    return (
        f"gcloud compute firewall-rules create tpu-fleet-workers --network={network or 'NETWORK'} "
        f"--allow={allowed} --source-ranges={ranges}"
    )


def _ranges(hosts: Iterable[str]) -> list[str]:
    """Return the network of each address family that has all these addresses."""
    found = []
    for version in (4, 6):
        addresses = [one for one in map(_address, hosts) if one is not None]
        same = [one for one in addresses if one.version == version]
        if same:
            found.append(str(_network(same)))
    return found or ["RANGES"]


def is_address(text: str) -> bool:
    """Say whether a text is an address, and no name."""
    return _address(text) is not None


def _address(text: str) -> Any:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None  # a name


def _network(addresses: Sequence[Any]) -> Any:
    # A recreated slice has other addresses of its subnet: no rule for each address.
    net = ipaddress.ip_network(
        f"{addresses[0]}/{24 if addresses[0].version == 4 else 64}", strict=False
    )
    while not all(one in net for one in addresses):
        net = net.supernet()
    return net
