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

from .._tpu.accelerators import ACCELERATOR_TYPES, CORES_PER_CHIP, PREFIXES, parse
from .._tpu.accelerators import topologies as topologies_of_type

IMAGE_PROJECT = "ubuntu-os-accelerator-images"

# Where each generation can be created. Machine types of v5e are listed on Compute Engine, and
# refused to everyone but GKE.
APIS: dict[str, frozenset[str]] = {
    "v2": frozenset({"tpu"}),
    "v3": frozenset({"tpu"}),
    "v4": frozenset({"tpu"}),
    "v5e": frozenset({"tpu"}),
    "v5p": frozenset({"tpu", "compute"}),
    "v6e": frozenset({"tpu", "compute"}),
    "tpu7x": frozenset({"compute"}),
}

_BEFORE_7X = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
_IMAGE_FAMILIES = {
    "v5p": _BEFORE_7X,
    "v6e": _BEFORE_7X,
    "tpu7x": "ubuntu-accel-2404-amd64-tpu-tpu7x",
}
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


def _kind(
    name: str, generation: str, chips: int, vcpus: int, memory_gib: int, threads_per_core: int = 0
) -> MachineType:
    return MachineType(
        name,
        generation,
        chips,
        vcpus,
        memory_gib,
        threads_per_core,
        disk_type="pd-balanced" if generation == "v5p" else "hyperdisk-balanced",
        nic_type="GVNIC",
        image_family=_IMAGE_FAMILIES[generation],
    )


MACHINE_TYPES: dict[str, MachineType] = {
    kind.name: kind
    for kind in (
        _kind("ct5p-hightpu-4t", "v5p", 4, 208, 448),
        _kind("ct6e-standard-1t", "v6e", 1, 44, 176),
        _kind("ct6e-standard-4t", "v6e", 4, 180, 720),
        _kind("ct6e-standard-8t", "v6e", 8, 360, 1440, threads_per_core=1),
        _kind("tpu7x-standard-4t", "tpu7x", 4, 224, 960),
    )
}

# The type of VM that a slice of several has, and the only ones with another number of chips.
_OF_SLICES = {"v5p": "ct5p-hightpu-4t", "v6e": "ct6e-standard-4t", "tpu7x": "tpu7x-standard-4t"}
_SINGLE = {"ct6e-standard-1t": "1x1", "ct6e-standard-8t": "2x4"}
_ONE_VM = {"v6e-1": "ct6e-standard-1t", "v6e-8": "ct6e-standard-8t"}


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
    if known is None or known.generation not in _OF_SLICES:
        return "", ""
    wanted = topology or known.topology
    if wanted not in topologies_of_type(known):
        return "", ""
    return _ONE_VM.get(accelerator_type, _OF_SLICES[known.generation]), wanted
