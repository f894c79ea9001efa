from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.beside import (
    addresses_of,
    disks_of,
    of_calls,
    of_new_slice,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import COMPUTE, Endpoint, Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec

ZONE = "us-east5-a"


def node(name: str, api: str, *machines: Endpoint, tier: str = "on_demand") -> Node:
    raw: dict[str, Any] = {
        "name": f"projects/p/locations/{ZONE}/nodes/{name}",
        "labels": {"tpu-fleet": "managed"},
        "schedulingConfig": {"spot": tier == "spot"},
    }
    return replace(Node.from_api(raw), api=api, endpoints=machines)


def machine(number: int, external: str | None = "203.0.113.5") -> Endpoint:
    link = f"https://compute/projects/p/zones/{ZONE}/instances/pair-{number}"
    return Endpoint(internal_ip=f"10.0.0.{number}", external_ip=external, instance=link)


def disk(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "zone": f"z/{ZONE}", "type": "t/pd-ssd", "sizeGb": "100", **more}


def test_addresses_of_compute_engine_cost_and_those_that_are_not_there_do_not() -> None:
    pair = node("pair", COMPUTE, machine(0), machine(1), tier="spot")
    hidden = node("hidden", COMPUTE, machine(0, None))
    found = list(addresses_of([pair, hidden, node("tpu", "tpu", machine(0))]))
    assert [(one.name, one.amount, one.usd_per_month) for one in found] == [
        ("pair", 2, pytest.approx(3.65))
    ]


def test_disks_with_the_label_and_those_of_the_machines() -> None:
    pair = node("pair", COMPUTE, machine(0), machine(1))
    disks = [
        disk("data", labels={"tpu-fleet": "managed"}),
        disk("boot", users=[f"x/zones/{ZONE}/instances/pair-1"]),
        disk("theirs", labels={"tpu-fleet": "other"}, users=["x/instances/else"]),
        disk("plain"),
        disk("odd", labels={"tpu-fleet": "managed"}, type="t/tape"),
    ]
    found = list(disks_of(disks, [pair], "managed"))
    assert [(one.name, one.place, one.usd_per_month) for one in found] == [
        ("data", ZONE, pytest.approx(17.0)),
        ("boot", ZONE, pytest.approx(17.0)),
        ("odd", ZONE, None),
    ]


def test_nodes_without_machines_have_no_disks() -> None:
    assert list(disks_of([disk("plain", users=[""])], [node("tpu", "tpu")], "managed")) == []


# -- what a plan creates ---------------------------------------------------------------------------


def spec(**more: Any) -> NodeSpec:
    return NodeSpec(name="pair", zone=ZONE, project="p", machine_type="ct6e-standard-4t", **more)


def test_a_new_slice_has_boot_disks_and_addresses() -> None:
    boot, addresses = of_new_slice(spec(), 2, "spot")
    assert (boot.what, boot.kind, boot.amount) == ("boot disks", "hyperdisk-balanced", 200)
    assert boot.usd_per_month == pytest.approx(16.0)
    assert (addresses.amount, addresses.usd_per_month) == (2, pytest.approx(3.65))
    (boot,) = of_new_slice(spec(external_ips=False, boot_disk_size_gb=50), 1, "on_demand")
    assert (boot.amount, boot.usd_per_month) == (50, pytest.approx(4.0))


def result(*actions: str, **more: Any) -> dict[str, Any]:
    return {"actions": [{"action": one, "reason": "r"} for one in actions], **more}


def disk_result(size: int, *actions: str, **more: Any) -> dict[str, Any]:
    disk = {"name": "data", "size_gb": size, "type": "pd-balanced"}
    return result(*actions, disk=disk, **more)


def test_new_disks_and_buckets_are_told_by_what_their_modules_would_do() -> None:
    bucket = {"name": "lab", "location": "US-EAST5", "storage_class": "STANDARD"}
    grown = {"before": {"size_gb": 100}, "after": {"size_gb": 300}}
    place = {"zone": ZONE}
    calls = [("disk", place), ("disk", place), ("disk", place), ("bucket", {}), ("bucket", {})]
    results = [
        disk_result(200, "create", "attach"),
        disk_result(300, "resize", diff=grown),
        disk_result(300, "label"),
        result("create", "grant", bucket=bucket),
        result("update", bucket=bucket),
    ]
    found = of_calls(calls, results)
    assert [(one["what"], one["amount"], one["usd_per_month"]) for one in found] == [
        ("disk", 200, pytest.approx(20.0)),
        ("disk", 200, pytest.approx(20.0)),
        ("bucket", 0, 0.0),
    ]
    assert (found[-1]["place"], found[-1]["usd_per_gb_month"]) == ("us-east5", 0.02)


def test_a_disk_that_is_deleted_or_refused_is_nothing_new() -> None:
    calls = [("disk", {"zone": ZONE}), ("disk", {"zone": ZONE})]
    assert of_calls(calls, [result("delete", disk={}), {"failed": True}]) == []
