"""Which nodes get a disk, and which lose it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.disk_plan import (
    DiskSpec,
    may_hold_data,
    plan_absent,
    plan_present,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node

ZONE = "us-central2-b"
OURS = {"tpu-fleet": "managed", "tpu-fleet-spec": "made-empty"}
DISK = {"name": "d", "sizeGb": "20", "type": "x/diskTypes/pd-ssd", "labels": OURS}


def spec(**more: Any) -> DiskSpec:
    return DiskSpec(**{"name": "d", "zone": ZONE, "project": "p", **more})


def node(
    name: str, mode: str | None = None, workers: int = 1, ids: tuple[str, ...] = (), **more: Any
) -> Node:
    which = {"workerIds": list(ids)} if ids else {}
    source = f"projects/123/zones/{ZONE}/disks/d"
    disks = [{"sourceDisk": source, "mode": mode, **which}] if mode else []
    raw = {
        "name": f"projects/p/locations/{ZONE}/nodes/{name}",
        "state": "READY",
        "labels": {"tpu-fleet": "managed"},
        "dataDisks": [*disks, {"sourceDisk": f"projects/123/zones/{ZONE}/disks/other"}],
        "networkEndpoints": [{"ipAddress": f"10.0.0.{index}"} for index in range(workers)],
    }
    return Node.from_api({**raw, **more})


@pytest.mark.parametrize(
    ("disk", "holds"),
    [
        (DISK, False),
        ({**DISK, "labels": {"tpu-fleet": "managed"}}, True),
        ({**DISK, "labels": {}}, True),
        ({**DISK, "lastAttachTimestamp": "2026-01-01T00:00:00Z"}, True),
        ({**DISK, "sourceSnapshot": "x/snapshots/s"}, True),
        ({**DISK, "sourceImage": "x/images/i"}, True),
    ],
)
def test_what_may_hold_data(disk: dict[str, Any], holds: bool) -> None:
    assert may_hold_data(disk) is holds
    if holds:
        with pytest.raises(_errors.Refused):
            plan_absent(spec(), disk, [])
        assert plan_absent(spec(delete_data=True, adopt=True), disk, []).steps
    else:
        assert [step.kind for step in plan_absent(spec(), disk, []).steps] == ["delete"]


@pytest.mark.parametrize(
    ("wanted", "nodes", "steps"),
    [
        ({"nodes": ("a",)}, [node("a")], ["attach a"]),
        ({"nodes": ("a",)}, [node("a", "READ_WRITE")], []),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a", "READ_WRITE")],
         ["detach a", "attach a"]),
        ({"nodes": ("a",), "exclusive": True}, [node("a"), node("b", "READ_WRITE")],
         ["detach b", "attach a"]),
        ({"nodes": (), "exclusive": True}, [node("a", "READ_ONLY"), node("b", "READ_ONLY")],
         ["detach a", "detach b"]),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a"), node("b", "READ_ONLY")], ["attach a"]),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a", workers=4)], ["attach a"]),
        ({"nodes": ()}, [node("a", "READ_ONLY")], []),
        # One worker may write; where it is known that another has the disk, it moves.
        ({"nodes": ("a",), "workers": ("1",)}, [node("a", workers=2)], ["attach a"]),
        ({"nodes": ("a",), "workers": ("1",)}, [node("a", "READ_WRITE", 2)], []),
        ({"nodes": ("a",), "workers": ("1",)}, [node("a", "READ_WRITE", 2, ("1",))], []),
        ({"nodes": ("a",), "workers": ("1",)}, [node("a", "READ_WRITE", 2, ("0",))],
         ["detach a", "attach a"]),
        # What is lost gives the disk back by itself.
        ({"nodes": (), "exclusive": True}, [node("a", "READ_ONLY", state="PREEMPTED")], []),
        ({}, [node("a", "READ_ONLY")], []),
    ],
)  # fmt: skip
def test_who_gets_and_who_loses_a_disk(
    wanted: dict[str, Any], nodes: list[Node], steps: list[str]
) -> None:
    plan = plan_present(spec(**wanted), DISK, nodes)
    assert [f"{step.kind} {change.node.name}" for step, change in plan.patches] == steps
    for _step, change in plan.patches:
        # What else the node has stays.
        assert any(item["sourceDisk"].endswith("/other") for item in change.disks)


@pytest.mark.parametrize(
    ("wanted", "nodes", "words"),
    [
        ({"nodes": ("a",)}, [node("a"), node("b", "READ_WRITE")], "is attached to b"),
        ({"nodes": ("a",)}, [node("a"), node("b", "READ_ONLY")], "is attached to b"),
        ({"nodes": ("a",), "mode": "READ_ONLY"}, [node("a"), node("b", "READ_WRITE")], "to b"),
        ({"nodes": ("a",)}, [node("a", workers=2)], "has 2 workers"),
        ({"nodes": ("a",)}, [node("a", state="PREEMPTED")], "never run again"),
        ({"nodes": ("a",)}, [node("a", labels={})], "was not made by this collection"),
        ({"nodes": (), "exclusive": True}, [node("a", "READ_ONLY", labels={})], "was not made by"),
        ({"nodes": ("a",)}, [], "There is no node a"),
        ({"owner": "alice", "size_gb": 20}, [], "belongs to 'managed'"),
        ({"nodes": ("a",), "workers": ("0", "1")}, [node("a", workers=2)], "has 2 workers"),
    ],
)
def test_who_must_not_get_or_lose_a_disk(
    wanted: dict[str, Any], nodes: list[Node], words: str
) -> None:
    with pytest.raises(_errors.TpuError, match=words):
        plan_present(spec(**wanted), DISK, nodes)


def test_a_disk_of_others_is_attached_as_it_is() -> None:
    theirs = {**DISK, "labels": {}}
    plan = plan_present(spec(nodes=("a",)), theirs, [node("a")])
    assert (plan.steps, len(plan.patches)) == ([], 1)
    assert plan.after["labels"] == {}
    for said in ({"labels": {"a": "b"}}, {"size_gb": 30}, {"type": "pd-ssd"}):
        with pytest.raises(_errors.Refused, match="was not made by"):
            plan_present(spec(**said), theirs, [])


def test_the_workers_that_get_a_disk_are_named() -> None:
    plan = plan_present(spec(nodes=("a",), workers=("1",)), DISK, [node("a", workers=2)])
    ((_step, change),) = plan.patches
    assert change.disks[-1]["workerIds"] == ["1"]
