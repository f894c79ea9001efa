"""What methods take in the query is done or refused, by Google's discovery documents."""

from __future__ import annotations

from typing import Any

import pytest
import requests
from emulator import Emulator

PLACE = f"projects/{Emulator.project}/locations"
ZONE = f"{PLACE}/{Emulator.zone}"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


def call(cloud: Emulator, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, f"{cloud.url}{path}", timeout=30, **more)


def listed(cloud: Emulator, path: str, key: str, **query: str) -> list[dict[str, Any]]:
    answer = call(cloud, "GET", path, params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json().get(key, [])
    return found


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_types_by_a_filter_and_in_an_order(cloud: Emulator, version: str) -> None:
    path, key = f"{version}/{ZONE}/acceleratorTypes", "acceleratorTypes"
    assert [t["type"] for t in listed(cloud, path, key, filter='type="v4-8"')] == ["v4-8"]
    every = [t["type"] for t in listed(cloud, path, key)]
    assert [t["type"] for t in listed(cloud, path, key, orderBy="type desc")] == sorted(
        every, reverse=True
    )
    assert [t["type"] for t in listed(cloud, path, key, order_by="type")] == sorted(every)
    first = call(cloud, "GET", path, params={"filter": "type:v4-1", "pageSize": "1"}).json()
    more = {"filter": "type:v4-1", "pageToken": first["nextPageToken"]}
    rest = listed(cloud, path, key, **more)
    assert [t["type"] for t in first[key] + rest] == [t for t in every if "v4-1" in t]


def test_other_lists_by_a_filter(cloud: Emulator) -> None:
    path = f"v2/{ZONE}/runtimeVersions"
    found = listed(cloud, path, "runtimeVersions", filter="version:ubuntu2204")
    assert [v["version"] for v in found] == ["tpu-ubuntu2204-base"]
    found = listed(cloud, f"v2/{PLACE}", "locations", filter='locationId="us-east1-d"')
    assert [z["locationId"] for z in found] == ["us-east1-d"]


def test_operations_that_are_not_done(cloud: Emulator) -> None:
    call(cloud, "POST", f"v2/{ZONE}/nodes", params={"nodeId": "n1"}, json=BODY)
    cloud.fault("stuck_operation")
    call(cloud, "POST", f"v2/{ZONE}/nodes", params={"nodeId": "n2"}, json=BODY)
    path = f"v2/{ZONE}/operations"
    assert len(listed(cloud, path, "operations")) == 2
    [open_one] = listed(cloud, path, "operations", filter="done=false")
    assert open_one["metadata"]["target"] == f"{ZONE}/nodes/n2"
    assert len(listed(cloud, path, "operations", filter="metadata.verb=create")) == 2


@pytest.mark.parametrize(
    ("method", "path", "query", "names"),
    [
        ("GET", f"v2/{ZONE}/nodes", {"filter": "x"}, ["filter"]),
        ("GET", f"v2/{ZONE}/nodes", {"filter": "x", "frob": "1"}, ["filter", "frob"]),
        ("POST", f"v2/{ZONE}/nodes", {"nodeId": "n1", "requestId": "no-uuid"}, ["requestId"]),
        ("GET", f"v2/{ZONE}/queuedResources", {"orderBy": "name"}, ["orderBy"]),
        ("DELETE", f"v2/{ZONE}/nodes/n1", {"force": "true"}, ["force"]),
        ("POST", f"v2/{ZONE}/nodes/n1:stop", {"now": "1"}, ["now"]),
    ],
)
def test_what_a_method_does_not_have_is_refused(
    cloud: Emulator, method: str, path: str, query: dict[str, str], names: list[str]
) -> None:
    answer = call(cloud, method, path, params=query, json=BODY if method == "POST" else None)
    error = answer.json()["error"]
    assert (answer.status_code, error["status"]) == (400, "INVALID_ARGUMENT")
    assert error["message"].split("\n") == [
        f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
        f"Field '{name}' could not be found in request message."
        for name in names
    ]
    [detail] = error["details"]
    assert detail["@type"].endswith("google.rpc.BadRequest")
    assert len(detail["fieldViolations"]) == len(names)
    assert listed(cloud, f"v2/{ZONE}/nodes", "nodes") == []


@pytest.mark.parametrize(
    ("path", "query", "told"),
    [
        ("nodes", {"pageSize": "many"}, "Invalid value at 'page_size' (TYPE_INT32), \"many\""),
        ("nodes", {"pageSize": "-1"}, "Invalid argument: 'page_size'"),
        ("acceleratorTypes", {"filter": "type="}, "a value is missing after type="),
        ("acceleratorTypes", {"filter": "size=3"}, "there is no field size"),
        ("acceleratorTypes", {"filter": "acceleratorConfigs.size=3"}, "there is no field"),
        ("acceleratorTypes", {"orderBy": "size"}, "Invalid argument: 'order_by'"),
        ("operations", {"filter": "response.name=n"}, ""),
    ],
)
def test_what_cannot_be_meant(cloud: Emulator, path: str, query: dict[str, str], told: str) -> None:
    answer = call(cloud, "GET", f"v2/{ZONE}/{path}", params=query)
    assert answer.status_code == (400 if told else 200)
    assert told in answer.json().get("error", {}).get("message", "")


def test_a_partial_list_of_operations_is_not_had(cloud: Emulator) -> None:
    answer = call(cloud, "GET", f"v2/{ZONE}/operations?returnPartialSuccess=true")
    assert (answer.status_code, answer.json()["error"]["status"]) == (501, "UNIMPLEMENTED")


def test_one_object_is_a_list_of_it(cloud: Emulator) -> None:
    spec = {"parent": ZONE, "nodeId": "n1", "node": BODY}
    asked = {"tpu": {"nodeSpec": spec}, "spot": {}}
    path = f"v2/{ZONE}/queuedResources"
    answer = call(cloud, "POST", path, params={"queuedResourceId": "q1"}, json=asked)
    assert answer.status_code == 200, answer.text
    [made] = listed(cloud, path, "queuedResources")
    assert [s["nodeId"] for s in made["tpu"]["nodeSpec"]] == ["n1"]
    assert [n["name"] for n in listed(cloud, f"v2/{ZONE}/nodes", "nodes")] == [f"{ZONE}/nodes/n1"]


def test_a_fault_by_type_strikes_a_request_with_one_object(cloud: Emulator) -> None:
    cloud.fault("unavailable", match={"accelerator_type": "v4-8"})
    asked = {"tpu": {"nodeSpec": {"parent": ZONE, "nodeId": "n1", "node": BODY}}}
    path = f"v2/{ZONE}/queuedResources"
    assert (
        call(cloud, "POST", path, params={"queuedResourceId": "q"}, json=asked).status_code == 503
    )


def test_best_effort_as_it_is_asked_for_today(cloud: Emulator) -> None:
    spec = {"parent": ZONE, "nodeId": "n1", "node": BODY}
    asked = {"tpu": {"nodeSpec": [spec]}, "bestEffort": {}, "provisioningModel": "SPOT"}
    path = f"v2alpha1/{ZONE}/queuedResources"
    answer = call(cloud, "POST", path, params={"queuedResourceId": "q1"}, json=asked)
    assert answer.status_code == 200, answer.text
    node = call(cloud, "GET", f"v2alpha1/{ZONE}/nodes/n1").json()
    assert (node["state"], node["schedulingConfig"]["provisioningModel"]) == ("READY", "SPOT")


# Compute Engine ------------------------------------------------------------------------------

COMPUTE = f"compute/v1/projects/{Emulator.project}"
DISKS = f"{COMPUTE}/zones/us-east5-a/disks"


@pytest.mark.parametrize(
    ("path", "fields", "expected"),
    [
        ("global/networks", "items/name", {"items": [{"name": "default"}]}),
        ("global/networks", "items(name,mtu),kind",
         {"kind": "compute#networkList", "items": [{"name": "default"}]}),
        ("global/networks/default", "name", {"name": "default"}),
        ("regions/us-east5/subnetworks", "items(ip_cidr_range)", {"items": [{}]}),
        ("aggregated/disks", "items/*/warning/code",
         None),
    ],
)  # fmt: skip
def test_a_part_of_an_answer(cloud: Emulator, path: str, fields: str, expected: Any) -> None:
    answer = call(cloud, "GET", f"{COMPUTE}/{path}", params={"fields": fields})
    assert answer.status_code == 200, answer.text
    if expected is None:
        scopes = answer.json()["items"].values()
        assert all(each == {"warning": {"code": "NO_RESULTS_ON_PAGE"}} for each in scopes)
        return
    assert answer.json() == expected


@pytest.mark.parametrize(
    ("path", "fields", "unknown"),
    [
        (f"v2/{ZONE}/nodes", "nodes/bogus", "nodes.bogus"),
        (f"v2/{ZONE}/nodes", "nodes(name,bogus)", "nodes.bogus"),
        (f"{COMPUTE}/global/networks", "bogus", "bogus"),
        (f"{COMPUTE}/aggregated/disks", "items/*/disks/bogus", "items.*.disks.bogus"),
    ],
)
def test_a_part_that_no_answer_has(cloud: Emulator, path: str, fields: str, unknown: str) -> None:
    answer = call(cloud, "GET", path, params={"fields": fields})
    error = answer.json()["error"]
    assert (answer.status_code, error["message"]) == (400, "Request contains an invalid argument.")
    [violation] = error["details"][0]["fieldViolations"]
    text = f"Cannot find matching fields for path '{unknown}'."
    assert violation["description"] == f"Error expanding 'fields' parameter. {text}"


def test_a_change_is_not_made_if_its_answer_cannot_be_selected(cloud: Emulator) -> None:
    body = {"name": "d"}
    assert call(cloud, "POST", DISKS, json=body, params={"fields": "bogus"}).status_code == 400
    assert listed(cloud, DISKS, "items") == []
    assert call(cloud, "POST", DISKS, json=body, params={"fields": "name"}).json().keys() == {
        "name"
    }


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ({"maxResults": "-1"}, "Invalid value at 'max_results' (TYPE_UINT32), \"-1\""),
        ({"maxResults": "abc"}, "Invalid value at 'max_results' (TYPE_UINT32), \"abc\""),
        ({"maxResults": "501"}, "Must be between 0 and 500, inclusive."),
        ({"filter": "bogus=1"}, "Invalid list filter expression."),
        ({"filter": "name ~ a"}, "Invalid list filter expression."),
        ({"filter": "labels.any=b"}, ""),
        ({"filter": "name eq 'a.*'"}, ""),
        ({"pageToken": "x"}, "invalid page token"),
    ],
)
def test_what_a_list_cannot_be_asked(cloud: Emulator, query: dict[str, str], told: str) -> None:
    for path in (DISKS, f"{COMPUTE}/aggregated/disks"):
        answer = call(cloud, "GET", path, params=query)
        assert answer.status_code == (400 if told else 200)
        assert told in answer.json().get("error", {}).get("message", "")


def test_a_page_token_is_good_for_its_own_list(cloud: Emulator) -> None:
    for name in ("a", "b", "c"):
        for zone in ("us-east5-a", "us-east5-b"):
            path = f"{COMPUTE}/zones/{zone}/disks"
            assert call(cloud, "POST", path, json={"name": name}).status_code == 200
        created = {"nodeId": name}
        assert call(cloud, "POST", f"v2/{ZONE}/nodes", params=created, json=BODY).status_code == 200
    token = call(cloud, "GET", DISKS, params={"maxResults": "1"}).json()["nextPageToken"]
    query = {"pageToken": token, "maxResults": "1"}
    assert [d["name"] for d in listed(cloud, DISKS, "items", **query)] == ["b"]
    for other in (DISKS.replace("5-a", "5-b"), f"{COMPUTE}/aggregated/disks"):
        assert call(cloud, "GET", other, params=query).status_code == 400
    assert call(cloud, "GET", DISKS, params={**query, "filter": "name=c"}).status_code == 400
    nodes = f"v2/{ZONE}/nodes"
    token = call(cloud, "GET", nodes, params={"pageSize": "1"}).json()["nextPageToken"]
    assert call(cloud, "GET", nodes, params={"pageToken": token}).status_code == 200
    for other in (f"v2/{PLACE}/-/nodes", f"v2/{ZONE}/operations"):
        assert call(cloud, "GET", other, params={"pageToken": token}).status_code == 400


@pytest.mark.parametrize(
    ("alt", "status"), [("json", 200), ("", 200), ("proto", 501), ("bogus", 400)]
)
@pytest.mark.parametrize("path", [f"v2/{ZONE}/nodes", DISKS])
def test_the_form_of_an_answer(cloud: Emulator, path: str, alt: str, status: int) -> None:
    assert call(cloud, "GET", path, params={"alt": alt}).status_code == status
    spelled = {"$alt": "json;enum-encoding=int"}
    assert call(cloud, "GET", path, params=spelled).status_code == 200


def test_a_rate_limit_says_how_many(cloud: Emulator) -> None:
    cloud.fault("rate_limit", per_minute=1)
    call(cloud, "GET", f"v2/{ZONE}/nodes")
    [detail] = call(cloud, "GET", f"v2/{ZONE}/nodes").json()["error"]["details"]
    said = {k: v for k, v in detail["metadata"].items() if k.startswith("quota_")}
    assert said["quota_limit_value"] == "1"
    assert set(said) == {
        *("quota_metric", "quota_limit", "quota_limit_value", "quota_location", "quota_unit"),
    }
