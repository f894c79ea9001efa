"""Which hosts a run over several slices has."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.gangs import gangs

RUN = {"name": "big", "slices": ["b", "a"], "multislice": True}
HERE = ["10.0.0.1", "10.0.0.2"]


def peer(slice_name: str, worker: int, address: str = "") -> dict[str, Any]:
    address = address or f"10.1.0.{worker + 1}"
    return {"slice": slice_name, "worker": worker, "address": address, "zone": "z"}


@pytest.mark.parametrize(
    ("runs", "peers", "expected"),
    [
        ([RUN], [peer("b", 1), peer("b", 0)], {"big": [["10.1.0.1", "10.1.0.2"], HERE]}),
        # What the inventory says of its own slice may be older than what it knows.
        ([RUN], [peer("b", 0), peer("a", 0), peer("a", 1)], {"big": [["10.1.0.1"], HERE]}),
        ([RUN], [], {"big": []}),
        ([RUN], [peer("b", 1)], {"big": []}),
        ([RUN], [peer("b", 0), {**peer("b", 1), "address": ""}, peer("b", 2)], {"big": []}),
        ([{**RUN, "multislice": False}, {"name": "x", "slices": ["a"]}], [], {}),
    ],
)
def test_hosts(runs: list[dict[str, Any]], peers: list[Any], expected: dict[str, Any]) -> None:
    assert gangs(runs, "a", HERE, peers) == expected
