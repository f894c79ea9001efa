"""Fifty slices at once cost no more looks than one: requests are counted, not seconds."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from simulation.lives import controller
from simulation.world import Process, World

COUNT = 50


def requests_of(params: dict[str, Any]) -> tuple[Counter[str], int]:
    """Return the requests of one apply by method, and how often it paused."""
    world = World()
    process = Process(world)
    result = controller(process, params, 3600.0).apply()
    world.close()
    assert result.missing == ()
    return Counter(call.method for call in process.calls), process.sleeps


@pytest.mark.parametrize("queued", [False, True], ids=["direct", "queued"])
def test_one_list_a_look_and_no_get_a_slice(queued: bool) -> None:
    entry = {"accelerator_type": "v5litepod-8", "zones": ["us-central1-a"], "queued": queued}
    slices = [{**entry, "name": f"s{index}"} for index in range(COUNT)]
    calls, sleeps = requests_of({"slices": slices, "allocations": "unrestricted"})
    kind = "queuedResources" if queued else "nodes"
    assert calls[f"{kind}.create"] == COUNT
    # A look before the first pause, and one after each.
    assert calls["nodes.list"] <= sleeps + 1
    assert calls["queuedResources.list"] <= sleeps + 1
    assert calls["nodes.get"] == calls["queuedResources.get"] == 0
    assert calls["operations.get"] + calls["operations.list"] <= sleeps + 2
    assert sum(calls.values()) < COUNT + 5 * (sleeps + 2)
