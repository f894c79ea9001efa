# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The known accelerator types and their runtime versions. No I/O.

Sources: Google's pages on TPU versions and runtimes. The number in a name counts TensorCores for
v2, v3, v4, v5p and TPU7x (two to a chip), chips for v5e and v6e. The tables are open: a type or
version that they do not list may still be valid.

TPU7x exists on Compute Engine alone. The Cloud TPU API has neither an enum nor a runtime version
for it, therefore only the tables of sizes have it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class AcceleratorType:
    """One size of one generation."""

    name: str
    generation: str
    chips: int
    workers: int
    topology: str


@dataclass(frozen=True)
class MachineShape:
    """One machine type of Compute Engine."""

    name: str
    chips: int
    vcpus: int
    memory_gib: int
    # What the request has to say; 0 if it need not say it.
    threads_per_core: int = 0
    # Of a type that forms no slice of several VMs, the one topology that it has.
    topology: str = ""


@dataclass(frozen=True)
class Generation:
    """All facts of one generation. Prices alone are elsewhere, for they change."""

    # How its accelerator types spell it, and how many of the number in their names make a chip.
    prefix: str
    units_per_chip: int
    # "number in the name: topology". One VM holds four chips, unless it is in `one_vm`.
    sizes: str
    one_vm: tuple[str, ...] = ()
    # Larger slices are boxes of cubes of 4x4x4 chips; this is the largest number of cubes.
    most_cubes: int = 0
    # Its name in the Cloud TPU API; empty if that does not have it.
    api_enum: str = ""
    # The first is the default.
    runtimes: tuple[str, ...] = ()
    # Its quota in the Cloud TPU API, without the words for spot and zone.
    tpu_quota: str = "TPUs"
    # The machine series of its TPU VMs where Compute Engine has none that a user may create.
    tpu_vm_series: str = ""
    # On Compute Engine; the one without a topology forms slices of several VMs.
    machines: tuple[MachineShape, ...] = ()
    image_family: str = ""
    disk_type: str = "hyperdisk-balanced"
    # The metric of its standard quota there, and its family where the metric counts several.
    quota: tuple[str, str] = ("tpus_per_tpu_family", "")
    # The device id of its chips on the PCI bus; empty if it is not known.
    pci: str = ""
    # Memory of a chip, and as how many devices of its own memory the runtime shows it.
    hbm_gib: int = 0
    devices_per_chip: int = 1
    # Whether start-up takes twice as long without transparent huge pages.
    huge_pages: bool = True

    @property
    def series(self) -> str:
        """Return its machine series, as `ct6e-standard`; empty if it is not known."""
        return self.machines[0].name.rpartition("-")[0] if self.machines else self.tpu_vm_series

    @property
    def apis(self) -> frozenset[str]:
        """Return where it can be created: `tpu`, `compute`."""
        there = {"tpu": self.api_enum, "compute": self.machines}
        return frozenset(api for api, has in there.items() if has)


_BEFORE_7X = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
_SIZES_OF_V5E = "1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16 256:16x16"

# A new generation is a row here; tests/unit/test_generations.py names what else has to know it.
# The v4 base image also boots newer hardware, but lacks its drivers.
GENERATIONS: dict[str, Generation] = {
    "v2": Generation(
        prefix="v2",
        units_per_chip=2,
        sizes="8:2x2 32:4x4 128:8x8 256:8x16 512:16x16",
        api_enum="V2",
        tpu_quota="TPUV2s",
        runtimes=("tpu-ubuntu2204-base", "tpu-vm-base", "v2-alpha"),
        huge_pages=False,
        hbm_gib=16,
        devices_per_chip=2,
    ),
    "v3": Generation(
        prefix="v3",
        units_per_chip=2,
        sizes="8:2x2 32:4x4 64:4x8 128:8x8 256:8x16 512:16x16 1024:16x32 2048:32x32",
        api_enum="V3",
        tpu_quota="TPUV3s",
        tpu_vm_series="ct3-hightpu",
        runtimes=("tpu-ubuntu2204-base", "tpu-vm-base", "v2-alpha", "v2-alpha-pod"),
        pci="0x0027",
        huge_pages=False,
        hbm_gib=32,
        devices_per_chip=2,
    ),
    "v4": Generation(
        prefix="v4",
        units_per_chip=2,
        sizes="8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4",
        most_cubes=32,
        api_enum="V4",
        tpu_quota="TPUV4s",
        tpu_vm_series="ct4p-hightpu",
        runtimes=(
            "tpu-ubuntu2204-base",
            "tpu-vm-v4-base",
            "v2-alpha-tpuv4",
            "tpu-vm-v4-pt-2.0",
        ),
        pci="0x005e",
        huge_pages=False,
        hbm_gib=32,
    ),
    # Its machine types are listed on Compute Engine, and refused except for GKE.
    "v5e": Generation(
        prefix="v5litepod",
        units_per_chip=1,
        sizes=_SIZES_OF_V5E,
        one_vm=("v5litepod-8",),
        api_enum="V5LITE_POD",
        tpu_quota="TPUV5s",
        tpu_vm_series="ct5lp-hightpu",
        runtimes=("v2-alpha-tpuv5-lite", "tpu-ubuntu2204-base"),
        pci="0x0063",
        hbm_gib=16,
    ),
    "v5p": Generation(
        prefix="v5p",
        units_per_chip=2,
        sizes="8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4",
        most_cubes=96,
        api_enum="V5P",
        tpu_quota="TPUV5P",
        runtimes=("v2-alpha-tpuv5", "tpu-ubuntu2204-base"),
        machines=(MachineShape("ct5p-hightpu-4t", 4, 208, 448),),
        image_family=_BEFORE_7X,
        disk_type="pd-balanced",
        quota=("tpu_v5p", ""),
        pci="0x0062",
        hbm_gib=95,
    ),
    "v6e": Generation(
        prefix="v6e",
        units_per_chip=1,
        sizes=_SIZES_OF_V5E,
        one_vm=("v6e-8",),
        api_enum="V6E",
        tpu_quota="TPUV6E",
        runtimes=("v2-alpha-tpuv6e",),
        machines=(
            MachineShape("ct6e-standard-1t", 1, 44, 176, topology="1x1"),
            MachineShape("ct6e-standard-4t", 4, 180, 720),
            MachineShape("ct6e-standard-8t", 8, 360, 1440, threads_per_core=1, topology="2x4"),
        ),
        image_family=_BEFORE_7X,
        quota=("tpus_per_tpu_family", "CT6E"),
        pci="0x006f",
        hbm_gib=32,
    ),
    # https://docs.cloud.google.com/tpu/docs/tpu7x
    "tpu7x": Generation(
        prefix="v7x",
        units_per_chip=2,
        sizes="8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4 128:4x4x4 256:4x4x8 512:4x8x8 1024:8x8x8 "
        "2048:8x8x16 4096:8x16x16",
        machines=(MachineShape("tpu7x-standard-4t", 4, 224, 960),),
        image_family="ubuntu-accel-2404-amd64-tpu-tpu7x",
        quota=("tpus_per_tpu_family", "TPU7X"),
        pci="0x0076",
        hbm_gib=192,
        devices_per_chip=2,
    ),
}

API_ENUM = {name: row.api_enum for name, row in GENERATIONS.items() if row.api_enum}
PREFIXES = {name: row.prefix for name, row in GENERATIONS.items()}
CORES_PER_CHIP = {name: row.units_per_chip for name, row in GENERATIONS.items()}
RUNTIMES_BY_GENERATION = {name: row.runtimes for name, row in GENERATIONS.items() if row.runtimes}

_CUBE_SIDE, _CUBE = 4, 64
CHIPS_PER_VM = 4


def _boxes(cubes: int) -> list[str]:
    """Return the topologies of this many cubes, AxBxC with A <= B <= C, the most compact first."""
    found = [
        (a, b, cubes // a // b)
        for a in range(1, int(cubes ** (1 / 3) + 0.01) + 1)
        for b in range(a, int((cubes / a) ** 0.5 + 0.01) + 1)
        if cubes % (a * b) == 0
    ]
    return ["x".join(str(side * _CUBE_SIDE) for side in box) for box in sorted(found, key=sum)]


def _table() -> dict[str, AcceleratorType]:
    table = {}
    for generation, row in GENERATIONS.items():
        boxes = [
            f"{cubes * _CUBE * row.units_per_chip}:{_boxes(cubes)[0]}"
            for cubes in range(1, row.most_cubes + 1)
        ]
        for entry in [*row.sizes.split(), *boxes]:
            number, topology = entry.split(":")
            name = f"{row.prefix}-{number}"
            chips = int(number) // row.units_per_chip
            workers = 1 if name in row.one_vm else max(1, chips // CHIPS_PER_VM)
            table[name] = AcceleratorType(name, generation, chips, workers, topology)
    return table


ACCELERATOR_TYPES: dict[str, AcceleratorType] = _table()


def parse(name: str) -> AcceleratorType | None:
    """Return an accelerator type by its name; None if it is unknown, though it may exist."""
    return ACCELERATOR_TYPES.get(name)


def meant_types(name: str) -> list[str]:
    """Return the types that a wrong name can mean: the nearest size of its generation, or all."""
    prefix, _dash, number = name.rpartition("-")
    sizes = [one for one in ACCELERATOR_TYPES if one.rpartition("-")[0] == prefix]
    if not sizes or not re.fullmatch("[0-9]{1,9}", number):
        return list(ACCELERATOR_TYPES)
    return [min(sizes, key=lambda one: abs(int(one.rpartition("-")[2]) - int(number)))]


def topologies(kind: AcceleratorType) -> list[str]:
    """Return the topologies that a type can have, its own first."""
    if GENERATIONS[kind.generation].most_cubes and kind.chips >= _CUBE:
        return _boxes(kind.chips // _CUBE)
    return [kind.topology]


def default_runtime(accelerator_type: str) -> str:
    """Return the runtime that Google names for the type's generation; empty if it has none."""
    known = parse(accelerator_type)
    versions = RUNTIMES_BY_GENERATION.get(known.generation) if known else None
    return versions[0] if versions else ""


def runtime_fits(accelerator_type: str, runtime_version: str) -> bool:
    """Return whether a runtime version can drive a type; an unknown pair is accepted.

    The API accepts a wrong pair; the program then fails: "Failed to get global TPU topology".
    """
    known = parse(accelerator_type)
    if known is None:
        return True
    if runtime_version in RUNTIMES_BY_GENERATION.get(known.generation, ()):
        return True
    return not any(runtime_version in versions for versions in RUNTIMES_BY_GENERATION.values())
