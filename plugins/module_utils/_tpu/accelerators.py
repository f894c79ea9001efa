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

from dataclasses import dataclass


@dataclass(frozen=True)
class AcceleratorType:
    """One size of one generation."""

    name: str
    generation: str
    chips: int
    workers: int
    topology: str


API_ENUM = {
    "v2": "V2",
    "v3": "V3",
    "v4": "V4",
    "v5e": "V5LITE_POD",
    "v5p": "V5P",
    "v6e": "V6E",
}

# A generation's spelling in the name of a type, and how many of the name's units make a chip.
PREFIXES = {
    "v2": "v2",
    "v3": "v3",
    "v4": "v4",
    "v5e": "v5litepod",
    "v5p": "v5p",
    "v6e": "v6e",
    "tpu7x": "v7x",
}
CORES_PER_CHIP = {"v2": 2, "v3": 2, "v4": 2, "v5e": 1, "v5p": 2, "v6e": 1, "tpu7x": 2}

# "number in the name: topology". One VM holds four chips, unless stated otherwise below.
_SIZES = {
    "v2": "8:2x2 32:4x4 128:8x8 256:8x16 512:16x16",
    "v3": "8:2x2 32:4x4 64:4x8 128:8x8 256:8x16 512:16x16 1024:16x32 2048:32x32",
    "v4": "8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4",
    "v5e": "1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16 256:16x16",
    "v5p": "8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4",
    "v6e": "1:1x1 4:2x2 8:2x4 16:4x4 32:4x8 64:8x8 128:8x16 256:16x16",
    # https://docs.cloud.google.com/tpu/docs/tpu7x
    "tpu7x": "8:2x2x1 16:2x2x2 32:2x2x4 64:2x4x4 128:4x4x4 256:4x4x8 512:4x8x8 1024:8x8x8 "
    "2048:8x8x16 4096:8x16x16",
}
# Larger v4 and v5p slices are boxes of cubes of 4x4x4 chips; this is the largest number of cubes.
_CUBES = {"v4": 32, "v5p": 96}
_CUBE_SIDE, _CUBE = 4, 64
CHIPS_PER_VM = 4
# Eight chips of v5e and v6e also fit into one VM, which is of a special kind.
_ONE_VM = {"v5litepod-8", "v6e-8"}


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
    for generation, sizes in _SIZES.items():
        boxes = [
            f"{cubes * _CUBE * CORES_PER_CHIP[generation]}:{_boxes(cubes)[0]}"
            for cubes in range(1, _CUBES.get(generation, 0) + 1)
        ]
        for entry in [*sizes.split(), *boxes]:
            number, topology = entry.split(":")
            name = f"{PREFIXES[generation]}-{number}"
            chips = int(number) // CORES_PER_CHIP[generation]
            workers = 1 if name in _ONE_VM else max(1, chips // CHIPS_PER_VM)
            table[name] = AcceleratorType(name, generation, chips, workers, topology)
    return table


ACCELERATOR_TYPES: dict[str, AcceleratorType] = _table()

# The first is the default. The v4 base image also boots newer hardware, but lacks its drivers.
RUNTIMES_BY_GENERATION: dict[str, tuple[str, ...]] = {
    "v2": ("tpu-ubuntu2204-base", "tpu-vm-base", "v2-alpha"),
    "v3": ("tpu-ubuntu2204-base", "tpu-vm-base", "v2-alpha", "v2-alpha-pod"),
    "v4": ("tpu-ubuntu2204-base", "tpu-vm-v4-base", "v2-alpha-tpuv4", "tpu-vm-v4-pt-2.0"),
    "v5e": ("v2-alpha-tpuv5-lite", "tpu-ubuntu2204-base"),
    "v5p": ("v2-alpha-tpuv5", "tpu-ubuntu2204-base"),
    "v6e": ("v2-alpha-tpuv6e",),
}


def parse(name: str) -> AcceleratorType | None:
    """Return an accelerator type by its name; None if it is unknown, though it may exist."""
    return ACCELERATOR_TYPES.get(name)


def topologies(kind: AcceleratorType) -> list[str]:
    """Return the topologies that a type can have, its own first."""
    if kind.generation in _CUBES and kind.chips >= _CUBE:
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
