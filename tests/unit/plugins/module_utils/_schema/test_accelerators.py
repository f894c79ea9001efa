# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""TPU7x among the accelerator types: known by its size, and without runtime versions."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._schema.accelerators import (
    default_runtime,
    meant_types,
    parse,
    runtime_fits,
    topologies,
)


@pytest.mark.parametrize(
    ("name", "chips", "workers", "topology"),
    [
        ("v7x-8", 4, 1, "2x2x1"),
        ("v7x-16", 8, 2, "2x2x2"),
        ("v7x-32", 16, 4, "2x2x4"),
        ("v7x-64", 32, 8, "2x4x4"),
        ("v7x-128", 64, 16, "4x4x4"),
        ("v7x-1024", 512, 128, "8x8x8"),
        ("v7x-4096", 2048, 512, "8x16x16"),
    ],
)
def test_tpu7x_counts_tensor_cores(name: str, chips: int, workers: int, topology: str) -> None:
    kind = parse(name)
    assert kind is not None
    assert kind.generation == "tpu7x"
    assert (kind.chips, kind.workers, kind.topology) == (chips, workers, topology)
    assert topologies(kind) == [topology]


def test_tpu7x_has_no_runtime_version() -> None:
    assert default_runtime("v7x-8") == ""
    assert not runtime_fits("v7x-8", "v2-alpha-tpuv6e")
    assert runtime_fits("v7x-8", "a-runtime-that-nobody-knows")
    assert default_runtime("v6e-8") == "v2-alpha-tpuv6e"


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("v4-17", "v4-16"), ("v4-1", "v4-8"), ("v5litepod-5", "v5litepod-4"), ("v6e-300", "v6e-256")],
)
def test_a_wrong_size_means_the_nearest_of_its_generation(wrong: str, meant: str) -> None:
    assert meant_types(wrong) == [meant]


@pytest.mark.parametrize("wrong", ["v4_8", "v4-", "v4-x", "v4", "", "v4-²"])
def test_another_mistake_can_mean_any_type(wrong: str) -> None:
    assert "v4-8" in meant_types(wrong)
    assert len(meant_types(wrong)) > 100
