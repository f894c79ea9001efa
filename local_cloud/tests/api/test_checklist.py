"""What a client may rely on, point by point: the traps into which emulators of this API fall."""

from __future__ import annotations

import base64
import re
from itertools import product
from typing import Any

import pytest
import requests
from emulator import Emulator

from tpu_local_cloud.model.shared.faults import KINDS

PARENT = f"projects/{Emulator.project}/locations/{Emulator.zone}"
BODY = {"acceleratorType": "v4-16", "runtimeVersion": "tpu-ubuntu2204-base"}
STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


def call(cloud: Emulator, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, f"{cloud.url}{path}", timeout=30, **more)


def create(cloud: Emulator, name: str = "n1", version: str = "v2", **more: Any) -> Any:
    url = f"{version}/{PARENT}/nodes?nodeId={name}"
    answer = call(cloud, "POST", url, json={**BODY, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()


# 1. Paths, verbs, bodies, queries -------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "path"),
    [
        *product(("v2", "v2alpha1", "v1"), ("", f"/{Emulator.zone}")),
        *product(("v2", "v2alpha1"), (f"/{Emulator.zone}/nodes", "/-/nodes")),
    ],
)
def test_1_all_versions_on_one_port(cloud: Emulator, version: str, path: str) -> None:
    answer = call(cloud, "GET", f"{version}/projects/{cloud.project}/locations{path}")
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        f"{PARENT}/nodes/n1",
        f"{PARENT}/nodes/n%31",
        f"{PARENT}/nodes/%6e1".replace("us-central2-b", "us%2Dcentral2%2Db"),
    ],
)
def test_1_paths_are_decoded(cloud: Emulator, path: str) -> None:
    create(cloud)
    assert call(cloud, "GET", f"v2/{path}").json()["name"] == f"{PARENT}/nodes/n1"


@pytest.mark.parametrize("colon", [":", "%3A", "%3a"])
def test_1_verbs_stand_after_a_colon(cloud: Emulator, colon: str) -> None:
    create(cloud)
    answer = call(cloud, "POST", f"v2/{PARENT}/nodes/n1{colon}getGuestAttributes", json={})
    assert len(answer.json()["guestAttributes"]) == 2


@pytest.mark.parametrize("body", [None, b"", b"{}", b" \n"])
def test_1_a_body_may_be_absent(cloud: Emulator, body: bytes | None) -> None:
    create(cloud, acceleratorType="v4-8")
    stopped = call(cloud, "POST", f"v2/{PARENT}/nodes/n1:stop", data=body)
    assert stopped.status_code == 200
    assert call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()["state"] == "STOPPED"


def test_1_a_whole_node_may_be_sent_back(cloud: Emulator) -> None:
    create(cloud)
    node = call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()
    changed = {**node, "description": "new", "tags": ["not in the mask"]}
    url = f"v2/{PARENT}/nodes/n1?updateMask=description"
    assert call(cloud, "PATCH", url, json=changed).status_code == 200
    after = call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()
    assert after == {**node, "description": "new"}


@pytest.mark.parametrize(
    "query",
    [
        "alt=json",
        "$alt=json;enum-encoding=int",
        "prettyPrint=false",
        "key=x&quotaUser=y",
        "$.xgafv=2",
    ],
)
def test_1_what_every_method_may_be_told_means_nothing_here(cloud: Emulator, query: str) -> None:
    create(cloud)
    plain = call(cloud, "GET", f"v2/{PARENT}/nodes").json()
    assert call(cloud, "GET", f"v2/{PARENT}/nodes?{query}").json() == plain


def test_1_pretty_print_can_be_switched_off(cloud: Emulator) -> None:
    create(cloud)
    url = f"v2/{PARENT}/nodes/n1"
    assert len(call(cloud, "GET", url).text.splitlines()) > 5
    assert len(call(cloud, "GET", f"{url}?prettyPrint=false").text.splitlines()) == 1


def test_1_a_part_of_an_answer_may_be_asked_for(cloud: Emulator) -> None:
    create(cloud)
    url = f"v2/{PARENT}/nodes?fields=nodes(name,acceleratorConfig/type),nextPageToken"
    part = {"name": f"{PARENT}/nodes/n1", "acceleratorConfig": {"type": "V4"}}
    assert call(cloud, "GET", url).json() == {"nodes": [part]}
    assert call(cloud, "GET", f"v2/{PARENT}/nodes?fields=nodes(").status_code == 400


@pytest.mark.parametrize("force", ["true", "True", "1"])
def test_1_force_in_all_spellings(cloud: Emulator, force: str) -> None:
    spec = {"parent": PARENT, "nodeId": "n1", "node": BODY}
    url = f"v2/{PARENT}/queuedResources?queuedResourceId=q1"
    call(cloud, "POST", url, json={"tpu": {"nodeSpec": [spec]}}).raise_for_status()
    one = f"v2/{PARENT}/queuedResources/q1"
    assert call(cloud, "DELETE", one).status_code == 400
    assert call(cloud, "DELETE", f"{one}?force={force}").status_code == 200


# 2. JSON --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["-/nodes", "-/queuedResources", "-/operations", f"{Emulator.zone}/nodes"]
)
def test_2_an_empty_list_is_an_empty_object(cloud: Emulator, path: str) -> None:
    answer = call(cloud, "GET", f"v2/projects/{cloud.project}/locations/{path}")
    assert answer.json() == {}


def test_2_what_is_empty_is_left_out(cloud: Emulator) -> None:
    create(
        cloud,
        description="",
        tags=[],
        labels={},
        schedulingConfig={"spot": False, "preemptible": False},
        networkConfig={"enableExternalIps": False},
        shieldedInstanceConfig={"enableSecureBoot": False},
    )
    node = call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()
    assert not {"description", "tags", "labels", "dataDisks", "multisliceNode"} & set(node)
    for empty in ("schedulingConfig", "shieldedInstanceConfig"):
        assert node[empty] == {}
    assert "enableExternalIps" not in node["networkConfig"]
    assert all("accessConfig" not in endpoint for endpoint in node["networkEndpoints"])


def test_2_types_of_values(cloud: Emulator) -> None:
    operation = create(cloud)
    node = call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()
    assert isinstance(node["id"], str)
    assert node["id"].isdigit()
    assert int(node["id"]) < 2**63
    assert node["state"] == "READY"
    assert node["acceleratorConfig"] == {"type": "V4", "topology": "2x2x2"}
    assert STAMP.fullmatch(node["createTime"])
    assert STAMP.fullmatch(operation["metadata"]["createTime"])


def test_2_int64s_and_durations_are_strings(cloud: Emulator) -> None:
    spec = {"parent": PARENT, "nodeId": "n1"}
    spec |= {"node": {**BODY, "bootDiskConfig": {"diskSizeGb": 200}}}
    body = {"tpu": {"nodeSpec": [spec]}, "runDuration": {"maxRunDuration": "21600s"}}
    url = f"v2alpha1/{PARENT}/queuedResources?queuedResourceId=q1"
    call(cloud, "POST", url, json=body).raise_for_status()
    shown = call(cloud, "GET", f"v2alpha1/{PARENT}/queuedResources/q1").json()
    assert shown["runDuration"]["maxRunDuration"] == "21600s"
    assert shown["tpu"]["nodeSpec"][0]["node"]["bootDiskConfig"] == {"diskSizeGb": "200"}


def test_2_unknown_fields_are_refused_by_name_and_place(cloud: Emulator) -> None:
    body = {**BODY, "frob": 1, "networkConfig": {"nat": True}}
    answer = call(cloud, "POST", f"v2/{PARENT}/nodes?nodeId=n1", json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["message"].splitlines() == [
        "Invalid JSON payload received. Unknown name \"frob\" at 'node': Cannot find field.",
        "Invalid JSON payload received. Unknown name \"nat\" at 'node.network_config': "
        "Cannot find field.",
    ]
    [detail] = error["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert [each["field"] for each in detail["fieldViolations"]] == ["node", "node.network_config"]


def test_2_requests_may_be_spelled_with_underscores(cloud: Emulator) -> None:
    body = {
        "accelerator_config": {"type": "V4", "topology": "2x2x2"},
        "runtime_version": BODY["runtimeVersion"],
        "network_config": {"enable_external_ips": True},
    }
    url = f"v2/{PARENT}/nodes?node_id=n1"
    assert call(cloud, "POST", url, json=body).status_code == 200
    node = call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()
    assert node["acceleratorType"] == "v4-16"
    assert all("externalIp" in each["accessConfig"] for each in node["networkEndpoints"])


# 3. Operations --------------------------------------------------------------------------------


@pytest.mark.parametrize("made_by", ["v2", "v2alpha1"])
@pytest.mark.parametrize("asked_by", ["v2", "v2alpha1"])
def test_3_operations_are_there_in_all_versions(
    cloud: Emulator, made_by: str, asked_by: str
) -> None:
    name = create(cloud, version=made_by)["name"]
    number = r"operation-\d{13}-[0-9a-f]{13}-[0-9a-f]{8}-[0-9a-f]{8}"
    assert re.fullmatch(f"{PARENT}/operations/{number}", name)
    done = call(cloud, "GET", f"{asked_by}/{name}").json()
    assert done["done"] is True
    # Its type is that of the version by which it began, whoever asks.
    assert done["response"]["@type"] == f"type.googleapis.com/google.cloud.tpu.{made_by}.Node"


def test_3_done_is_said_when_it_is_false() -> None:
    with Emulator(clock="manual") as cloud:
        operation = create(cloud)
        assert operation["done"] is False
        assert not {"response", "error"} & set(operation)
        assert operation["metadata"]["verb"] == "create"
        assert operation["metadata"]["target"] == f"{PARENT}/nodes/n1"
        assert operation["metadata"]["cancelRequested"] is False


def test_3_what_is_done_holds_the_whole_resource(cloud: Emulator) -> None:
    made = call(cloud, "GET", f"v2/{create(cloud)['name']}").json()
    node = call(cloud, "GET", f"v2/{PARENT}/nodes/n1").json()
    kind = {"@type": "type.googleapis.com/google.cloud.tpu.v2.Node"}
    assert made["response"] == {**kind, **node}
    assert STAMP.fullmatch(made["metadata"]["endTime"])
    gone = call(cloud, "DELETE", f"v2/{PARENT}/nodes/n1").json()
    gone = call(cloud, "GET", f"v2/{gone['name']}").json()
    assert gone["response"] == {"@type": "type.googleapis.com/google.protobuf.Empty"}


def test_3_operations_are_cancelled_listed_and_deleted() -> None:
    with Emulator(clock="manual") as cloud:
        name = create(cloud)["name"]
        assert call(cloud, "POST", f"v2/{name}:cancel", json={}).json() == {}
        cancelled = call(cloud, "GET", f"v2/{name}").json()
        assert (cancelled["done"], cancelled["error"]["code"]) == (True, 1)
        assert cancelled["metadata"]["cancelRequested"] is True
        assert call(cloud, "GET", f"v2/{PARENT}/nodes/n1").status_code == 404
        [listed] = call(cloud, "GET", f"v2/{PARENT}/operations").json()["operations"]
        assert listed == cancelled
        assert call(cloud, "DELETE", f"v2/{name}").json() == {}
        assert call(cloud, "GET", f"v2/{name}").status_code == 404


def test_3_in_the_wrong_zone_there_is_no_operation(cloud: Emulator) -> None:
    name = create(cloud)["name"].replace("us-central2-b", "us-east5-a")
    assert call(cloud, "GET", f"v2/{name}").status_code == 404


# 4. Knobs -------------------------------------------------------------------------------------

KNOBS = {
    "stock-out": "stock_out",
    "quota": "quota",
    "rate limit": "rate_limit",
    "API off": "api_disabled",
    "permission": "iam_denied",
    "closed zone": "location_denied",
    "billing": "billing_disabled",
    "no right to queue": "queue_denied",
    "404 after create": "invisible",
    "unreachable zones": "unreachable",
    "page size": "page_size",
    "operations that never finish": "stuck_operation",
    "guest attributes missing": "guest_attributes_missing",
    "guest attributes empty": "guest_attributes_empty",
    "guest attributes in part": "guest_attributes_partial",
    "project number": "project_number",
    "unknown enums and fields": "unknown_fields",
    "409 while an operation runs": "busy",
    "HTML 502": "bad_gateway",
}


@pytest.mark.parametrize("kind", KNOBS.values(), ids=KNOBS.keys())
def test_4_each_knob_can_be_turned_on_and_off(cloud: Emulator, kind: str) -> None:
    """What each does is in test_faults."""
    assert kind in KINDS
    cloud.fault(kind)
    assert [fault["kind"] for fault in cloud.control("faults", method="GET")["faults"]] == [kind]
    assert cloud.control("faults", method="DELETE")["faults"] == []


def test_4_one_operation_at_a_time() -> None:
    with Emulator(clock="manual") as cloud:
        create(cloud)
        url = f"v2/{PARENT}/nodes/n1?updateMask=tags"
        answer = call(cloud, "PATCH", url, json={"tags": ["t"]})
        assert (answer.status_code, answer.json()["error"]["status"]) == (409, "ABORTED")


def test_4_updates_have_no_place_in_a_dead_node(cloud: Emulator) -> None:
    create(cloud)
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/n1:preempt")
    url = f"v2/{PARENT}/nodes/n1?updateMask=tags"
    error = call(cloud, "PATCH", url, json={"tags": ["t"]}).json()["error"]
    text = "Cloud TPU received a bad request. update is not supported while in state PREEMPTED"
    assert re.fullmatch(re.escape(text) + r" \[EID: 0x[0-9a-f]+\]", error["message"])


# 5. Guest attributes --------------------------------------------------------------------------


def guests(cloud: Emulator, **body: Any) -> Any:
    answer = call(cloud, "POST", f"v2/{PARENT}/nodes/n1:getGuestAttributes", json=body)
    return answer.json()["guestAttributes"]


def test_5_without_a_worker_all_are_meant(cloud: Emulator) -> None:
    create(cloud, acceleratorType="v4-32")
    whole = guests(cloud)
    assert len(whole) == 4
    assert guests(cloud, workerIds=[""]) == whole
    assert guests(cloud, workerIds=[]) == whole


def test_5_the_order_is_that_of_the_workers(cloud: Emulator) -> None:
    create(cloud, acceleratorType="v4-32")
    names = [
        item["value"]
        for worker in guests(cloud, queryPath="tpu/hostname")
        for item in worker["queryValue"]["items"]
    ]
    assert [name.rpartition("-w-")[2] for name in names] == ["0", "1", "2", "3"]
    assert guests(cloud, workerIds=["2"]) == [guests(cloud)[2]]


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", {"guestInventory", "hostkeys", "tpu"}),
        ("hostkeys/", {"hostkeys"}),
        ("hostkeys/ssh-ed25519", {"hostkeys"}),
        ("hostkeys/ssh-dss", set()),
        ("frob/", set()),
    ],
)
def test_5_a_path_chooses(cloud: Emulator, path: str, found: set[str]) -> None:
    create(cloud)
    for worker in guests(cloud, queryPath=path):
        items = worker.get("queryValue", {}).get("items", [])
        assert {item["namespace"] for item in items} == found


# 6. What gcloud needs for ssh -----------------------------------------------------------------


def test_6_the_project_has_a_fingerprint_that_can_be_decoded(cloud: Emulator) -> None:
    project = call(cloud, "GET", f"compute/v1/projects/{cloud.project}").json()
    fingerprint = project["commonInstanceMetadata"]["fingerprint"]
    assert base64.b64decode(fingerprint, validate=True)
