"""Queued resources over HTTP: every answer is what Google's discovery documents say."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
import requests
from discovery import check, has_no_zero_values
from emulator import Emulator

ZONE = f"projects/{Emulator.project}/locations/{Emulator.zone}"
NODE: dict[str, Any] = {
    "acceleratorType": "v4-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "networkConfig": {"network": "default", "enableExternalIps": True},
    "metadata": {},
    "labels": {"a": "b"},
    "serviceAccount": {},
}
VERSIONS = pytest.mark.parametrize("version", ["v2", "v2alpha1"])


def body(node: str | None = "n1", version: str = "v2", **more: Any) -> dict[str, Any]:
    """Ask for a node, or without a name for two."""
    many = "multisliceParams" if version == "v2" else "multiNodeParams"
    name: dict[str, Any] = {"nodeId": node} if node else {many: {"nodeCount": 2}}
    return {"tpu": {"nodeSpec": [{"parent": ZONE, "node": NODE, **name}]}, **more}


def ask(
    cloud: Emulator, method: str, path: str, version: str = "v2", **more: Any
) -> requests.Response:
    url = f"{cloud.url}{version}/{path}"
    answer = requests.request(method, url, timeout=20, **more)
    assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
    return answer


def create(
    cloud: Emulator, asked: dict[str, Any], name: str = "q", version: str = "v2", **query: str
) -> requests.Response:
    query = {"queuedResourceId": name, **query} if name else query
    return ask(cloud, "POST", f"{ZONE}/queuedResources", version, params=query, json=asked)


def get(cloud: Emulator, path: str, version: str = "v2") -> dict[str, Any]:
    answer = ask(cloud, "GET", f"{ZONE}/{path}", version)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def state(cloud: Emulator, name: str = "q") -> str:
    found = ask(cloud, "GET", f"{ZONE}/queuedResources/{name}")
    return found.json()["state"]["state"] if found.status_code == 200 else str(found.status_code)


def check_queued(version: str, queued: dict[str, Any]) -> None:
    check(version, "QueuedResource", queued)
    assert [w for w in has_no_zero_values(queued) if not w.endswith(EMPTY_MESSAGES)] == []


# Messages that say something by being there.
EMPTY_MESSAGES = (
    "Data",
    ".spot",
    ".guaranteed",
    ".bestEffort",
    ".serviceAccount",
    ".schedulingConfig",
    ".shieldedInstanceConfig",
)


def over(cloud: Emulator, version: str, answer: requests.Response) -> dict[str, Any]:
    """Check an operation, and return it."""
    assert answer.status_code == 200, answer.text
    check(version, "Operation", answer.json())
    path = answer.json()["name"].partition(f"{ZONE}/")[2]
    ended = get(cloud, path, version)
    check(version, "Operation", ended)
    assert ended["done"] is True
    metadata = dict(ended["metadata"])
    metadata.pop("@type")
    check(version, "OperationMetadata", metadata)
    return ended


@VERSIONS
def test_a_life(cloud: Emulator, version: str) -> None:
    more: dict[str, Any] = {"queueingPolicy": {"validUntilDuration": "21600s"}}
    if version == "v2alpha1":
        more |= {"bestEffort": {}, "runDuration": {"maxRunDuration": "14400s"}}
    else:
        more |= {"spot": {}}
    asked = body(None, version, **more)
    check(version, "QueuedResource", asked)
    ended = over(cloud, version, create(cloud, asked, version=version))
    assert ended["metadata"]["verb"] == "create"
    assert ended["metadata"]["target"] == f"{ZONE}/queuedResources/q"
    made = dict(ended["response"])
    kind = made.pop("@type")
    assert kind == f"type.googleapis.com/google.cloud.tpu.{version}.QueuedResource"
    check_queued(version, made)
    assert made["name"] == f"{ZONE}/queuedResources/q"
    found = get(cloud, "queuedResources/q", version)
    check_queued(version, found)
    assert found["state"] == {"state": "ACTIVE", "activeData": {}}
    # One spec for each node, in answers.
    assert [spec["nodeId"] for spec in found["tpu"]["nodeSpec"]] == ["q-0", "q-1"]
    listed = get(cloud, "queuedResources", version)
    check(version, "ListQueuedResourcesResponse", listed)
    nodes = get(cloud, "nodes", version)
    check(version, "ListNodesResponse", nodes)
    assert [node["queuedResource"] for node in nodes["nodes"]] == [made["name"]] * 2
    reset = over(
        cloud, version, ask(cloud, "POST", f"{ZONE}/queuedResources/q:reset", version, json={})
    )
    assert reset["metadata"]["verb"] == "reset"
    again = get(cloud, "nodes", version)
    assert not {n["id"] for n in again["nodes"]} & {n["id"] for n in nodes["nodes"]}
    gone = ask(cloud, "DELETE", f"{ZONE}/queuedResources/q?force=true", version)
    ended = over(cloud, version, gone)["response"]
    if version == "v2alpha1":
        # Google's client for alpha expects what was deleted.
        kind = "type.googleapis.com/google.cloud.tpu.v2alpha1.QueuedResource"
        assert (ended["@type"], ended["name"]) == (kind, made["name"])
        return
    assert ended == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert get(cloud, "queuedResources", version) == {}
    assert get(cloud, "nodes", version) == {}


@VERSIONS
@pytest.mark.parametrize(
    "shown",
    [
        "CREATING",
        "ACCEPTED",
        "WAITING_FOR_RESOURCES",
        "PROVISIONING",
        "ACTIVE",
        "SUSPENDING",
        "SUSPENDED",
        "FAILED",
        "DELETING",
    ],
)
def test_every_state_can_be_put_there_and_seen(cloud: Emulator, version: str, shown: str) -> None:
    asked = {"zone": Emulator.zone, "name": "q", "state": shown, **body()}
    cloud.control("queuedResources", {**asked, "version": "v2"})
    found = get(cloud, "queuedResources/q", version)
    check_queued(version, found)
    assert found["state"]["state"] == shown
    nodes = [node["state"] for node in get(cloud, "nodes").get("nodes", [])]
    expected = {"PROVISIONING": "CREATING", "ACTIVE": "READY", "SUSPENDING": "PREEMPTED"}
    assert nodes == ([expected[shown]] if shown in expected else [])
    assert found["state"].get("stateInitiator") == (
        "SERVICE" if shown in ("SUSPENDING", "SUSPENDED") else None
    )
    if shown == "FAILED":
        assert found["state"]["failedData"]["error"]["code"] == 13
    if shown != "DELETING":
        assert ask(cloud, "DELETE", f"{ZONE}/queuedResources/q?force=1").status_code == 200
        assert state(cloud) == "404"


@pytest.mark.parametrize(("made_by", "read_by"), [("v2", "v2alpha1"), ("v2alpha1", "v2")])
def test_it_is_shown_in_the_fields_of_the_version_that_asks(
    cloud: Emulator, made_by: str, read_by: str
) -> None:
    more = {"bestEffort": {}} if made_by == "v2alpha1" else {"spot": {}}
    assert create(cloud, body(None, made_by, **more), version=made_by).status_code == 200
    check_queued(read_by, get(cloud, "queuedResources/q", read_by))
    check(read_by, "ListNodesResponse", get(cloud, "nodes", read_by))


@pytest.mark.parametrize(
    ("version", "more", "unknown"),
    [
        ("v2", {"bestEffort": {}}, "bestEffort"),
        ("v2", {"provisioningModel": "SPOT"}, "provisioningModel"),
        ("v2", {"runDuration": {"maxRunDuration": "1s"}}, "runDuration"),
        ("v2", {"guaranteed": {"reserved": True}}, "reserved"),
        ("v2", {"wish": 1}, "wish"),
        ("v2alpha1", {"tier": "spot"}, "tier"),
    ],
)
def test_unknown_fields(cloud: Emulator, version: str, more: dict[str, Any], unknown: str) -> None:
    refused = create(cloud, body(version=version, **more), version=version)
    assert refused.status_code == 400
    assert f'Unknown name "{unknown}"' in refused.json()["error"]["message"]


@pytest.mark.parametrize(
    ("version", "field"), [("v2", "multiNodeParams"), ("v2alpha1", "multisliceParams")]
)
def test_many_nodes_are_spelled_differently(cloud: Emulator, version: str, field: str) -> None:
    spec = {"parent": ZONE, "node": NODE, field: {"nodeCount": 2}}
    refused = create(cloud, {"tpu": {"nodeSpec": [spec]}}, version=version)
    assert refused.status_code == 400
    assert refused.json()["error"]["message"] == (
        f'Invalid JSON payload received. Unknown name "{field}" at '
        "'queued_resource.tpu.node_spec[0]': Cannot find field."
    )


def test_snake_case_is_as_good(cloud: Emulator) -> None:
    spec = {
        "parent": ZONE,
        "node_id": "n1",
        "node": {"accelerator_type": "v4-8", "runtime_version": "tpu-ubuntu2204-base"},
    }
    answer = ask(
        cloud,
        "POST",
        f"{ZONE}/queuedResources?queued_resource_id=q&request_id={uuid4()}",
        json={"tpu": {"node_spec": [spec]}, "queueing_policy": {"valid_until_duration": "9s"}},
    )
    assert answer.status_code == 200, answer.text
    assert get(cloud, "queuedResources/q")["queueingPolicy"] == {"validUntilDuration": "9s"}


def test_what_the_service_sets_is_not_taken_from_a_client(cloud: Emulator) -> None:
    create(cloud, body(name="projects/x/y", state={"state": "FAILED"}, createTime="now"))
    assert state(cloud) == "ACTIVE"


def test_without_a_name_one_is_made_up(cloud: Emulator) -> None:
    operation = over(cloud, "v2", create(cloud, body(), name=""))
    (only,) = get(cloud, "queuedResources")["queuedResources"]
    assert operation["metadata"]["target"] == only["name"]


def test_the_same_request_again(cloud: Emulator) -> None:
    one = str(uuid4())
    first = create(cloud, body(), requestId=one).json()
    assert create(cloud, body(), requestId=one).json()["name"] == first["name"]
    other = create(cloud, body("n2"), requestId=one)
    assert (other.status_code, other.json()["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert create(cloud, body(), requestId="1").status_code == 400
    assert create(cloud, body()).status_code == 409


@pytest.mark.parametrize("force", ["true", "True", "1"])
def test_force(cloud: Emulator, force: str) -> None:
    create(cloud, body())
    plain = ask(cloud, "DELETE", f"{ZONE}/queuedResources/q")
    assert (plain.status_code, plain.json()["error"]["status"]) == (400, "FAILED_PRECONDITION")
    for word, status in (("false", 400), ("maybe", 400), (force, 200)):
        answer = ask(cloud, "DELETE", f"{ZONE}/queuedResources/q?force={word}")
        assert answer.status_code == status
    assert (state(cloud), get(cloud, "nodes")) == ("404", {})


def test_lists_go_on_and_over_zones(cloud: Emulator) -> None:
    for name in ("c", "a", "b"):
        create(cloud, body(f"n-{name}"), name)
    elsewhere = "us-central1-a"
    other = body("far")
    other["tpu"]["nodeSpec"][0] |= {
        "parent": ZONE.replace(Emulator.zone, elsewhere),
        "node": {**NODE, "acceleratorType": "v5litepod-4"},
    }
    path = ZONE.replace(Emulator.zone, elsewhere)
    ask(cloud, "POST", f"{path}/queuedResources?queuedResourceId=z", json=other)
    everywhere = ZONE.replace(Emulator.zone, "-")
    names: list[str] = []
    token = ""
    while True:
        query = {"pageSize": "2", "pageToken": token}
        answer = ask(cloud, "GET", f"{everywhere}/queuedResources", params=query).json()
        names += [each["name"].rpartition("/")[2] for each in answer["queuedResources"]]
        token = answer.get("nextPageToken", "")
        if not token:
            break
    assert names == ["z", "a", "b", "c"]
    cloud.fault("unreachable", match={"zone": elsewhere})
    partial = ask(cloud, "GET", f"{everywhere}/queuedResources").json()
    check("v2", "ListQueuedResourcesResponse", partial)
    assert partial["unreachable"] == [path]
    assert len(partial["queuedResources"]) == 3


def test_waiting_for_capacity(cloud: Emulator) -> None:
    cloud.fault("stock_out", match={"zone": Emulator.zone})
    create(cloud, body())
    assert (state(cloud), get(cloud, "nodes")) == ("WAITING_FOR_RESOURCES", {})
    cloud.control("faults", method="DELETE")
    assert state(cloud) == "ACTIVE"


def test_what_the_owner_of_the_cloud_can_do(cloud: Emulator) -> None:
    cloud.fault("stock_out")
    create(cloud, body(spot={}))
    at = f"queuedResources/{Emulator.project}/{Emulator.zone}/q"
    assert cloud.control(f"{at}:grant")["state"] == "ACTIVE"
    assert cloud.control(f"{at}:suspend")["state"] == "SUSPENDED"
    found = get(cloud, "queuedResources/q")["state"]
    assert found == {"state": "SUSPENDED", "stateInitiator": "SERVICE", "suspendedData": {}}
    cloud.control("faults", method="DELETE")
    create(cloud, body(), "q2")
    failed = cloud.control(f"{at}2:fail", {"status": "PERMISSION_DENIED", "message": "no"})
    assert (failed["state"], failed["error"]) == ("FAILED", {"code": 7, "message": "no"})
    shown = cloud.control("state", method="GET")["queued_resources"]
    assert [each["state"] for each in shown] == ["SUSPENDED", "FAILED"]
    for wrong in (f"{at}:lift", f"{at}:suspend"):
        answer = requests.post(f"{cloud.url}_cloud/{wrong}", timeout=20)
        assert answer.status_code == 400


def test_deleting_and_preempting_nodes(cloud: Emulator) -> None:
    create(cloud, body())
    ask(cloud, "DELETE", f"{ZONE}/nodes/n1")
    assert get(cloud, "queuedResources/q")["state"]["stateInitiator"] == "USER"
    assert ask(cloud, "DELETE", f"{ZONE}/queuedResources/q").status_code == 200
    create(cloud, body(spot={}))
    cloud.control(f"nodes/{Emulator.project}/{Emulator.zone}/n1:preempt")
    assert get(cloud, "queuedResources/q")["state"]["stateInitiator"] == "SERVICE"
    assert get(cloud, "nodes") == {}
    refused = ask(cloud, "POST", f"{ZONE}/queuedResources/q:reset", json={})
    assert refused.status_code == 400


@pytest.mark.parametrize("verb", ["stop", "start"])
def test_nodes_are_not_stopped(cloud: Emulator, verb: str) -> None:
    create(cloud, body())
    assert ask(cloud, "POST", f"{ZONE}/nodes/n1:{verb}", json={}).status_code == 400


def test_reservations(cloud: Emulator) -> None:
    assert get(cloud, "reservations", "v2alpha1") == {}
    # Only alpha has the method.
    assert requests.get(f"{cloud.url}v2/{ZONE}/reservations", timeout=20).status_code == 404
    name = f"{ZONE}/reservations/big"
    denied = over(cloud, "v2", create(cloud, body(reservationName=name)))
    assert denied["error"] == {"code": 5, "message": "Reservation not found"}
    declared = {"zone": Emulator.zone, "name": "big", "chips": 8, "accelerator_type": "v4"}
    cloud.control("reservations", declared)
    create(cloud, body(reservationName=name))
    found = get(cloud, "reservations", "v2alpha1")
    check("v2alpha1", "ListReservationsResponse", found)
    (big,) = found["reservations"]
    assert (big["name"], big["state"]) == (name, "ACTIVE")
    assert (big["standard"]["size"], big["standard"]["usage"]) == (8, {"total": "4"})
    assert get(cloud, "nodes/n1")["schedulingConfig"] == {"reserved": True}
    cloud.control(f"reservations/{Emulator.zone}/big", method="DELETE")
    assert get(cloud, "reservations", "v2alpha1") == {}


def test_maintenance(cloud: Emulator) -> None:
    create(cloud, body(None))
    info = ask(cloud, "GET", f"{ZONE}/queuedResources/q:getMaintenanceInfo", "v2alpha1")
    check("v2alpha1", "GetMaintenanceInfoResponse", info.json())
    answer = ask(
        cloud,
        "POST",
        f"{ZONE}/queuedResources/q:performMaintenanceQueuedResource",
        "v2alpha1",
        json={"nodeNames": ["q-0"]},
    )
    done = over(cloud, "v2alpha1", answer)
    assert done["response"]["name"] == f"{ZONE}/queuedResources/q"


def test_it_is_still_there_after_a_restart(tmp_path: Any) -> None:
    cloud = Emulator(state_dir=str(tmp_path))
    cloud.fault("stock_out")
    create(cloud, body())
    cloud.stop()
    cloud.start()
    try:
        assert state(cloud) == "WAITING_FOR_RESOURCES"
        cloud.control("faults", method="DELETE")
        assert state(cloud) == "ACTIVE"
    finally:
        cloud.stop()


@pytest.mark.parametrize(
    "name", ["project_number", "not_found_after_create", "busy", "unknown_fields", "invisible"]
)
def test_faults_that_nodes_have_too(cloud: Emulator, name: str) -> None:
    if name == "invisible":
        cloud.fault(name)
        create(cloud, body())
        assert (state(cloud), get(cloud, "queuedResources")) == ("404", {})
        return
    create(cloud, body())
    cloud.fault(name)
    if name == "busy":
        assert ask(cloud, "DELETE", f"{ZONE}/queuedResources/q?force=1").status_code == 409
    elif name == "not_found_after_create":
        assert state(cloud) == "404"
    elif name == "unknown_fields":
        with pytest.raises(AssertionError, match="provisioningEstimate"):
            check_queued("v2", get(cloud, "queuedResources/q"))
    else:
        assert get(cloud, "queuedResources/q")["name"].startswith("projects/123456789012/")
