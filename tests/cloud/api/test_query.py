"""What methods may be told in the query is done or refused, by Google's discovery documents."""

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
        ("GET", f"v1/{ZONE}/nodes", {"filter": "x"}, ["filter"]),
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
