# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The TPU machine types of Compute Engine, the slices that they form, and their names. No I/O.

Sources: https://docs.cloud.google.com/compute/docs/accelerator-optimized-machines (shapes, disks,
network cards), https://docs.cloud.google.com/tpu/docs/v6e and /tpu7x (topologies). The letter t at
the end of a machine type counts chips; the number in an accelerator type counts TensorCores for
v5p and TPU7x. The tables are open: a type that they do not list may still exist.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType

from .._schema.accelerators import (
    ACCELERATOR_TYPES,
    CORES_PER_CHIP,
    GENERATIONS,
    PREFIXES,
    parse,
)
from .._schema.accelerators import topologies as topologies_of_type

IMAGE_PROJECT = "ubuntu-os-accelerator-images"

# Where each generation can be created.
APIS: dict[str, frozenset[str]] = {name: row.apis for name, row in GENERATIONS.items()}
# Each machine type also exists with this suffix, with the same shape.
_SUFFIX = "-tpu"


@dataclass(frozen=True)
class MachineType:
    """The shape of one VM, and what its boot disk, network card and image have to be."""

    name: str
    generation: str
    chips: int
    vcpus: int
    memory_gib: int
    threads_per_core: int
    """What the request has to say; 0 if it need not say it."""
    disk_type: str
    nic_type: str
    image_family: str


MACHINE_TYPES: dict[str, MachineType] = {
    shape.name: MachineType(
        shape.name,
        generation,
        shape.chips,
        shape.vcpus,
        shape.memory_gib,
        shape.threads_per_core,
        disk_type=row.disk_type,
        nic_type="GVNIC",
        image_family=row.image_family,
    )
    for generation, row in GENERATIONS.items()
    for shape in row.machines
}
# The only topology of the types that form no slice of several VMs.
_SINGLE = {
    shape.name: shape.topology
    for row in GENERATIONS.values()
    for shape in row.machines
    if shape.topology
}


# A list has a thousand instances of few types.
@lru_cache(maxsize=64)
def machine_type(name: str) -> MachineType | None:
    """Return a machine type by its name, also with the suffix -tpu; None if it is unknown."""
    kind = MACHINE_TYPES.get(name.removesuffix(_SUFFIX))
    return replace(kind, name=name) if kind else None


@lru_cache(maxsize=64)
def topologies(machine_type: str) -> Mapping[str, int]:
    """Return the topologies that VMs of a type can form, each with its number of VMs."""
    kind = MACHINE_TYPES.get(machine_type.removesuffix(_SUFFIX))
    found = {}
    if kind is not None and kind.name in _SINGLE:
        found = {_SINGLE[kind.name]: 1}
    elif kind is not None:
        found = {
            topology: size.chips // kind.chips
            for size in ACCELERATOR_TYPES.values()
            if size.generation == kind.generation and size.chips >= kind.chips
            for topology in topologies_of_type(size)
        }
    return MappingProxyType(found)


def workers_of(machine_type: str, topology: str) -> int | None:
    """Return how many VMs a slice has; None if the type cannot form the topology."""
    return topologies(machine_type).get(topology)


@lru_cache(maxsize=64)
def accelerator_type_of(machine_type: str, topology: str) -> str:
    """Return the accelerator type that workers find in their metadata; empty if it is unknown."""
    kind = MACHINE_TYPES.get(machine_type.removesuffix(_SUFFIX))
    if kind is None or topology not in topologies(machine_type):
        return ""
    chips = math.prod(map(int, topology.split("x")))
    return f"{PREFIXES[kind.generation]}-{chips * CORES_PER_CHIP[kind.generation]}"


def shape_of(accelerator_type: str, topology: str = "") -> tuple[str, str]:
    """Return the machine type and topology of an accelerator type; empty if it has none here.

    A v6e-8 is one VM with eight chips, although two with four also form a 2x4.
    """
    known = parse(accelerator_type)
    if known is None or not GENERATIONS[known.generation].machines:
        return "", ""
    wanted = topology or known.topology
    if wanted not in topologies_of_type(known):
        return "", ""
    machines = GENERATIONS[known.generation].machines
    of_slices = next(one for one in machines if not one.topology)
    alone = (one for one in machines if one.topology and one.chips == known.chips)
    return next(alone, of_slices).name, wanted
