"""A generation of TPUs is one row of a table; these are the other places that have to know it.

When a row is added, what fails here is what is left to do.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import GENERATIONS as IN_KEYS
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.accelerators import (
    ACCELERATOR_TYPES,
    GENERATIONS,
    default_runtime,
)

ROOT = Path(__file__).resolve().parents[2]
CLOUD = ROOT / "local_cloud" / "src" / "tpu_local_cloud"
TPU, COMPUTE = "tpu", "compute"
# What Google has not published.
NO_PRICE = {"tpu7x"}
NO_PCI = {"v2"}
NO_MACHINE_TYPE = {"v2"}
# Of the local cloud: the file, what it says of a generation, and of those of which API.
IN_THE_CLOUD = (
    ("model/shared/catalog.py", "the zones that have it", (TPU, COMPUTE)),
    ("model/compute/quota.py", "its quotas on Compute Engine", (COMPUTE,)),
    ("errors.py", "its quota in errors of the Cloud TPU API", (TPU,)),
    ("serve/metadata.py", "the machine type that its metadata names", (TPU,)),
)


@pytest.mark.parametrize("name", GENERATIONS)
def test_a_row_is_complete(name: str) -> None:
    row = GENERATIONS[name]
    assert row.apis, "neither API has it"
    assert bool(row.api_enum) == bool(row.runtimes)
    assert bool(row.machines) == bool(row.image_family)
    assert bool(row.pci) == (name not in NO_PCI)
    assert sum(not one.topology for one in row.machines) == (1 if row.machines else 0)
    kinds = [kind for kind in ACCELERATOR_TYPES.values() if kind.generation == name]
    assert kinds
    assert all(bool(default_runtime(kind.name)) == bool(row.api_enum) for kind in kinds)
    assert set(row.one_vm) <= {kind.name for kind in kinds if kind.workers == 1}


def test_the_fleet_file_has_the_same() -> None:
    assert tuple(GENERATIONS) == IN_KEYS


@pytest.mark.parametrize("name", GENERATIONS)
def test_it_has_a_price(name: str) -> None:
    text = (ROOT / "plugins/module_utils/_fleet_file/prices.py").read_text()
    assert bool(re.search(rf"^{name} ", text, re.MULTILINE)) == (name not in NO_PRICE)


@pytest.mark.parametrize("name", GENERATIONS)
@pytest.mark.parametrize(("file", "what", "apis"), IN_THE_CLOUD)
def test_the_local_cloud_has_it(name: str, file: str, what: str, apis: tuple[str, ...]) -> None:
    has_none = file == "serve/metadata.py" and name in NO_MACHINE_TYPE
    if not has_none and GENERATIONS[name].apis & set(apis):
        assert f'"{name}"' in (CLOUD / file).read_text(), f"{file} lacks {what}"
