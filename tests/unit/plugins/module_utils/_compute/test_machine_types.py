# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machine types of Compute Engine against accelerator types."""

from __future__ import annotations

import math

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.machine_types import (
    APIS,
    MACHINE_TYPES,
    accelerator_type_of,
    machine_type,
    shape_of,
    topologies,
    workers_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.accelerators import (
    ACCELERATOR_TYPES,
    API_ENUM,
    CORES_PER_CHIP,
    PREFIXES,
    RUNTIMES_BY_GENERATION,
    parse,
)


@pytest.mark.parametrize(
    ("machine", "topology", "vms", "accelerator_type"),
    [
        ("ct6e-standard-1t", "1x1", 1, "v6e-1"),
        ("ct6e-standard-4t", "2x2", 1, "v6e-4"),
        ("ct6e-standard-4t", "4x4", 4, "v6e-16"),
        ("ct6e-standard-4t", "16x16", 64, "v6e-256"),
        ("ct6e-standard-8t", "2x4", 1, "v6e-8"),
        ("ct5p-hightpu-4t", "2x2x1", 1, "v5p-8"),
        ("ct5p-hightpu-4t", "2x2x2", 2, "v5p-16"),
        ("ct5p-hightpu-4t", "4x4x8", 32, "v5p-256"),
        ("tpu7x-standard-4t", "2x2x1", 1, "v7x-8"),
        ("tpu7x-standard-4t", "2x2x2", 2, "v7x-16"),
        ("tpu7x-standard-4t", "8x16x16", 512, "v7x-4096"),
    ],
)
def test_a_shape_has_one_accelerator_type_and_back(
    machine: str, topology: str, vms: int, accelerator_type: str
) -> None:
    assert workers_of(machine, topology) == vms
    assert accelerator_type_of(machine, topology) == accelerator_type
    assert shape_of(accelerator_type, topology) == (machine, topology)
    known = parse(accelerator_type)
    assert known is not None
    assert known.workers == vms


def test_two_vms_may_form_what_one_is_by_default() -> None:
    """A 2x4 of v6e is one VM of eight chips, or two of four."""
    assert workers_of("ct6e-standard-4t", "2x4") == 2
    assert accelerator_type_of("ct6e-standard-4t", "2x4") == "v6e-8"
    assert shape_of("v6e-8") == ("ct6e-standard-8t", "2x4")


@pytest.mark.parametrize("machine", MACHINE_TYPES)
def test_the_chips_of_a_topology_are_those_of_its_vms(machine: str) -> None:
    assert topologies(machine)
    for topology, vms in topologies(machine).items():
        assert math.prod(map(int, topology.split("x"))) == vms * MACHINE_TYPES[machine].chips


@pytest.mark.parametrize("machine", MACHINE_TYPES)
def test_the_suffix_tpu_changes_only_the_name(machine: str) -> None:
    kind = machine_type(f"{machine}-tpu")
    assert kind is not None
    assert kind.name == f"{machine}-tpu"
    assert kind.chips == MACHINE_TYPES[machine].chips
    assert topologies(f"{machine}-tpu") == topologies(machine)


@pytest.mark.parametrize(
    ("accelerator_type", "topology"),
    [("v4-8", ""), ("v5litepod-8", ""), ("tpu7x-8", ""), ("v7x-12", ""), ("v6e-16", "2x8")],
)
def test_what_compute_engine_cannot_create_has_no_shape(
    accelerator_type: str, topology: str
) -> None:
    assert shape_of(accelerator_type, topology) == ("", "")


def test_what_is_unknown_has_no_topologies() -> None:
    assert machine_type("n2-standard-8") is None
    assert topologies("ct5lp-hightpu-4t") == {}
    assert workers_of("ct6e-standard-8t", "4x4") is None
    assert accelerator_type_of("ct6e-standard-8t", "4x4") == ""
    assert accelerator_type_of("n2-standard-8", "1x1") == ""


@pytest.mark.parametrize("generation", PREFIXES)
def test_each_generation_is_where_it_can_be_created(generation: str) -> None:
    assert ("tpu" in APIS[generation]) == (generation in API_ENUM)
    assert ("tpu" in APIS[generation]) == (generation in RUNTIMES_BY_GENERATION)
    offered = any(kind.generation == generation for kind in MACHINE_TYPES.values())
    assert ("compute" in APIS[generation]) == offered
    assert set(APIS) == set(PREFIXES) == set(CORES_PER_CHIP)


def test_each_type_of_a_generation_of_compute_engine_has_a_shape() -> None:
    for kind in ACCELERATOR_TYPES.values():
        machine, topology = shape_of(kind.name)
        if "compute" not in APIS[kind.generation]:
            assert (machine, topology) == ("", "")
            continue
        assert accelerator_type_of(machine, topology) == kind.name
        assert workers_of(machine, topology) == kind.workers
