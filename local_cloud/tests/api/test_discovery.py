"""Every answer is what Google's discovery documents say, and so is what is accepted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from discovery import check, has_no_zero_values
from emulator import Emulator

ZONE = f"projects/{Emulator.project}/locations/{Emulator.zone}"
BODY: dict[str, Any] = {
    "acceleratorType": "v4-8",
    "runtimeVersion": "tpu-ubuntu2204-base",
    "description": "hello",
    "networkConfig": {"network": "default", "enableExternalIps": True},
    "schedulingConfig": {"preemptible": False, "reserved": False, "spot": True},
    "serviceAccount": {"email": "sa@p.iam.gserviceaccount.com", "scope": ["https://x/y"]},
    "labels": {"a": "b"},
    "metadata": {"foo": "bar"},
    "tags": ["t"],
    "shieldedInstanceConfig": {"enableSecureBoot": True},
}
ALPHA = {
    "schedulingConfig": {"spot": True, "provisioningModel": "SPOT"},
    "bootDiskConfig": {"diskSizeGb": 200},
    "autocheckpointEnabled": True,
}
Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(cloud: Emulator) -> Ask:
    def call(method: str, path: str, **more: Any) -> dict[str, Any]:
        answer = requests.request(method, f"{cloud.url}{path}", timeout=20, **more)
        assert answer.status_code == 200, answer.text
        assert answer.headers["Content-Type"] == "application/json; charset=UTF-8"
        found: dict[str, Any] = answer.json()
        return found

    return call


def end(ask: Ask, version: str, operation: dict[str, Any]) -> dict[str, Any]:
    """Check an operation when it begins and when it is over, and return its response."""
    check(version, "Operation", operation)
    assert isinstance(operation["done"], bool)
    ended = ask("GET", f"{version}/{operation['name']}")
    check(version, "Operation", ended)
    assert ended["done"] is True
    metadata = dict(ended["metadata"])
    assert metadata.pop("@type") == (
        f"type.googleapis.com/google.cloud.tpu.{version}.OperationMetadata"
    )
    check(version, "OperationMetadata", metadata)
    assert metadata["apiVersion"] == version
    return dict(ended["response"])


def check_node(version: str, node: dict[str, Any]) -> None:
    check(version, "Node", node)
    assert has_no_zero_values(node) == []


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_a_life(ask: Ask, version: str) -> None:
    body = {**BODY, **(ALPHA if version == "v2alpha1" else {})}
    check(version, "Node", {k: v for k, v in body.items() if k != "bootDiskConfig"})
    operation = ask("POST", f"{version}/{ZONE}/nodes", params={"nodeId": "n1"}, json=body)
    made = end(ask, version, operation)
    assert made.pop("@type") == f"type.googleapis.com/google.cloud.tpu.{version}.Node"
    check_node(version, made)
    check_node(version, ask("GET", f"{version}/{ZONE}/nodes/n1"))
    listed = ask("GET", f"{version}/{ZONE}/nodes")
    check(version, "ListNodesResponse", listed)
    found = ask("POST", f"{version}/{ZONE}/nodes/n1:getGuestAttributes", json={})
    check(version, "GetGuestAttributesResponse", found)
    mask = {"updateMask": "labels,description"}
    update = ask("PATCH", f"{version}/{ZONE}/nodes/n1", params=mask, json={"labels": {"x": "y"}})
    updated = end(ask, version, update)
    assert updated["labels"] == {"x": "y"}
    assert "description" not in updated
    stopped = end(ask, version, ask("POST", f"{version}/{ZONE}/nodes/n1:stop", json={}))
    assert stopped["state"] == "STOPPED"
    check_node(version, ask("GET", f"{version}/{ZONE}/nodes/n1"))
    check(version, "ListOperationsResponse", ask("GET", f"{version}/{ZONE}/operations"))
    gone = end(ask, version, ask("DELETE", f"{version}/{ZONE}/nodes/n1"))
    assert gone == {"@type": "type.googleapis.com/google.protobuf.Empty"}
    assert ask("GET", f"{version}/{ZONE}/nodes") == {}


@pytest.mark.parametrize(("made_by", "read_by"), [("v2", "v2alpha1"), ("v2alpha1", "v2")])
def test_a_node_is_shown_in_the_fields_of_the_version_that_asks(
    ask: Ask, made_by: str, read_by: str
) -> None:
    body = {**BODY, **(ALPHA if made_by == "v2alpha1" else {})}
    ask("POST", f"{made_by}/{ZONE}/nodes", params={"nodeId": "n1"}, json=body)
    check_node(read_by, ask("GET", f"{read_by}/{ZONE}/nodes/n1"))
    check(read_by, "ListNodesResponse", ask("GET", f"{read_by}/{ZONE}/nodes"))


def test_maintenance(ask: Ask) -> None:
    ask("POST", f"v2alpha1/{ZONE}/nodes", params={"nodeId": "n1"}, json=BODY)
    for verb, body in [
        ("simulateMaintenanceEvent", {"workerIds": ["0"]}),
        ("performMaintenance", {}),
    ]:
        begun = ask("POST", f"v2alpha1/{ZONE}/nodes/n1:{verb}", json=body)
        assert begun["metadata"]["verb"] == verb
        check_node(
            "v2alpha1", {k: v for k, v in end(ask, "v2alpha1", begun).items() if k != "@type"}
        )


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
@pytest.mark.parametrize(
    ("path", "message"),
    [
        (f"projects/{Emulator.project}/locations", "ListLocationsResponse"),
        (ZONE, "Location"),
        (f"{ZONE}/acceleratorTypes", "ListAcceleratorTypesResponse"),
        (f"{ZONE}/acceleratorTypes/v4-8", "AcceleratorType"),
        (f"{ZONE}/runtimeVersions", "ListRuntimeVersionsResponse"),
        (f"{ZONE}/runtimeVersions/tpu-ubuntu2204-base", "RuntimeVersion"),
        (f"{ZONE}/queuedResources", "ListQueuedResourcesResponse"),
        (f"projects/{Emulator.project}/locations/-/nodes", "ListNodesResponse"),
    ],
)
def test_what_can_be_read(ask: Ask, version: str, path: str, message: str) -> None:
    answer = ask("GET", f"{version}/{path}")
    check(version, message, answer)
    assert has_no_zero_values(answer) == []


def test_the_services_own_account(ask: Ask) -> None:
    answer = ask("POST", f"v2/{ZONE}:generateServiceIdentity", json={})
    check("v2", "GenerateServiceIdentityResponse", answer)


def test_many_interfaces_make_many_endpoints(ask: Ask) -> None:
    body = {k: v for k, v in BODY.items() if k != "networkConfig"}
    body |= {
        "acceleratorType": "v4-16",
        "networkConfigs": [BODY["networkConfig"], {"network": "global/networks/default"}],
    }
    ask("POST", f"v2/{ZONE}/nodes", params={"nodeId": "n1"}, json=body)
    node = ask("GET", f"v2/{ZONE}/nodes/n1")
    check_node("v2", node)
    external = [bool(e.get("accessConfig")) for e in node["networkEndpoints"]]
    assert external == [True, False, True, False]
