"""A generation of TPUs is one row of a table; these are the other places that have to know it.

When a row is added, what fails here is what is left to do.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.accelerators import (
    ACCELERATOR_TYPES,
    GENERATIONS,
    default_runtime,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import ALLOCATION, PRICE

from tpu_local_cloud.model.shared import catalog

ROOT = Path(__file__).resolve().parents[2]
TPU, COMPUTE = "tpu", "compute"
# What Google has not published.
NO_PRICE = {"tpu7x"}
NO_PCI = {"v2"}
NO_MACHINE_TYPE = {"v2"}


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_row_is_complete(name: str) -> None:
    row = GENERATIONS[name]
    assert row.apis, "neither API has it"
    assert bool(row.api_enum) == bool(row.runtimes)
    assert (row.tpu_quota != "TPUs") == bool(row.api_enum)
    assert bool(row.series) == (name not in NO_MACHINE_TYPE)
    assert row.quota[1] in ("", row.series.partition("-")[0].upper())
    assert bool(row.machines) == bool(row.image_family)
    assert bool(row.pci) == (name not in NO_PCI)
    assert row.hbm_gib
    assert sum(not one.topology for one in row.machines) == (1 if row.machines else 0)
    kinds = [kind for kind in ACCELERATOR_TYPES.values() if kind.generation == name]
    assert kinds
    assert all(bool(default_runtime(kind.name)) == bool(row.api_enum) for kind in kinds)
    assert set(row.one_vm) <= {kind.name for kind in kinds if kind.workers == 1}


def test_the_fleet_file_has_the_same() -> None:
    for keys in (ALLOCATION, PRICE):
        assert keys["generation"].choices == tuple(GENERATIONS)


@pytest.mark.parametrize("name", GENERATIONS)
def test_it_has_a_price(name: str) -> None:
    text = (ROOT / "plugins/module_utils/_fleet_file/prices.py").read_text()
    assert bool(re.search(rf"^{name} ", text, re.MULTILINE)) == (name not in NO_PRICE)


@pytest.mark.parametrize("name", GENERATIONS)
def test_the_local_cloud_has_zones_of_it(name: str) -> None:
    for api, zones in ((TPU, catalog.ZONES), (COMPUTE, catalog.COMPUTE_ZONES)):
        there = any(name in offered for offered in zones.values())
        assert there == (api in GENERATIONS[name].apis), f"{api}: model/shared/catalog.py"
