"""The owner's hand in the cloud, under /_cloud/."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
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
        ("delays", {"creation": 2}, "there is no delay 'creation'; there are: all, create, delete"),
        ("delays", {"create": -2}, "the delay create cannot be -2 seconds"),
        ("clock", {"speed": 0}, "speed 0 is not between"),
        ("clock", {"sped": 2}, "a clock has no 'sped'; it has mode, speed, advance"),
        (
            "nodes/local-project/us-central2-b/node-0:schedule-maintenance",
            {"in": 1, "wnidow": 2},
            "a maintenance has no 'wnidow'; it has in, window",
        ),
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


def list_nodes(cloud: Emulator) -> requests.Response:
    url = f"{cloud.url}v2/projects/{cloud.project}/locations/-/nodes"
    answer = requests.get(url, timeout=30)
    answer.raise_for_status()
    return answer


def date_of(answer: requests.Response) -> datetime:
    return parsedate_to_datetime(answer.headers["Date"])


def test_a_month_plays_in_seconds() -> None:
    begun = time.monotonic()
    with Emulator(clock="real", delays={"create": 86400.0}) as cloud:
        first = date_of(list_nodes(cloud))
        assert abs(first.timestamp() - time.time()) < 60
        cloud.control("clock", {"speed": 1e6})
        create(cloud)
        after = date_of(list_nodes(cloud))
        deadline = time.monotonic() + 20
        while list_nodes(cloud).json()["nodes"][0]["state"] != "READY":
            assert time.monotonic() < deadline
        while date_of(list_nodes(cloud)) - first < timedelta(days=30):
            assert time.monotonic() < deadline
        shown = list_nodes(cloud).json()["nodes"][0]["createTime"]
        assert first < datetime.fromisoformat(shown) <= after
        [made, done] = cloud.control("history", method="GET")["events"]
        assert (made["state"], done["state"]) == ("CREATING", "READY")
        # However rarely anybody looks, it became ready when its time had come.
        assert done["at"] - made["at"] == pytest.approx(86400)
    assert time.monotonic() - begun < 30


def create(cloud: Emulator, name: str = "n1") -> None:
    url = f"{cloud.url}v2/projects/{cloud.project}/locations/{cloud.zone}/nodes"
    body = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    answer = requests.post(url, params={"nodeId": name}, json=body, timeout=30)
    answer.raise_for_status()


@pytest.mark.parametrize(
    "path", ["v2/projects/local-project/locations/-/nodes", "x", "_cloud/state"]
)
def test_every_answer_tells_the_clouds_time(path: str) -> None:
    with Emulator(clock="manual") as cloud:
        cloud.control("clock", {"advance": 1e8})
        now = cloud.control("clock", method="GET")
        answer = requests.get(f"{cloud.url}{path}", timeout=30)
        assert int(date_of(answer).timestamp()) == int(now["now"])
        assert answer.headers["Date"].endswith(" GMT")
        assert len(answer.raw.headers.getlist("Date")) == 1
        assert datetime.fromisoformat(now["time"]).timestamp() == pytest.approx(now["now"])


def test_clock_and_faults_survive_a_restart(tmp_path: Path) -> None:
    with Emulator(state_dir=str(tmp_path), clock="real") as cloud:
        cloud.control("clock", {"mode": "manual", "advance": 1e6})
        cloud.fault("unavailable", count=3, after=1000)
        cloud.fault("busy", probability=0.5, seed=4, seconds=50)
        cloud.control("clock", {"advance": 1000})
        assert (
            requests.get(f"{cloud.url}v2/projects/p/locations/-/nodes", timeout=9).status_code
            == 503
        )
        before = cloud.control("state", method="GET")
        cloud.stop()
        cloud.start()
        after = cloud.control("state", method="GET")
        assert after["clock"] == before["clock"]
        assert after["faults"] == before["faults"]
        assert [(fault["kind"], fault["hits"]) for fault in after["faults"]] == [("unavailable", 1)]


def test_requests_are_counted_by_method(cloud: Emulator) -> None:
    create(cloud)
    for _ in range(3):
        list_nodes(cloud)
    node = f"v2/projects/{cloud.project}/locations/{cloud.zone}/nodes/n1"
    requests.post(f"{cloud.url}{node}:getGuestAttributes", json={}, timeout=30)
    counted = {"nodes.create": 1, "nodes.getGuestAttributes": 1, "nodes.list": 3}
    assert cloud.control("requests", method="GET") == counted
    assert cloud.control("requests", method="DELETE") == counted
    assert cloud.control("requests", method="GET") == {}


def test_the_history_can_be_read_on(cloud: Emulator) -> None:
    create(cloud)
    first = cloud.control("history", method="GET")
    assert [event["state"] for event in first["events"]] == ["CREATING", "READY"]
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/n1:terminate")
    rest = cloud.control(f"history/{first['next']}", method="GET")
    assert [(event["state"], event["by"]) for event in rest["events"]] == [
        ("TERMINATED", "service")
    ]


def test_how_long_things_take_is_said_while_it_runs(tmp_path: Path) -> None:
    with Emulator(clock="manual", state_dir=str(tmp_path)) as cloud:
        assert cloud.control("delays", method="GET")["create"] == 1
        cloud.control("delays", {"create": 100, "create:v4": "200", "create:v4-8": 300})
        create(cloud)
        cloud.stop()
        cloud.start()
        cloud.control("clock", {"advance": 299})
        assert seen(cloud, "n1")["state"] == "CREATING"
        cloud.control("clock", {"advance": 1})
        assert seen(cloud, "n1")["state"] == "READY"
        assert cloud.control("delays", method="GET")["create:v4"] == 200
        # Like the clock it outlives the deletion of everything.
        cloud.control("reset")
        cloud.stop()
        cloud.start()
        assert cloud.control("delays", method="GET")["create:v4"] == 200


def test_health_and_maintenance_by_hand(cloud: Emulator, node: str) -> None:
    cloud.control(f"{node}:unhealthy", {"health": "TIMEOUT", "description": "no answer"})
    assert seen(cloud)["health"] == "TIMEOUT"
    body = {"in": 3600, "window": 60, "type": "UNSCHEDULED", "can_reschedule": False}
    said = cloud.control(f"{node}:schedule-maintenance", body)["upcomingMaintenance"]
    assert (said["type"], said["canReschedule"]) == ("UNSCHEDULED", False)
    shown = list_nodes(cloud).json()["nodes"][0]["upcomingMaintenance"]
    # What is false is not shown, as everywhere.
    assert shown == {key: value for key, value in said.items() if key != "canReschedule"}
