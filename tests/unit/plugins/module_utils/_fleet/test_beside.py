from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.beside import (
    addresses_of,
    disks_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import COMPUTE, Endpoint, Node

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
