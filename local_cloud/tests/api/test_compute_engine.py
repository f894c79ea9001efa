"""Compute Engine's instances and groups of instances over HTTP, on a cloud without machines.

Each answer is checked against Google's discovery document.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import requests
from compute_client import BOOT, LINK, ComputeClient
from emulator import Emulator, reservation_of_a_day
from google_clients import discovered_compute

ZONE, REGION = "us-central1-b", "us-central1"
POLICY = f"projects/local-project/regions/{REGION}/resourcePolicies/square"
TEMPLATE = f"regions/{REGION}/instanceTemplates/four"
FLEX = {
    "provisioningModel": "FLEX_START",
    "maxRunDuration": {"seconds": "3600"},
    "instanceTerminationAction": "DELETE",
    "automaticRestart": False,
    "onHostMaintenance": "TERMINATE",
}
SPOT = {
    "provisioningModel": "SPOT",
    "preemptible": True,
    "automaticRestart": False,
    "onHostMaintenance": "TERMINATE",
}


class Compute(ComputeClient):
    """A client with the requests of these tests."""

    def insert(self, name: str, zone: str = ZONE, **more: Any) -> Any:
        return self.post(f"zones/{zone}/instances", instance(name, zone, **more))

    def instance(self, name: str, zone: str = ZONE) -> Any:
        return self.get(f"zones/{zone}/instances/{name}")

    def status(self, name: str, zone: str = ZONE) -> str:
        answer = self.ask("GET", f"zones/{zone}/instances/{name}")
        return str(answer.json()["status"]) if answer.ok else "gone"

    def operation(self, name: str, zone: str = ZONE) -> Any:
        return self.get(f"zones/{zone}/operations/{name}")

    def group(self, name: str = "slice") -> Any:
        return self.get(f"zones/{ZONE}/instanceGroupManagers/{name}")

    def managed(self, name: str = "slice") -> Any:
        path = f"zones/{ZONE}/instanceGroupManagers/{name}/listManagedInstances"
        return self.post(path).get("managedInstances", [])

    def later(self, seconds: float) -> None:
        self.cloud.control("clock", {"advance": seconds})


def instance(
    name: str, zone: str = ZONE, kind: str = "ct6e-standard-4t", **more: Any
) -> dict[str, Any]:
    return {
        "name": name,
        "machineType": f"zones/{zone}/machineTypes/{kind}",
        "disks": [BOOT],
        "networkInterfaces": [
            {"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}
        ],
        "metadata": {"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]},
        "labels": {"owner": "lab"},
        "serviceAccounts": [{"email": "default", "scopes": ["https://x/y"]}],
        **more,
    }


def slice_of_four(size: int = 4, **more: Any) -> dict[str, Any]:
    return {
        "name": "slice",
        "instanceTemplate": TEMPLATE,
        "targetSize": size,
        "targetSizePolicy": {"mode": "BULK"},
        "resourcePolicies": {"workloadPolicy": POLICY},
        "instanceLifecyclePolicy": {"defaultActionOnFailure": "DO_NOTHING"},
        **more,
    }


def properties(**more: Any) -> dict[str, Any]:
    """Return what an instance has without its name, as a template has it."""
    own = {**instance(""), "machineType": "ct6e-standard-4t", **more}
    del own["name"]
    return own


def prepare_slice(compute: Compute, scheduling: dict[str, Any] | None = None) -> None:
    workload = {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4"}
    policies = f"regions/{REGION}/resourcePolicies"
    compute.post(policies, {"name": "square", "workloadPolicy": workload})
    more = {"scheduling": scheduling} if scheduling else {}
    templates = f"regions/{REGION}/instanceTemplates"
    compute.post(templates, {"name": "four", "properties": properties(**more)})


def make_slice(compute: Compute, scheduling: dict[str, Any] | None = None, **more: Any) -> Any:
    prepare_slice(compute, scheduling)
    return compute.post(f"zones/{ZONE}/instanceGroupManagers", slice_of_four(**more))


@pytest.fixture
def compute() -> Iterator[Compute]:
    with Emulator() as cloud:
        yield Compute(cloud)


@pytest.fixture
def slow() -> Iterator[Compute]:
    """A cloud whose time its owner advances."""
    delays = {"create": 60.0, "delete": 30.0, "stop": 20.0, "start": 30.0, "update": 5.0}
    delays |= {"queue_grant": 10.0, "queue_look": 60.0, "maintain": 100.0, "fail": 45.0}
    with Emulator(clock="manual", delays=delays) as cloud:
        yield Compute(cloud)


# One instance -------------------------------------------------------------------------------------


def test_an_instance_is_created_shown_and_deleted(slow: Compute) -> None:
    begun = slow.insert("one")
    assert (begun["operationType"], begun["status"], begun["progress"]) == ("insert", "RUNNING", 0)
    assert begun["targetLink"] == f"{LINK}/zones/{ZONE}/instances/one"
    assert slow.status("one") == "PROVISIONING"
    slow.later(40)
    assert slow.status("one") == "STAGING"
    slow.later(20)
    shown = slow.instance("one")
    assert shown["status"] == "RUNNING"
    assert begun["targetId"] == shown["id"]
    assert shown["guestAccelerators"] == [
        {"acceleratorType": f"{LINK}/zones/{ZONE}/acceleratorTypes/ct6e", "acceleratorCount": 4}
    ]
    card = shown["networkInterfaces"][0]
    assert card["networkIP"].startswith("10.")
    assert card["accessConfigs"][0]["natIP"].startswith("198.18.")
    assert shown["disks"][0]["diskSizeGb"] == "10"
    assert shown["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert slow.operation(begun["name"])["status"] == "DONE"
    ended = slow.delete(f"zones/{ZONE}/instances/one")
    assert slow.status("one") == "STOPPING"
    slow.later(30)
    assert slow.status("one") == "gone"
    assert slow.operation(ended["name"])["status"] == "DONE"
    missing = f"projects/local-project/zones/{ZONE}/instances/one"
    assert slow.refused("GET", f"zones/{ZONE}/instances/one") == (
        404,
        f"The resource '{missing}' was not found",
    )


def test_google_writes_metadata_which_a_careless_client_removes(compute: Compute) -> None:
    compute.insert("one", kind="ct6e-standard-1t")
    shown = compute.instance("one")["metadata"]
    items = {item["key"]: item["value"] for item in shown["items"]}
    assert items["accelerator-type"] == "v6e-1"
    assert items["agent-worker-number"] == "0"
    assert items["worker-network-endpoints"] == "one"
    assert "TPU_ACCELERATOR_TYPE: 'v6e-1'\nTOPOLOGY: '1x1'" in items["tpu-env"]
    wanted = {"fingerprint": "c3RhbGU=", "items": [{"key": "a", "value": "b"}]}
    code, text = compute.refused("POST", f"zones/{ZONE}/instances/one/setMetadata", wanted)
    assert (code, text) == (
        412,
        "Supplied fingerprint does not match current metadata fingerprint.",
    )
    wanted["fingerprint"] = shown["fingerprint"]
    compute.post(f"zones/{ZONE}/instances/one/setMetadata", wanted)
    assert compute.instance("one")["metadata"]["items"] == [{"key": "a", "value": "b"}]


def test_labels_have_a_fingerprint(compute: Compute) -> None:
    compute.insert("one")
    path = f"zones/{ZONE}/instances/one/setLabels"
    before = compute.instance("one")["labelFingerprint"]
    compute.post(path, {"labelFingerprint": before, "labels": {"owner": "me"}})
    assert compute.instance("one")["labels"] == {"owner": "me"}
    again = {"labelFingerprint": before, "labels": {}}
    assert compute.ask("POST", path, again).json()["error"]["errors"][0]["reason"] == (
        "conditionNotMet"
    )


def test_tags_have_a_fingerprint(compute: Compute) -> None:
    compute.insert("one", tags={"items": ["a"]})
    path = f"zones/{ZONE}/instances/one/setTags"
    before = compute.instance("one")["tags"]
    compute.post(path, {"fingerprint": before["fingerprint"], "items": ["b", "c"]})
    assert compute.instance("one")["tags"]["items"] == ["b", "c"]
    stale = compute.refused("POST", path, {**before, "items": []})
    assert stale == (412, "Supplied fingerprint does not match current tags fingerprint.")
    now = compute.instance("one")["tags"]["fingerprint"]
    code, text = compute.refused("POST", path, {"fingerprint": now, "items": ["No Tag"]})
    assert (code, "'No Tag'" in text) == (400, True)


def test_an_external_address_is_given_and_taken_away(slow: Compute) -> None:
    slow.insert("one")
    slow.later(60)
    one = f"zones/{ZONE}/instances/one"
    nic = {"networkInterface": "nic0"}
    before = slow.instance("one")["networkInterfaces"][0]["accessConfigs"][0]
    assert before["name"] == "external-nat"
    assert slow.refused("POST", f"{one}/addAccessConfig", {}, **nic)[0] == 400
    wrong = {**nic, "accessConfig": "other"}
    assert slow.refused("POST", f"{one}/deleteAccessConfig", **wrong)[0] == 400
    none = {"accessConfig": "external-nat", "networkInterface": "nic1"}
    assert slow.refused("POST", f"{one}/deleteAccessConfig", **none)[0] == 400
    begun = slow.post(f"{one}/deleteAccessConfig", accessConfig="external-nat", **nic)
    assert (begun["operationType"], begun["status"]) == ("deleteAccessConfig", "RUNNING")
    slow.later(5)
    assert slow.operation(begun["name"])["status"] == "DONE"
    assert "accessConfigs" not in slow.instance("one")["networkInterfaces"][0]
    slow.post(f"{one}/addAccessConfig", {"name": "mine", "type": "ONE_TO_ONE_NAT"}, **nic)
    slow.later(5)
    after = slow.instance("one")["networkInterfaces"][0]["accessConfigs"][0]
    assert after["name"] == "mine"
    assert after["natIP"] not in ("", before["natIP"])


def test_an_address_given_while_it_is_stopped_is_there_after_the_start(slow: Compute) -> None:
    slow.insert("one", networkInterfaces=[{"network": "global/networks/default"}])
    slow.later(60)
    one = f"zones/{ZONE}/instances/one"
    slow.post(f"{one}/stop")
    slow.later(20)
    slow.post(f"{one}/addAccessConfig", {}, networkInterface="nic0")
    slow.later(5)
    assert "natIP" not in slow.instance("one")["networkInterfaces"][0]["accessConfigs"][0]
    slow.post(f"{one}/start")
    slow.later(30)
    assert slow.instance("one")["networkInterfaces"][0]["accessConfigs"][0]["natIP"]


def test_each_instance_of_a_slice_has_its_own_disks(slow: Compute) -> None:
    """Requests that overlap do not undo each other, and a disk for all can be taken from one."""
    slow.post(f"zones/{ZONE}/disks", {"name": "data"})
    make_slice(slow)
    slow.later(100)
    names = sorted(one["instance"].rpartition("/")[2] for one in slow.managed())
    disk = {"source": f"zones/{ZONE}/disks/data", "mode": "READ_ONLY", "deviceName": "data"}
    for name in names[:3]:
        slow.post(f"zones/{ZONE}/instances/{name}/attachDisk", disk)
    slow.later(5)
    assert [len(slow.instance(name)["disks"]) for name in names] == [2, 2, 2, 1]
    slow.post(f"zones/{ZONE}/instances/{names[1]}/detachDisk", deviceName="data")
    slow.later(5)
    assert [len(slow.instance(name)["disks"]) for name in names] == [2, 1, 2, 1]


def test_an_instance_stops_and_starts_at_another_external_address(slow: Compute) -> None:
    slow.insert("one")
    slow.later(60)
    before = slow.instance("one")["networkInterfaces"][0]
    slow.post(f"zones/{ZONE}/instances/one/stop")
    assert slow.status("one") == "STOPPING"
    slow.later(20)
    stopped = slow.instance("one")
    assert stopped["status"] == "TERMINATED"
    assert "natIP" not in stopped["networkInterfaces"][0]["accessConfigs"][0]
    slow.post(f"zones/{ZONE}/instances/one/start")
    assert slow.status("one") == "STAGING"
    slow.later(30)
    after = slow.instance("one")["networkInterfaces"][0]
    assert slow.status("one") == "RUNNING"
    assert after["networkIP"] == before["networkIP"]
    assert after["accessConfigs"][0]["natIP"] != before["accessConfigs"][0]["natIP"]


def test_neither_api_shows_what_the_other_has(compute: Compute) -> None:
    compute.insert("one", "us-east5-a")
    compute.cloud.populate(1, "node", "us-east5-a", acceleratorType="v6e-4",
                           runtimeVersion="v2-alpha-tpuv6e")  # fmt: skip
    nodes = f"{compute.cloud.url}v2/projects/local-project/locations/us-east5-a/nodes"
    shown = requests.get(nodes, timeout=10).json()["nodes"]
    assert [node["name"].rpartition("/")[2] for node in shown] == ["node-0"]
    for name in ("one", "instances%2Fone"):
        assert requests.get(f"{nodes}/{name}", timeout=10).status_code == 404
    found = compute.get("zones/us-east5-a/instances")["items"]
    assert [each["name"] for each in found] == ["one"]
    # Both may have the same name.
    compute.insert("node-0", "us-east5-a")
    began = requests.get(nodes.replace("/nodes", "/operations"), timeout=10).json()
    assert "operations" not in began


def test_guest_attributes_need_permission_of_the_metadata(compute: Compute) -> None:
    compute.insert("one")
    compute.insert("two", metadata={})
    path = f"zones/{ZONE}/instances/one/getGuestAttributes"
    found = compute.get(path, queryPath="hostkeys/")["queryValue"]["items"]
    assert [(each["namespace"], each["key"]) for each in found] == [("hostkeys", "ssh-ed25519")]
    value = compute.get(path, variableKey="hostkeys/ssh-ed25519")["variableValue"]
    assert value == found[0]["value"]
    assert compute.refused(
        "GET", f"zones/{ZONE}/instances/two/getGuestAttributes", queryPath="hostkeys/"
    ) == (404, "The resource 'hostkeys/' of type 'Guest Attribute' was not found.")


def test_the_serial_port_is_read_from_where_one_left_off(compute: Compute) -> None:
    compute.insert("one")
    first = compute.get(f"zones/{ZONE}/instances/one/serialPort", port="1")
    assert first["contents"].startswith("[    0.000000] Linux version")
    rest = compute.get(f"zones/{ZONE}/instances/one/serialPort", start=first["next"])
    assert rest["contents"] == ""
    assert rest["next"] == first["next"]


def test_maintenance_is_announced_and_done(slow: Compute) -> None:
    slow.insert("one")
    slow.later(60)
    path = f"nodes/local-project/{ZONE}/one"
    slow.cloud.control(f"{path}:schedule-maintenance", {"in": 3600})
    upcoming = slow.instance("one")["resourceStatus"]["upcomingMaintenance"]
    assert (upcoming["type"], upcoming["maintenanceStatus"]) == ("SCHEDULED", "PENDING")
    begun = slow.post(f"zones/{ZONE}/instances/one/performMaintenance")
    shown = slow.instance("one")
    assert shown["resourceStatus"]["upcomingMaintenance"]["maintenanceStatus"] == "ONGOING"
    slow.later(100)
    assert slow.operation(begun["name"])["status"] == "DONE"
    assert "upcomingMaintenance" not in slow.instance("one")["resourceStatus"]


def test_disks_are_attached_to_one_instance_and_detached(compute: Compute) -> None:
    disks = f"zones/{ZONE}/disks"
    compute.cloud.control("clock", {"mode": "immediate"})
    for name in ("data", "more"):
        compute.post(disks, {"name": name, "type": f"zones/{ZONE}/diskTypes/hyperdisk-balanced"})
    boot = instance("")["disks"]
    data = {"source": f"zones/{ZONE}/disks/data", "autoDelete": True}
    compute.insert("one", disks=[*boot, data])
    body = {"source": f"{LINK}/zones/{ZONE}/disks/more", "deviceName": "second"}
    compute.post(f"zones/{ZONE}/instances/one/attachDisk", body)
    shown = compute.instance("one")["disks"]
    assert [(each["index"], each["deviceName"], each["boot"]) for each in shown] == [
        (0, "persistent-disk-0", True),
        (1, "persistent-disk-1", False),
        (2, "second", False),
    ]
    assert compute.get(f"{disks}/more")["users"] == [f"{LINK}/zones/{ZONE}/instances/one"]
    compute.insert("two")
    code, text = compute.refused("POST", f"zones/{ZONE}/instances/two/attachDisk", body)
    assert (code, "is already being used by" in text) == (400, True)
    compute.post(f"zones/{ZONE}/instances/one/detachDisk", deviceName="second")
    assert len(compute.instance("one")["disks"]) == 2
    compute.post(f"zones/{ZONE}/instances/two/attachDisk", body)
    assert (
        compute.refused("POST", f"zones/{ZONE}/instances/one/detachDisk", deviceName="second")[0]
        == 400
    )
    compute.delete(f"zones/{ZONE}/instances/one")
    compute.delete(f"zones/{ZONE}/instances/two")
    assert [disk["name"] for disk in compute.get(disks)["items"]] == ["more"]


def test_an_instance_is_reset_and_never_suspended(compute: Compute) -> None:
    compute.insert("one")
    done = compute.post(f"zones/{ZONE}/instances/one/reset")
    assert (done["operationType"], done["status"]) == ("reset", "DONE")
    code, text = compute.refused("POST", f"zones/{ZONE}/instances/one/suspend")
    assert (code, "cannot be suspended" in text) == (400, True)


# Requests -----------------------------------------------------------------------------------------


def test_a_repeated_request_makes_one_instance(slow: Compute) -> None:
    request = str(uuid4())
    path = f"zones/{ZONE}/instances"
    first = slow.post(path, instance("one"), requestId=request)
    assert slow.post(path, instance("one"), requestId=request)["name"] == first["name"]
    code, text = slow.refused("POST", path, instance("one"), requestId=str(uuid4()))
    name = f"projects/local-project/zones/{ZONE}/instances/one"
    assert (code, text) == (409, f"The resource '{name}' already exists")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"scheduling": {"onHostMaintenance": "MIGRATE"}},
            "Instances with guest accelerators do not support live migration.",
        ),
        (
            {"resourcePolicies": [POLICY]},
            "Resource policy must have one of "
            "[VmMaintenancePolicy, GroupPlacementPolicy, InstanceSchedulePolicy]",
        ),
        ({"scheduling": {"provisioningModel": "FLEX_START"}}, "between 10 minutes and 7 days."),
        ({"kind": "ct6e-standard-8t"}, "Machine type ct6e-standard-8t needs 1."),
        ({"kind": "tpu7x-standard-4t"}, "The referenced resource does not exist."),
        ({"disks": []}, "No disks are specified."),
        ({"networkInterfaces": [{"nicType": "VIRTIO_NET"}]}, "needs GVNIC."),
        ({"name": "One"}, "Must be a match of regex"),
        ({"scheduling": {**SPOT, "automaticRestart": True}}, "automaticRestart be false"),
    ],
)
def test_refusals(compute: Compute, more: dict[str, Any], text: str) -> None:
    name = more.pop("name", "one")
    code, said = compute.refused("POST", f"zones/{ZONE}/instances", instance(name, **more))
    assert code == 400
    assert said.endswith(text) or text in said
    assert "items" not in compute.get(f"zones/{ZONE}/instances")


def test_v5e_is_listed_and_refused(compute: Compute) -> None:
    body = instance("one", "us-east5-b", "ct5lp-hightpu-1t")
    assert compute.refused("POST", "zones/us-east5-b/instances", body) == (
        400,
        "This user agent is not allowed to use the machine type [ct5lp-hightpu-1t].",
    )


def test_faults_of_requests_are_worded_as_compute_engine_does(compute: Compute) -> None:
    path, cloud = f"zones/{ZONE}/instances", compute.cloud
    cloud.fault("iam_denied", match={"service": "compute", "method": "instances.insert"}, count=1)
    assert compute.refused("POST", path, instance("one")) == (
        403,
        f"Required 'compute.instances.create' permission for 'projects/local-project/zones/{ZONE}'",
    )
    cloud.fault("unavailable", match={"service": "compute"}, count=1)
    assert compute.refused("GET", path)[0] == 503
    cloud.fault("rate_limit", match={"service": "compute"}, count=1, retry_after=7)
    limited = compute.ask("GET", path)
    assert (limited.status_code, limited.headers["Retry-After"]) == (429, "7")
    cloud.fault("drop", match={"method": "instances.insert"}, when="after", count=1)
    with pytest.raises(requests.ConnectionError):
        compute.insert("one")
    assert compute.status("one") == "RUNNING"


def test_a_wait_blocks_until_the_operation_is_done() -> None:
    cloud = Emulator(clock="real", delays={"create": 5})
    compute = Compute(cloud)
    begun = compute.insert("one")
    start = time.monotonic()
    answers: list[Any] = []
    path = f"zones/{ZONE}/operations/{begun['name']}/wait"
    waiters = [threading.Thread(target=lambda: answers.append(compute.post(path)))]
    waiters += [threading.Thread(target=lambda: answers.append(compute.post(path)))]
    for waiter in waiters:
        waiter.start()
    # Others are answered meanwhile.
    compute.get(f"zones/{ZONE}/instances")
    assert not answers
    for waiter in waiters:
        waiter.join()
    cloud.stop()
    assert [each["status"] for each in answers] == ["DONE", "DONE"]
    assert time.monotonic() - start > 0.5


def test_a_wait_ends_where_time_stands_still(slow: Compute) -> None:
    begun = slow.insert("one")
    answer = slow.post(f"zones/{ZONE}/operations/{begun['name']}/wait")
    assert answer["status"] == "RUNNING"


def test_lists_by_zone_with_pages_filters_and_lost_zones(compute: Compute) -> None:
    for name, zone in (("b", ZONE), ("a", ZONE), ("c", "us-east5-a")):
        compute.insert(name, zone)

    def names(answer: Any) -> dict[str, list[str]]:
        return {
            scope: [each["name"] for each in found["instances"]]
            for scope, found in answer["items"].items()
            if "instances" in found
        }

    all_of = compute.get("aggregated/instances")
    assert names(all_of) == {f"zones/{ZONE}": ["a", "b"], "zones/us-east5-a": ["c"]}
    warning = all_of["items"]["zones/us-west4-a"]["warning"]
    assert warning["code"] == "NO_RESULTS_ON_PAGE"
    first = compute.get("aggregated/instances", maxResults="2")
    rest = compute.get("aggregated/instances", maxResults="2", pageToken=first["nextPageToken"])
    assert (names(first), names(rest)) == (
        {f"zones/{ZONE}": ["a", "b"]},
        {"zones/us-east5-a": ["c"]},
    )
    assert names(compute.get("aggregated/instances", filter='name eq "(a|c)"')) == {
        f"zones/{ZONE}": ["a"],
        "zones/us-east5-a": ["c"],
    }
    assert names(compute.get("aggregated/instances", filter="labels.owner=other")) == {}
    compute.cloud.fault("unreachable", match={"zone": "us-east5-a", "service": "compute"})
    assert compute.refused("GET", "aggregated/instances")[0] == 503
    partial = compute.get("aggregated/instances", returnPartialSuccess="true")
    assert names(partial) == {f"zones/{ZONE}": ["a", "b"]}
    assert partial["items"]["zones/us-east5-a"]["warning"]["code"] == "UNREACHABLE"
    assert partial["unreachables"] == ["zones/us-east5-a"]
    assert compute.refused("GET", "zones/us-east5-a/instances")[0] == 503


# Capacity and quota -------------------------------------------------------------------------------


def test_a_stock_out_is_told_by_the_operation(compute: Compute) -> None:
    compute.cloud.fault("stock_out", match={"zone": ZONE, "service": "compute"})
    failed = compute.operation(compute.insert("one")["name"])
    assert (failed["status"], failed["httpErrorStatusCode"]) == ("DONE", 503)
    [error] = failed["error"]["errors"]
    where = f"The zone 'projects/local-project/zones/{ZONE}'"
    assert error["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert error["message"] == (
        f"{where} does not have enough resources available to fulfill the request.  Try a "
        "different zone, or try again later."
    )
    info = error["errorDetails"][2]["errorInfo"]
    assert (info["reason"], info["metadatas"]["vmType"]) == (
        "resource_availability",
        "ct6e-standard-4t",
    )
    assert compute.status("one") == "gone"
    spot = compute.operation(compute.insert("one", scheduling=SPOT)["name"])
    info = spot["error"]["errors"][0]["errorDetails"][2]["errorInfo"]
    assert info["reason"] == "stockout"


def test_a_reservation_has_so_many_places(compute: Compute) -> None:
    bound = {"provisioningModel": "RESERVATION_BOUND", "instanceTerminationAction": "DELETE"}
    affinity = {
        "consumeReservationType": "SPECIFIC_RESERVATION",
        "key": "compute.googleapis.com/reservation-name",
        "values": ["block"],
    }
    more = {"scheduling": bound, "reservationAffinity": affinity}

    def outcome(name: str) -> str:
        done = compute.operation(compute.insert(name, **more)["name"])
        return str(done["error"]["errors"][0]["code"]) if "error" in done else "made"

    assert outcome("one") == "RESOURCE_NOT_FOUND"
    properties = {"machineType": "ct6e-standard-4t"}
    reserved = {"count": "1", "instanceProperties": properties}
    compute.post(
        f"zones/{ZONE}/reservations",
        {"name": "block", "specificReservation": reserved, "specificReservationRequired": True},
    )
    assert [outcome("one"), outcome("two")] == ["made", "RESERVATION_CAPACITY_EXCEEDED"]
    shown = compute.get(f"zones/{ZONE}/reservations/block")
    assert shown["specificReservation"]["inUseCount"] == "1"
    assert compute.refused("DELETE", f"zones/{ZONE}/reservations/block")[0] == 400
    compute.delete(f"zones/{ZONE}/instances/one")
    assert outcome("two") == "made"


def bound_to(name: str) -> dict[str, Any]:
    return {
        "scheduling": {
            "provisioningModel": "RESERVATION_BOUND",
            "instanceTerminationAction": "DELETE",
        },
        "reservationAffinity": {
            "consumeReservationType": "SPECIFIC_RESERVATION",
            "key": "compute.googleapis.com/reservation-name",
            "values": [name],
        },
    }


def outcome(compute: Compute, name: str, **more: Any) -> str:
    begun = compute.insert(name, **more)
    compute.later(100)
    done = compute.operation(begun["name"])
    assert done["status"] == "DONE"
    return str(done["error"]["errors"][0]["code"]) if "error" in done else "made"


def test_what_is_bound_to_the_calendar_waits_for_its_day_and_ends_with_it(slow: Compute) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    body = reservation_of_a_day(start, 4)
    slow.post(f"zones/{ZONE}/futureReservations", body)
    bound = bound_to("day")
    assert outcome(slow, "early", **bound) == "RESOURCE_NOT_FOUND"
    slow.later(86400)
    # Quota is for what is not reserved.
    slow.cloud.fault("quota", options={"limit": 0})
    assert outcome(slow, "one", **bound) == "made"
    assert outcome(slow, "two", **bound) == "RESERVATION_CAPACITY_EXCEEDED"
    plain = {**bound, "scheduling": {"onHostMaintenance": "TERMINATE"}}
    assert outcome(slow, "unbound", **plain) == "RESERVATION_CAPACITY_EXCEEDED"
    used = slow.get(f"zones/{ZONE}/reservations/day")["aggregateReservation"]["inUseResources"]
    assert used == body["aggregateReservation"]["reservedResources"]
    ends = slow.instance("one")["resourceStatus"]["scheduling"]["terminationTimestamp"]
    assert abs((datetime.fromisoformat(ends) - start).total_seconds() - 86400) < 1
    slow.later(86400)
    assert slow.status("one") == "gone"
    assert slow.ask("GET", f"zones/{ZONE}/reservations/day").status_code == 404
    assert outcome(slow, "late", **bound) == "RESOURCE_NOT_FOUND"


def test_a_host_is_reported_if_its_instance_is_reserved(slow: Compute) -> None:
    report = {"disruptionSchedule": "IMMEDIATE", "faultReasons": [{"behavior": "PERFORMANCE"}]}
    path = f"zones/{ZONE}/instances/one/reportHostAsFaulty"
    slow.insert("one")
    assert slow.refused("POST", path, report)[1].endswith("is not ready")
    slow.later(100)
    failed = slow.post(path, report)
    codes = [each["code"] for each in failed["error"]["errors"]]
    assert codes == ["INSTANCES_WITHOUT_RESERVATION_NOT_SUPPORTED"]
    assert slow.status("one") == "RUNNING"
    slow.delete(f"zones/{ZONE}/instances/one")
    slow.later(100)
    properties = {"machineType": "ct6e-standard-4t"}
    block = {"count": "1", "instanceProperties": properties}
    slow.post(f"zones/{ZONE}/reservations", {"name": "block", "specificReservation": block})
    assert outcome(slow, "one", **bound_to("block")) == "made"
    for wrong in ({**report, "disruptionSchedule": "FUTURE"}, {"disruptionSchedule": "IMMEDIATE"}):
        assert slow.refused("POST", path, wrong)[0] == 400
    begun = slow.post(path, report)
    assert begun["operationType"] == "reportHostAsFaulty"
    slow.later(50)
    assert slow.operation(begun["name"])["status"] == "RUNNING"
    slow.later(100)
    done = slow.operation(begun["name"])
    assert (done["status"], "error" in done) == ("DONE", False)
    assert slow.status("one") == "RUNNING"


def test_scheduling_is_changed_while_it_is_stopped(slow: Compute) -> None:
    slow.insert("one")
    slow.later(100)
    path = f"zones/{ZONE}/instances/one"
    hour = {"maxRunDuration": {"seconds": "3600"}, "instanceTerminationAction": "DELETE"}
    assert slow.refused("POST", f"{path}/setScheduling", hour)[1].endswith("is not ready")
    slow.post(f"{path}/stop")
    slow.later(50)
    slow.post(f"{path}/setScheduling", hour)
    slow.later(10)
    shown = slow.instance("one")["scheduling"]
    assert shown.items() >= {**hour, "provisioningModel": "STANDARD"}.items()
    slow.post(f"{path}/start")
    slow.later(100)
    assert slow.status("one") == "RUNNING"
    slow.later(3700)
    assert slow.status("one") == "gone"


def test_several_instances_are_made_by_one_request(slow: Compute) -> None:
    slow.insert("b-2")
    body = {"count": "3", "namePattern": "b-#", "instanceProperties": properties()}
    begun = slow.post(f"zones/{ZONE}/instances/bulkInsert", body)
    assert (begun["operationType"], begun["status"]) == ("bulkInsert", "RUNNING")
    group = begun["operationGroupId"]
    slow.later(100)
    done = slow.operation(begun["name"])
    assert done["instancesBulkInsertOperationMetadata"]["perLocationStatus"] == {
        f"zones/{ZONE}": {
            "status": "DONE",
            "targetVmCount": 3,
            "createdVmCount": 3,
            "failedToCreateVmCount": 0,
        }
    }
    found = slow.get(f"zones/{ZONE}/operations", filter=f"operationGroupId={group}")["items"]
    made = {each["targetLink"].rpartition("/")[2] for each in found} - {"instances"}
    assert made == {"b-1", "b-3", "b-4"}


@pytest.mark.parametrize("least", [1, 2])
def test_several_instances_or_none(slow: Compute, least: int) -> None:
    body = {
        "count": "2",
        "perInstanceProperties": {"x": {}, "y": {"name": "z"}},
        "instanceProperties": properties(),
        **({"minCount": "1"} if least == 1 else {}),
    }
    slow.cloud.fault("stock_out", match={"node": "z"})
    begun = slow.post(f"zones/{ZONE}/instances/bulkInsert", body)
    slow.later(100)
    done = slow.operation(begun["name"])
    (told,) = done["instancesBulkInsertOperationMetadata"]["perLocationStatus"].values()
    made = 1 if least == 1 else 0
    assert (told["createdVmCount"], told["failedToCreateVmCount"]) == (made, 2 - made)
    assert [slow.status(name) for name in ("x", "z")] == ["RUNNING" if made else "gone", "gone"]
    codes = [each["code"] for each in done.get("error", {}).get("errors", [])]
    assert codes == ([] if made else ["ZONE_RESOURCE_POOL_EXHAUSTED"])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"count": "0"}, "It must be from 1 to 1000."),
        ({"count": "3", "namePattern": "b"}, "one run of '#'"),
        ({"count": "12", "namePattern": "b-#"}, "no room for 12 more names"),
        ({"count": "2", "perInstanceProperties": {"x": {}}}, "as many of them"),
        (
            {"count": "1", "namePattern": "b-#", "sourceInstanceTemplate": "global/none"},
            "cannot be found",
        ),
    ],
)
def test_refusals_of_several_instances(compute: Compute, more: dict[str, Any], text: str) -> None:
    assert text in compute.refused("POST", f"zones/{ZONE}/instances/bulkInsert", more)[1]


@pytest.mark.parametrize("of", ["instance", "slice"])
def test_a_stock_out_keeps_an_instance_from_starting(slow: Compute, of: str) -> None:
    if of == "instance":
        slow.insert("one")
    else:
        make_slice(slow)
    slow.later(100)
    name = "one" if of == "instance" else slow.managed()[0]["name"]
    slow.post(f"zones/{ZONE}/instances/{name}/stop")
    slow.later(20)
    slow.cloud.fault("stock_out", match={"service": "compute"})
    begun = slow.post(f"zones/{ZONE}/instances/{name}/start")
    slow.later(30)
    failed = slow.operation(begun["name"])
    assert failed["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert slow.status(name) == "TERMINATED"


def test_quota_counts_chips_of_a_region_apart_from_the_tpu_api(compute: Compute) -> None:
    compute.cloud.populate(4, "node", "us-east5-a", acceleratorType="v6e-4",
                           runtimeVersion="v2-alpha-tpuv6e")  # fmt: skip
    compute.cloud.fault("quota", match={"service": "compute"}, limit=8)
    for name, zone in (("a", "us-east5-a"), ("b", "us-east5-b")):
        assert "error" not in compute.operation(compute.insert(name, zone)["name"], zone)
    failed = compute.operation(compute.insert("c", "us-east5-a")["name"], "us-east5-a")
    [error] = failed["error"]["errors"]
    assert error["code"] == "QUOTA_EXCEEDED"
    assert error["message"] == (
        "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 8.0 in region us-east5."
    )
    quota = error["errorDetails"][0]["quotaInfo"]
    assert quota["dimensions"] == {"region": "us-east5", "tpu_family": "CT6E"}
    # Spot has a quota of its own.
    begun = compute.insert("d", "us-east5-a", scheduling=SPOT)
    assert "error" not in compute.operation(begun["name"], "us-east5-a")


# Flex-start ---------------------------------------------------------------------------------------


def flex(compute: Compute, name: str, seconds: int) -> Any:
    params = {"requestValidForDuration": {"seconds": str(seconds)}}
    return compute.insert(name, scheduling=FLEX, params=params)


def test_a_flex_start_request_waits_runs_and_ends(slow: Compute) -> None:
    slow.cloud.fault("stock_out", match={"zone": ZONE})
    begun = flex(slow, "one", 7200)
    slow.later(600)
    waiting = slow.instance("one")
    assert waiting["status"] == "PENDING"
    assert "networkIP" not in waiting["networkInterfaces"][0]
    assert slow.operation(begun["name"])["status"] == "RUNNING"
    slow.cloud.control("faults", method="DELETE")
    assert slow.status("one") == "PROVISIONING"
    slow.later(60)
    shown = slow.instance("one")
    assert shown["status"] == "RUNNING"
    assert "terminationTimestamp" in shown["resourceStatus"]["scheduling"]
    assert slow.operation(begun["name"])["status"] == "DONE"
    slow.later(3600)
    assert slow.status("one") == "STOPPING"
    slow.later(30)
    assert slow.status("one") == "gone"


def test_a_flex_start_request_expires_and_only_the_operation_tells(slow: Compute) -> None:
    slow.cloud.fault("stock_out", match={"zone": ZONE})
    begun = flex(slow, "one", 3600)
    slow.later(3599)
    assert slow.status("one") == "PENDING"
    slow.later(1)
    assert slow.status("one") == "gone"
    failed = slow.operation(begun["name"])
    assert failed["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"


def test_a_short_flex_start_request_does_not_wait(compute: Compute) -> None:
    compute.cloud.fault("stock_out", match={"zone": ZONE})
    failed = compute.operation(flex(compute, "one", 89)["name"])
    assert failed["error"]["errors"][0]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    compute.cloud.control("faults", method="DELETE")
    flex(compute, "two", 0)
    assert compute.status("two") == "RUNNING"
    assert (
        "must not be longer than 7200"
        in compute.refused(
            "POST",
            f"zones/{ZONE}/instances",
            instance("x", scheduling=FLEX, params={"requestValidForDuration": {"seconds": "7201"}}),
        )[1]
    )


def test_the_lack_of_quota_looks_like_the_lack_of_capacity(slow: Compute) -> None:
    slow.cloud.fault("quota", match={"service": "compute"}, limit=0)
    flex(slow, "one", 600)
    slow.later(300)
    assert slow.status("one") == "PENDING"


def test_the_owner_holds_grants_and_fails_requests(slow: Compute) -> None:
    flex(slow, "one", 7200)
    begun = flex(slow, "two", 7200)
    for name in ("one", "two"):
        slow.cloud.control(f"queuedResources/local-project/{ZONE}/{name}:hold")
    slow.later(1000)
    assert [slow.status(name) for name in ("one", "two")] == ["PENDING", "PENDING"]
    slow.cloud.control(f"queuedResources/local-project/{ZONE}/one:grant")
    slow.cloud.control(f"queuedResources/local-project/{ZONE}/two:fail")
    assert [slow.status(name) for name in ("one", "two")] == ["PROVISIONING", "gone"]
    failed = slow.operation(begun["name"])
    assert failed["error"]["errors"][0]["code"] == "INTERNAL_ERROR"


def test_deleting_a_waiting_request_loses_its_place(slow: Compute) -> None:
    slow.cloud.fault("stock_out", match={"zone": ZONE})
    begun = flex(slow, "one", 7200)
    slow.delete(f"zones/{ZONE}/instances/one")
    slow.later(30)
    assert slow.status("one") == "gone"
    assert "error" in slow.operation(begun["name"])


# Preemption ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("action", "after"), [("STOP", "TERMINATED"), ("DELETE", "gone")])
def test_spot_instances_are_preempted(slow: Compute, action: str, after: str) -> None:
    slow.insert("one", scheduling={**SPOT, "instanceTerminationAction": action})
    slow.later(60)
    slow.cloud.control(f"nodes/local-project/{ZONE}/one:preempt", {"notice": 30})
    assert slow.status("one") == "RUNNING"
    slow.later(30)
    assert slow.status("one") == after
    kinds = [each["operationType"] for each in slow.get(f"zones/{ZONE}/operations")["items"]]
    assert kinds.count("compute.instances.preempted") == 1
    if action == "STOP":
        # What is stopped already is not taken again.
        slow.cloud.control(f"nodes/local-project/{ZONE}/one:preempt", {})
        found = slow.get(f"zones/{ZONE}/operations")["items"]
        assert len(found) == len(kinds)
        slow.post(f"zones/{ZONE}/instances/one/start")
        slow.later(30)
        assert slow.status("one") == "RUNNING"


# Google's library -------------------------------------------------------------------------------


def test_google_api_python_client(compute: Compute) -> None:
    """Create, wait, list, delete: a flex-start instance and a slice, which gcloud does not know."""
    service = discovered_compute(compute.cloud)
    where = {"project": Emulator.project, "zone": ZONE}

    def done(request: Any) -> None:
        name = request.execute()["name"]
        ended = service.zoneOperations().wait(**where, operation=name).execute()
        assert (ended["status"], ended.get("error")) == ("DONE", None)

    params = {"requestValidForDuration": {"seconds": "7200"}}
    body = instance("one", scheduling=FLEX, params=params)
    instances, groups = service.instances(), service.instanceGroupManagers()
    done(instances.insert(**where, body=body))
    prepare_slice(compute)
    done(groups.insert(**where, body=slice_of_four()))
    found = groups.get(**where, instanceGroupManager="slice").execute()["status"]
    assert (found["isStable"], found["currentInstanceStatuses"]) == (True, {"running": 4})
    assert len(instances.list(**where).execute()["items"]) == 5
    done(groups.delete(**where, instanceGroupManager="slice"))
    done(instances.delete(**where, instance="one"))
    assert "items" not in instances.list(**where).execute()


# Groups -------------------------------------------------------------------------------------------


def test_a_slice_waits_for_all_of_its_capacity(slow: Compute) -> None:
    slow.cloud.fault("stock_out", match={"zone": ZONE})
    begun = make_slice(slow)
    slow.later(100)
    assert slow.operation(begun["name"])["status"] == "DONE"
    status = slow.group()["status"]
    assert (status["isStable"], status["currentInstanceStatuses"]) == (False, {"nonExistent": 4})
    assert status["bulkInstanceOperation"]["inProgress"] is True
    check = status["bulkInstanceOperation"]["lastProgressCheck"]["error"]["errors"][0]
    assert check["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"
    assert status["appliedAcceleratorTopologies"] == [
        {"acceleratorTopology": "4x4", "state": "ACTIVATING"}
    ]
    assert [each["currentAction"] for each in slow.managed()] == ["CREATING"] * 4
    assert "instanceStatus" not in slow.managed()[0]
    assert "items" not in slow.get(f"zones/{ZONE}/instances")
    slow.cloud.control("faults", method="DELETE")
    assert slow.group()["status"]["currentInstanceStatuses"] == {"provisioning": 4}
    slow.later(60)
    shown = slow.group()
    assert shown["status"]["isStable"] is True
    assert shown["status"]["currentInstanceStatuses"] == {"running": 4}
    assert shown["status"]["bulkInstanceOperation"] == {"inProgress": False}
    assert shown["status"]["appliedAcceleratorTopologies"][0]["state"] == "ACTIVE"
    errors = slow.get(f"zones/{ZONE}/instanceGroupManagers/slice/listErrors")["items"]
    assert errors[0]["error"]["code"] == "ZONE_RESOURCE_POOL_EXHAUSTED"


def test_the_workers_of_a_slice_know_each_other(compute: Compute) -> None:
    make_slice(compute)
    names = [each["name"] for each in compute.managed()]
    assert all(name.startswith("slice-") for name in names)
    for worker, name in enumerate(names):
        shown = compute.instance(name)
        items = {item["key"]: item["value"] for item in shown["metadata"]["items"]}
        assert items["agent-worker-number"] == str(worker)
        assert items["accelerator-type"] == "v6e-16"
        assert items["worker-network-endpoints"] == ",".join(names)
        assert "HOST_BOUNDS: '2,2,1'" in items["tpu-env"]
        assert items["created-by"].endswith(f"zones/{ZONE}/instanceGroupManagers/slice")
        assert shown["labels"] == {"owner": "lab"}
    everything = compute.get("aggregated/instances")["items"][f"zones/{ZONE}"]["instances"]
    assert sorted(each["name"] for each in everything) == sorted(names)


def test_a_slice_is_deleted_before_its_template_and_policy(slow: Compute) -> None:
    make_slice(slow)
    slow.later(100)
    for path in (TEMPLATE, f"regions/{REGION}/resourcePolicies/square"):
        code, text = slow.refused("DELETE", path)
        assert code == 400
        assert "is already being used by" in text
    slow.delete(f"zones/{ZONE}/instanceGroupManagers/slice")
    assert slow.group()["status"]["appliedAcceleratorTopologies"][0]["state"] == "DEACTIVATING"
    slow.later(30)
    assert slow.ask("GET", f"zones/{ZONE}/instanceGroupManagers/slice").status_code == 404
    assert "items" not in slow.get(f"zones/{ZONE}/instances")
    for path in (TEMPLATE, f"regions/{REGION}/resourcePolicies/square"):
        slow.delete(path)


def test_an_empty_group_is_resized_to_its_topology_only(slow: Compute) -> None:
    make_slice(slow, FLEX, size=0)
    path = f"zones/{ZONE}/instanceGroupManagers/slice/resize"
    assert slow.refused("POST", path, size="16") == (
        400,
        "Invalid value for field 'size': '16'. Requested invalid target size '16' for a Managed "
        "Instance Group in the gang mode of size '4'. Should be equal to the gang size.",
    )
    slow.post(path, size="4")
    slow.later(70)
    assert slow.group()["status"]["currentInstanceStatuses"] == {"running": 4}
    assert "terminationTimestamp" in slow.managed()[0]["scheduling"]
    slow.post(path, size="0")
    slow.later(30)
    assert (slow.group()["targetSize"], slow.managed()) == (0, [])


@pytest.mark.parametrize(
    ("more", "text"),
    [
        (
            {"targetSizePolicy": {"mode": "INDIVIDUAL"}},
            "MIGs with TPU accelerator topology require BULK mode in target size policy",
        ),
        (
            {"resourcePolicies": {"workloadPolicy": "square"}},
            "Invalid value for field 'resource.resourcePolicies.workloadPolicy': 'square'. The URL "
            "is malformed.",
        ),
        (
            {"size": 16},
            "Invalid value for field 'resource.targetSize': '16'. Requested invalid target size "
            "'16' for a Managed Instance Group in the gang mode of size '4'. Should be equal to "
            "the gang size.",
        ),
        (
            {"resourcePolicies": {}},
            "Invalid value for field 'resource.targetSize': '4'. A managed instance group with TPU "
            "needs a workload policy with an accelerator topology for more than one instance.",
        ),
        (
            {"instanceTemplate": "global/instanceTemplates/four"},
            "The resource 'projects/local-project/global/instanceTemplates/four' was not found",
        ),
        (
            {"resourcePolicies": {"workloadPolicy": POLICY + "s"}},
            f"The resource '{POLICY}s' was not found",
        ),
    ],
)
def test_refusals_of_groups(compute: Compute, more: dict[str, Any], text: str) -> None:
    prepare_slice(compute)
    body = slice_of_four(**more)
    assert compute.refused("POST", f"zones/{ZONE}/instanceGroupManagers", body)[1] == text


def test_what_nobody_could_verify_is_a_switch(compute: Compute) -> None:
    prepare_slice(compute, SPOT)
    compute.cloud.fault("bulk_refused")
    code, text = compute.refused("POST", f"zones/{ZONE}/instanceGroupManagers", slice_of_four())
    assert (code, "requires the provisioning model FLEX_START" in text) == (400, True)
    compute.insert("one")
    compute.cloud.fault("stop_refused", match={"zone": ZONE})
    code, text = compute.refused("POST", f"zones/{ZONE}/instances/one/stop")
    assert (code, text) == (400, "Stopping an instance with TPU is not supported.")
    assert compute.status("one") == "RUNNING"


def regional(**more: Any) -> dict[str, Any]:
    policy = {
        "targetShape": "ANY_SINGLE_ZONE",
        "zones": [{"zone": "zones/us-central1-c"}, {"zone": f"zones/{ZONE}"}],
    }
    moves = {"instanceRedistributionType": "NONE"}
    return slice_of_four(distributionPolicy=policy, updatePolicy=moves, **more)


def test_a_slice_of_a_region_is_in_one_zone(slow: Compute) -> None:
    prepare_slice(slow)
    # One of the same name in a zone is another.
    slow.post(f"zones/{ZONE}/instanceGroupManagers", slice_of_four(size=0))
    path = f"regions/{REGION}/instanceGroupManagers"
    begun = slow.post(path, regional())
    assert begun["region"].endswith(REGION)
    assert slow.get(f"regions/{REGION}/operations/{begun['name']}")["name"] == begun["name"]
    slow.later(100)
    group = slow.get(f"{path}/slice")
    assert group["region"].endswith(REGION)
    assert "zone" not in group
    assert group["status"]["currentInstanceStatuses"] == {"running": 4}
    assert slow.get(path)["items"] == [group]
    everywhere = slow.get("aggregated/instanceGroupManagers")["items"]
    assert everywhere[f"regions/{REGION}"]["instanceGroupManagers"] == [group]
    assert len(everywhere[f"zones/{ZONE}"]["instanceGroupManagers"]) == 1
    assert slow.get(f"regions/{REGION}/instanceGroups")["items"][0]["size"] == 4
    managed = slow.post(f"{path}/slice/listManagedInstances")["managedInstances"]
    # us-central1-c has no v6e.
    assert {each["instance"].split("/")[-3] for each in managed} == {ZONE}
    name = managed[0]["name"]
    metadata = slow.instance(name)["metadata"]["items"]
    assert {"key": "created-by", "value": f"projects/123456789012/{path}/slice"} in [
        {**each, "value": re.sub(r"projects/\d+", "projects/123456789012", each["value"])}
        for each in metadata
    ]
    assert slow.get(f"{path}/slice/listErrors") == {}
    slow.post(f"{path}/slice/recreateInstances", {"instances": [managed[0]["instance"]]})
    slow.later(100)
    slow.post(f"{path}/slice/resize", size="0")
    slow.later(100)
    assert slow.status(name) == "gone"
    gone = slow.delete(f"{path}/slice")
    slow.later(100)
    assert slow.get(f"regions/{REGION}/operations/{gone['name']}")["status"] == "DONE"
    assert slow.ask("GET", f"{path}/slice").status_code == 404
    assert slow.group()["targetSize"] == 0


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"distributionPolicy": {"targetShape": "EVEN"}}, "use ANY_SINGLE_ZONE"),
        ({"updatePolicy": {}}, "it must be NONE"),
        (
            {
                "distributionPolicy": {
                    "targetShape": "ANY_SINGLE_ZONE",
                    "zones": [{"zone": "zones/us-east5-a"}],
                }
            },
            f"no zone of {REGION}",
        ),
        ({"targetSizePolicy": {}}, "require BULK mode"),
    ],
)
def test_refusals_of_groups_of_a_region(compute: Compute, more: dict[str, Any], text: str) -> None:
    prepare_slice(compute)
    body = {**regional(), **more}
    path = f"regions/{REGION}/instanceGroupManagers"
    assert text in compute.refused("POST", path, body)[1]


def test_a_group_grows_under_names_that_one_chooses(compute: Compute) -> None:
    make_slice(compute, size=0)
    path = f"zones/{ZONE}/instanceGroupManagers/slice"

    def body(*names: str) -> dict[str, Any]:
        return {"instances": [{"name": name} for name in names]}

    for names, text in (
        (("a", "b"), "invalid target size '2'"),
        (("a", "a", "b", "c"), "A name is there twice."),
        (("A", "b", "c", "d"), "Must be a match"),
    ):
        assert text in compute.refused("POST", f"{path}/createInstances", body(*names))[1]
    names = ("d", "c", "b", "a")
    compute.post(f"{path}/createInstances", body(*names))
    assert [each["name"] for each in compute.managed()] == list(names)
    assert "can only grow" in compute.refused("POST", f"{path}/createInstances", body("e"))[1]
    links = {"instances": [f"zones/{ZONE}/instances/{name}" for name in names]}
    one = {"instances": links["instances"][:1]}
    assert "invalid target size '3'" in compute.refused("POST", f"{path}/deleteInstances", one)[1]
    compute.post(f"{path}/deleteInstances", links)
    assert compute.managed() == []
    assert compute.status("a") == "gone"


def test_resize_requests_are_refused(compute: Compute) -> None:
    make_slice(compute, size=0)
    path = f"zones/{ZONE}/instanceGroupManagers/slice/resizeRequests"
    assert compute.refused("POST", path, {"name": "rr", "resizeBy": 4}) == (
        400,
        "Creating resize requests for managed instance group with TPU is not allowed",
    )


@pytest.mark.parametrize(
    ("action", "left"), [("STOP", {"terminated": 1, "running": 3}),
                         ("DELETE", {"nonExistent": 1, "running": 3})]
)  # fmt: skip
def test_one_vm_of_a_slice_is_preempted(slow: Compute, action: str, left: dict[str, int]) -> None:
    make_slice(slow, {**SPOT, "instanceTerminationAction": action})
    slow.later(100)
    name = slow.managed()[1]["name"]
    slow.cloud.control(f"nodes/local-project/{ZONE}/{name}:preempt")
    status = slow.group()["status"]
    assert status["currentInstanceStatuses"] == left
    assert status["appliedAcceleratorTopologies"][0]["state"] == "INCOMPLETE"
    assert (slow.status(name) == "gone") == (action == "DELETE")


def test_a_group_that_repairs_makes_a_lost_instance_again(slow: Compute) -> None:
    lifecycle = {"instanceLifecyclePolicy": {"defaultActionOnFailure": "REPAIR"}}
    make_slice(slow, {**SPOT, "instanceTerminationAction": "DELETE"}, **lifecycle)
    slow.later(100)
    before = [each["name"] for each in slow.managed()]
    slow.cloud.control(f"nodes/local-project/{ZONE}/{before[0]}:preempt")
    assert slow.managed()[0]["currentAction"] == "RECREATING"
    assert slow.group()["status"]["isStable"] is False
    slow.later(60)
    assert [each["name"] for each in slow.managed()] == before
    assert slow.group()["status"]["currentInstanceStatuses"] == {"running": 4}


def test_a_slice_runs_out_and_its_group_stays(slow: Compute) -> None:
    make_slice(slow, FLEX)
    slow.later(100)
    slow.later(3580)
    assert set(slow.group()["status"]["currentInstanceStatuses"]) == {"stopping"}
    slow.later(30)
    assert slow.group()["status"]["currentInstanceStatuses"] == {"nonExistent": 4}
    assert slow.group()["targetSize"] == 4


def test_a_whole_slice_is_preempted(slow: Compute) -> None:
    make_slice(slow, SPOT)
    slow.later(100)
    slow.cloud.control(f"nodes/local-project/{ZONE}/slice:preempt")
    assert slow.group()["status"]["currentInstanceStatuses"] == {"terminated": 4}
    # Each can be started again, as long as there is capacity.
    for each in slow.managed():
        slow.post(f"zones/{ZONE}/instances/{each['name']}/start")
    slow.later(30)
    status = slow.group()["status"]
    assert status["currentInstanceStatuses"] == {"running": 4}
    assert status["appliedAcceleratorTopologies"][0]["state"] == "ACTIVE"


def test_a_slice_that_is_lost_while_it_is_created_waits_again(slow: Compute) -> None:
    make_slice(slow, SPOT)
    slow.later(20)
    assert slow.group()["status"]["currentInstanceStatuses"] == {"provisioning": 4}
    slow.cloud.control(f"nodes/local-project/{ZONE}/slice:preempt")
    status = slow.group()["status"]
    assert (status["isStable"], status["bulkInstanceOperation"]["inProgress"]) == (False, True)
    assert status["currentInstanceStatuses"] == {"nonExistent": 4}
    slow.later(200)
    assert slow.group()["status"]["currentInstanceStatuses"] == {"running": 4}


def test_a_creation_that_fails_late(slow: Compute) -> None:
    """A lack of capacity often shows as an internal error after minutes."""
    late = {"error": "operation_internal", "seconds": 720}
    slow.cloud.control(
        "faults", {"kind": "late_failure", "match": {"verb": "create"}, "count": 1, "options": late}
    )
    begun = slow.insert("one")
    slow.later(719)
    assert slow.status("one") == "STAGING"
    slow.later(1)
    assert slow.status("one") == "gone"
    failed = slow.operation(begun["name"])
    assert failed["error"]["errors"][0]["code"] == "INTERNAL_ERROR"


def test_an_instance_of_a_group_is_deleted_and_made_again_by_request(slow: Compute) -> None:
    make_slice(slow)
    slow.later(100)
    name = slow.managed()[0]["name"]
    begun = slow.delete(f"zones/{ZONE}/instances/{name}")
    slow.later(30)
    assert slow.operation(begun["name"])["status"] == "DONE"
    assert slow.status(name) == "gone"
    again = {"instances": [f"{LINK}/zones/{ZONE}/instances/{name}"]}
    slow.post(f"zones/{ZONE}/instanceGroupManagers/slice/recreateInstances", again)
    slow.later(60)
    assert slow.status(name) == "RUNNING"


def test_maintenance_of_one_vm_takes_the_whole_slice(slow: Compute) -> None:
    make_slice(slow)
    slow.later(100)
    names = [each["name"] for each in slow.managed()]
    slow.post(f"zones/{ZONE}/instances/{names[2]}/simulateMaintenanceEvent")
    slow.later(100)
    assert {slow.status(name) for name in names} == {"RUNNING"}
    # The cloud's owner causes one as well.
    begun = slow.cloud.control(f"nodes/local-project/{ZONE}/{names[0]}:maintain", {})
    assert begun["name"].startswith(f"projects/local-project/zones/{ZONE}/operations/")
    assert {slow.status(name) for name in names} == {"RUNNING"}
    slow.later(100)
    assert slow.operation(begun["name"].rpartition("/")[2])["status"] == "DONE"


def test_a_restart_of_the_cloud_forgets_nothing(tmp_path: Any) -> None:
    cloud = Emulator(clock="manual", state_dir=str(tmp_path), delays={"create": 60.0})
    compute = Compute(cloud)
    make_slice(compute)
    flex(compute, "one", 7200)
    compute.later(30)
    cloud.stop()
    cloud.start()
    compute = Compute(cloud)
    compute.later(100)
    assert compute.group()["status"]["currentInstanceStatuses"] == {"running": 4}
    assert compute.status("one") == "RUNNING"
    cloud.stop()


def test_many_instances_are_added_at_once(compute: Compute) -> None:
    body = {key: value for key, value in instance("x").items() if key != "name"}
    compute.cloud.control(
        "populate", {"api": "compute", "zone": ZONE, "count": 3, "prefix": "vm", **body}
    )
    found = compute.get(f"zones/{ZONE}/instances")["items"]
    assert [(each["name"], each["status"]) for each in found] == [
        (f"vm-{index}", "RUNNING") for index in range(3)
    ]
    nodes = compute.cloud.control("state", method="GET")["nodes"]
    assert [node["api"] for node in nodes] == ["compute"] * 3
