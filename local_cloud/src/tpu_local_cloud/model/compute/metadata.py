"""The metadata that Compute Engine writes into TPU instances when it creates them.

Source: metadata of real v6e instances, in projects that published them. A client that replaces the
metadata without these keys breaks the slice.
"""

from __future__ import annotations

import math
from typing import Any

from ...tables._compute.machine_types import accelerator_type_of, machine_type

HOSTS = {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}
METRICS_PORTS = (8431, 8432, 8433, 8434, 8435, 8436, 8437, 8438)


def written(
    project: str, zone: str, compute: dict[str, Any], names: list[str]
) -> list[dict[str, str]]:
    """Return the keys of each instance of a slice."""
    shape = str(compute["machineType"]), str(compute["topology"])
    accelerator_type = accelerator_type_of(*shape)
    return [
        {
            "accelerator-type": accelerator_type,
            "agent-worker-number": str(worker),
            "tpu-env": tpu_env(project, zone, *shape, worker),
            "worker-network-endpoints": ",".join(names),
        }
        for worker in range(len(names))
    ]


def tpu_env(project: str, zone: str, kind: str, topology: str, worker: int) -> str:
    """Return the lines of `tpu-env`."""
    known = machine_type(kind)
    chips = known.chips if known else 0
    values = {
        "TPU_WORKER_ID": str(worker),
        "CONSUMER_PROJECT_ID": project,
        "ZONE": zone,
        "NODE_ID": "0",
        "TPU_RUNTIME_METRICS_PORTS": ",".join(map(str, METRICS_PORTS[:chips])),
        "ENABLE_ICI_RESILIENCY": "false",
        "TPU_ACCELERATOR_TYPE": accelerator_type_of(kind, topology),
        "TOPOLOGY": topology,
        "WRAP": _wrap(topology),
        "ALT": "false",
        "HOST_BOUNDS": host_bounds(topology, chips),
        "CHIPS_PER_HOST_BOUNDS": ",".join(map(str, HOSTS.get(chips, (1, 1, 1)))),
    }
    return "".join(f"{key}: '{value}'\n" for key, value in values.items())


def host_bounds(topology: str, chips: int) -> str:
    """Return how the hosts are arranged in the topology."""
    sides = _sides(topology)
    return ",".join(
        str(max(1, side // own))
        for side, own in zip(sides, HOSTS.get(chips, (1, 1, 1)), strict=True)
    )


def _wrap(topology: str) -> str:
    """Return which axes are rings: those of whole cubes of 4x4x4, or of 16 chips in a plane."""
    sides = _sides(topology)
    ring = 16 if topology.count("x") == 1 else 4
    whole = math.prod(sides) >= 64 and all(side % ring == 0 for side in sides if side > 1)
    return ",".join(str(whole and side > 1).lower() for side in sides)


def _sides(topology: str) -> list[int]:
    sides = [int(side) for side in topology.split("x")]
    return sides + [1] * (3 - len(sides))
