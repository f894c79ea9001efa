"""The owner's hand in the cloud, under /_cloud/."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from emulator import Emulator


@pytest.fixture
def node(cloud: Emulator) -> str:
    cloud.populate(2, acceleratorType="v4-16")
    return f"nodes/{cloud.project}/{cloud.zone}/node-0"


def seen(cloud: Emulator, name: str = "node-0") -> dict[str, Any]:
    nodes = cloud.control("state", method="GET")["nodes"]
    found: dict[str, Any] = next(item for item in nodes if item["node"] == name)
    return found


def test_maintenance_with_an_address_of_our_choice(cloud: Emulator, node: str) -> None:
    taken = seen(cloud, "node-1")["workers"][0]["external_ip"]
    url = f"{cloud.url}v2/projects/{cloud.project}/locations/{cloud.zone}/nodes/node-1"
    requests.delete(url, timeout=30).raise_for_status()
    before = seen(cloud)["workers"]
    cloud.control(f"{node}:maintain", {"worker_ids": [1], "new_external_ip": taken})
    after = seen(cloud)["workers"]
    assert after[0] == before[0]
    assert after[1] == {**before[1], "external_ip": taken}


def test_maintenance_that_keeps_the_address(cloud: Emulator, node: str) -> None:
    before = seen(cloud)
    cloud.control(f"{node}:maintain", {"new_external_ip": False})
    assert seen(cloud) == before


def test_preempt_reboot_and_set(cloud: Emulator, node: str) -> None:
    cloud.control(f"{node}:reboot", {"worker": 1})
    assert seen(cloud)["state"] == "READY"
    cloud.control(f"{node}:set", {"health": "TIMEOUT"})
    assert (seen(cloud)["state"], seen(cloud)["health"]) == ("READY", "TIMEOUT")
    cloud.control(f"{node}:preempt")
    assert seen(cloud)["state"] == "PREEMPTED"
    assert {worker["power"] for worker in seen(cloud)["workers"]} == {"gone"}
    assert seen(cloud, "node-1")["state"] == "READY"


def test_faults_are_listed_and_switched_off(cloud: Emulator) -> None:
    cloud.fault("busy", match={"node": "x"})
    cloud.fault("quota", count=3)
    listed = cloud.control("faults", method="GET")["faults"]
    assert [item["kind"] for item in listed] == ["busy", "quota"]
    left = cloud.control(f"faults/{listed[0]['id']}", method="DELETE")["faults"]
    assert [item["kind"] for item in left] == ["quota"]
    assert cloud.control("faults", method="DELETE")["faults"] == []


def test_reset_leaves_nothing(cloud: Emulator, node: str) -> None:
    cloud.fault("busy")
    cloud.control("reset")
    state = cloud.control("state", method="GET")
    assert (state["nodes"], state["faults"], state["pending"]) == ([], [], [])


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        ("faults", {"kind": "frob"}, "no fault is called 'frob'"),
        ("clock", {"mode": "backwards"}, "mode 'backwards' is none of"),
        ("clock", {"advance": -1}, "time does not run backwards"),
        ("nodes/local-project/us-central2-b/node-0:explode", {}, "no verb is called 'explode'"),
        ("nodes/local-project/us-central2-b/node-0:set", {"name": "x"}, "'name' cannot be set"),
        ("nodes/local-project/us-central2-b/node-0:reboot", {"worker": 9}, "worker 9 is not one"),
    ],
)
def test_mistakes_are_told(
    cloud: Emulator, node: str, path: str, body: dict[str, Any], text: str
) -> None:
    answer = requests.post(f"{cloud.url}_cloud/{path}", json=body, timeout=30)
    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]
