"""Compute Engine's catalog, policies, templates and reservations, asked as clients ask them.

What is answered is checked against Google's discovery document.
"""

from __future__ import annotations

import json
import re
import runpy
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
from discovery import COMPUTE, check, document, response_of
from emulator import Emulator
from google_clients import discovered_compute

from tpu_local_cloud.model.shared.schema import document as ours

ROOT = Path(__file__).resolve().parents[3]
PROJECT = f"projects/{Emulator.project}"
IMAGES = "projects/ubuntu-os-accelerator-images"
V6E, V7X = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e", "ubuntu-accel-2404-amd64-tpu-tpu7x"
R, Z = "regions/us-central1", "zones/us-central1-c"
POLICY = {
    "name": "wp",
    "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "2x2x2"},
}
TEMPLATE: dict[str, Any] = {
    "name": "it",
    "properties": {
        "machineType": "tpu7x-standard-4t",
        "disks": [
            {
                "boot": True,
                "initializeParams": {"sourceImage": f"{IMAGES}/global/images/family/{V7X}"},
            }
        ],
        "networkInterfaces": [{"network": "global/networks/default"}],
        "metadata": {"items": [{"key": "enable-guest-attributes", "value": "TRUE"}]},
    },
}
RESERVATION = {
    "name": "r1",
    "specificReservation": {
        "count": "2",
        "instanceProperties": {"machineType": "tpu7x-standard-4t"},
    },
    "specificReservationRequired": True,
}
Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def serving() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


@pytest.fixture
def cloud(serving: Emulator) -> Emulator:
    serving.control("reset")
    return serving


@pytest.fixture
def fresh() -> Iterator[Emulator]:
    """A cloud of its own for a test that lets time pass."""
    with Emulator() as emulator:
        yield emulator


@pytest.fixture
def ask(cloud: Emulator) -> Ask:
    """Ask the cloud that most tests share."""
    return asking(cloud)


def asking(cloud: Emulator) -> Ask:
    """Return what asks, checks the form of the answer, and returns its body."""

    def ask(method: str, path: str, body: Any = None, status: int = 200, **query: str) -> Any:
        whole = f"compute/v1/{path if path.startswith('projects/') else f'{PROJECT}/{path}'}"
        answer = requests.request(method, cloud.url + whole, json=body, params=query, timeout=60)
        assert answer.status_code == status, answer.text
        if status == 200:
            check(
                COMPUTE,
                response_of(COMPUTE, method, whole.removeprefix("compute/v1/")),
                answer.json(),
            )
            return answer.json()
        error = answer.json()["error"]
        assert error["code"] == status
        assert error["errors"][0]["message"] == error["message"]
        return error["message"]

    return ask


def test_our_part_of_the_document_is_googles() -> None:
    """Renew it with local_cloud/scripts/cut_compute_document.py when the installed one is newer."""
    cut = runpy.run_path(str(ROOT / "local_cloud/scripts/cut_compute_document.py"))["cut"]
    assert json.loads(json.dumps(cut(document(COMPUTE)))) == ours(COMPUTE)


def test_machine_types(ask: Ask) -> None:
    listed = ask("GET", f"{Z}/machineTypes")["items"]
    assert [item["name"] for item in listed] == ["tpu7x-standard-4t", "tpu7x-standard-4t-tpu"]
    one = ask("GET", f"{Z}/machineTypes/tpu7x-standard-4t")
    assert one == listed[0]
    assert one["accelerators"] == [{"guestAcceleratorType": "tpu7x", "guestAcceleratorCount": 4}]
    assert (one["guestCpus"], one["memoryMb"]) == (224, 960 * 1024)
    everywhere = ask("GET", "aggregated/machineTypes", filter='name eq "ct6e-standard-8t"')
    found = [z for z, scope in everywhere["items"].items() if "machineTypes" in scope]
    assert "zones/us-east5-a" in found
    assert Z not in found
    refused = ask("GET", f"{Z}/machineTypes/ct6e-standard-1t", status=404)
    assert refused == f"The resource '{PROJECT}/{Z}/machineTypes/ct6e-standard-1t' was not found"
    unknown = "Invalid value for field 'zone': 'nowhere'. Unknown zone."
    assert ask("GET", "zones/nowhere/machineTypes", status=400) == unknown


def test_zones_and_regions(ask: Ask) -> None:
    zones = [item["name"] for item in ask("GET", "zones")["items"]]
    assert {"us-central1-ai1a", "us-central2-b"} <= set(zones)
    assert ask("GET", Z)["region"].endswith(R)
    region = ask("GET", R)
    assert any(link.endswith("us-central1-ai1a") for link in region["zones"])
    assert region in ask("GET", "regions")["items"]
    assert "was not found" in ask("GET", "regions/mars", status=404)
    assert "items" not in ask("GET", f"{Z}/acceleratorTypes")
    ask("GET", "aggregated/acceleratorTypes", includeAllScopes="True", returnPartialSuccess="True")


def test_images(ask: Ask) -> None:
    newest = ask("GET", f"{IMAGES}/global/images/family/{V6E}")
    assert newest["diskSizeGb"] == "10"
    assert ask("GET", f"{IMAGES}/global/images/{newest['name']}") == newest
    view = ask("GET", f"{IMAGES}/zones/-/imageFamilyViews/{V6E}")
    assert view == {"image": newest}
    listed = ask("GET", f"{IMAGES}/global/images", filter=f"family={V6E}")["items"]
    assert [item.get("deprecated", {}).get("state") for item in listed] == [None, "DEPRECATED"]
    assert "items" not in ask("GET", "global/images")
    refused = ask("GET", f"{IMAGES}/global/images/family/none", status=404)
    assert refused == f"The resource '{IMAGES}/global/images/family/none' was not found"


def test_policies(ask: Ask) -> None:
    begun = ask("POST", f"{R}/resourcePolicies", POLICY)
    assert begun["targetLink"].endswith(f"{PROJECT}/{R}/resourcePolicies/wp")
    assert ask("POST", f"{R}/operations/{begun['name']}/wait")["status"] == "DONE"
    policy = ask("GET", f"{R}/resourcePolicies/wp")
    assert policy["id"] == begun["targetId"]
    assert policy["workloadPolicy"] == POLICY["workloadPolicy"]
    assert re.search(r"\.\d{3}[-+]\d\d:\d\d$", policy["creationTimestamp"])
    assert ask("GET", f"{R}/resourcePolicies")["items"] == [policy]
    query = {"includeAllScopes": "True", "returnPartialSuccess": "True", "maxResults": "500"}
    scopes = ask("GET", "aggregated/resourcePolicies", **query)["items"]
    assert scopes[R] == {"resourcePolicies": [policy]}
    assert scopes[Z]["warning"]["code"] == "NO_RESULTS_ON_PAGE"
    taken = ask("POST", f"{R}/resourcePolicies", POLICY, 409)
    assert taken == f"The resource '{PROJECT}/{R}/resourcePolicies/wp' already exists"
    ask("DELETE", f"{R}/resourcePolicies/wp")
    assert "was not found" in ask("DELETE", f"{R}/resourcePolicies/wp", status=404)


@pytest.mark.parametrize("scope", ["global", R])
def test_templates(ask: Ask, scope: str) -> None:
    begun = ask("POST", f"{scope}/instanceTemplates", TEMPLATE)
    assert ask("POST", f"{scope}/operations/{begun['name']}/wait")["status"] == "DONE"
    template = ask("GET", f"{scope}/instanceTemplates/it")
    assert template["properties"]["metadata"]["items"][0]["value"] == "TRUE"
    assert template["properties"]["metadata"]["fingerprint"]
    assert template["properties"]["disks"] == TEMPLATE["properties"]["disks"]
    assert ("region" in template) == (scope == R)
    assert ask("GET", f"{scope}/instanceTemplates")["items"] == [template]
    scopes = ask("GET", "aggregated/instanceTemplates")["items"]
    assert scopes[scope] == {"instanceTemplates": [template]}
    assert "already exists" in ask("POST", f"{scope}/instanceTemplates", TEMPLATE, 409)
    ask("DELETE", f"{scope}/instanceTemplates/it")
    assert "was not found" in ask("GET", f"{scope}/instanceTemplates/it", status=404)


def test_a_template_accepts_what_an_instance_does_not(ask: Ask) -> None:
    """The machine types of v5e are refused only when a VM is created."""
    properties = {**TEMPLATE["properties"], "machineType": "ct5lp-hightpu-1t"}
    ask("POST", "global/instanceTemplates", {"name": "it", "properties": properties})


def test_reservations(ask: Ask) -> None:
    begun = ask("POST", f"{Z}/reservations", RESERVATION)
    assert ask("GET", f"{Z}/operations/{begun['name']}")["status"] == "DONE"
    reservation = ask("GET", f"{Z}/reservations/r1")
    assert reservation["specificReservation"]["inUseCount"] == "0"
    assert reservation["status"] == "READY"
    assert ask("GET", f"{Z}/reservations")["items"] == [reservation]
    assert ask("GET", "aggregated/reservations")["items"][Z] == {"reservations": [reservation]}
    assert "already exists" in ask("POST", f"{Z}/reservations", RESERVATION, 409)
    ask("DELETE", f"{Z}/reservations/r1")
    assert "was not found" in ask("GET", f"{Z}/reservations/r1", status=404)


def test_a_reservation_of_chips(ask: Ask) -> None:
    family = "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X"
    body = {"name": "all", "aggregateReservation": {"vmFamily": family, "workloadType": "BATCH"}}
    ask("POST", f"{Z}/reservations", body)
    assert ask("GET", f"{Z}/reservations/all")["aggregateReservation"]["vmFamily"] == family


WEEK: dict[str, Any] = {
    "name": "week",
    "reservationMode": "CALENDAR",
    "planningStatus": "SUBMITTED",
    "timeWindow": {"startTime": "2036-12-01T00:00:00Z", "duration": {"seconds": "604800"}},
    "aggregateReservation": {
        "vmFamily": "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X",
        "reservedResources": [{"accelerator": {"acceleratorCount": 16}}],
        "workloadType": "BATCH",
    },
}


def test_a_future_reservation_becomes_one_for_a_week(fresh: Emulator) -> None:
    ask = asking(fresh)
    begun = ask("POST", f"{Z}/futureReservations", WEEK)
    assert ask("GET", f"{Z}/operations/{begun['name']}")["status"] == "DONE"
    asked = ask("GET", f"{Z}/futureReservations/week")
    assert asked["status"] == {"procurementStatus": "APPROVED"}
    assert asked["reservationName"] == "week-20361201-0001"
    assert ask("GET", f"{Z}/futureReservations")["items"] == [asked]
    everywhere = ask("GET", "aggregated/futureReservations")["items"]
    assert everywhere[Z] == {"futureReservations": [asked]}
    assert "items" not in ask("GET", f"{Z}/reservations")
    path = f"{Z}/futureReservations/week"
    for refused in (("DELETE", path), ("POST", f"{path}/cancel")):
        assert "can be neither cancelled nor deleted" in ask(*refused, status=400)

    start = datetime(2036, 12, 1, tzinfo=UTC).timestamp()
    fresh.control("clock", {"advance": start - time.time() + 3600})
    (made,) = ask("GET", f"{Z}/reservations")["items"]
    assert made["name"] == asked["reservationName"]
    assert made["aggregateReservation"] == WEEK["aggregateReservation"]
    status = ask("GET", path)["status"]
    assert status["procurementStatus"] == "FULFILLED"
    assert status["autoCreatedReservations"] == [made["selfLink"]]
    fresh.control("clock", {"advance": 7 * 86400})
    assert "items" not in ask("GET", f"{Z}/reservations")


def test_a_future_reservation_that_people_decide_on(ask: Ask) -> None:
    body = {**WEEK, "reservationMode": "DEFAULT"}
    path = f"{Z}/futureReservations/week"
    for status in ("DRAFT", "SUBMITTED"):
        ask("POST", f"{Z}/futureReservations", {**body, "planningStatus": status})
        shown = ask("GET", path)["status"]["procurementStatus"]
        assert shown == {"DRAFT": "DRAFTING", "SUBMITTED": "PENDING_APPROVAL"}[status]
        ask("POST", f"{path}/cancel")
        assert ask("GET", path)["status"]["procurementStatus"] == "CANCELLED"
        ask("DELETE", path)
        assert "was not found" in ask("GET", path, status=404)


def test_vms_are_reserved_for_a_week(fresh: Emulator) -> None:
    ask = asking(fresh)
    properties = {"machineType": "tpu7x-standard-4t"}
    sku = {"totalCount": "2", "instanceProperties": properties}
    body = {k: v for k, v in WEEK.items() if k != "aggregateReservation"}
    ask("POST", f"{Z}/futureReservations",
        {**body, "specificSkuProperties": sku, "reservationName": "two"})  # fmt: skip
    start = datetime(2036, 12, 1, tzinfo=UTC).timestamp()
    fresh.control("clock", {"advance": start - time.time() + 3600})
    made = ask("GET", f"{Z}/reservations/two")
    assert made["specificReservation"]["count"] == "2"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"timeWindow": {"startTime": "2036-12-01T00:00:00Z"}}, "endTime and duration"),
        ({"timeWindow": {"startTime": "soon", "endTime": "2036-12-01T00:00:00Z"}}, "RFC 3339"),
        (
            {"timeWindow": {"startTime": "2016-12-01T00:00:00Z", "duration": {"seconds": "86400"}}},
            "must be in the future",
        ),
        (
            {"timeWindow": {"startTime": "2036-12-01T00:00:00Z", "duration": {"seconds": "600"}}},
            "from 1 to 90 days",
        ),
        (
            {
                "timeWindow": {
                    "startTime": "2036-12-01T00:00:00Z",
                    "endTime": "2036-11-01T00:00:00Z",
                }
            },
            "after the start time",
        ),
        (
            {
                "aggregateReservation": {
                    "vmFamily": "VM_FAMILY_CLOUD_TPU_POD_SLICE_TPU7X",
                    "reservedResources": [{"accelerator": {"acceleratorCount": 12}}],
                }
            },
            "one of 1, 4, 8, 16",
        ),
        (
            {"aggregateReservation": {"vmFamily": "VM_FAMILY_CLOUD_TPU_LITE_POD_SLICE_CT6E"}},
            "not available in us-central1-c",
        ),
        ({"specificSkuProperties": {"totalCount": "1"}}, "Exactly one of specificSkuProperties"),
    ],
)
def test_refused_future_reservations(ask: Ask, more: dict[str, Any], why: str) -> None:
    assert why in ask("POST", f"{Z}/futureReservations", {**WEEK, **more}, 400)


@pytest.mark.parametrize(
    ("path", "body", "why"),
    [
        (f"{R}/resourcePolicies", {**POLICY, "name": "Wp"}, "resource.name': 'Wp'"),
        (f"{R}/resourcePolicies", {"name": "wp"}, "exactly one of"),
        (
            f"{R}/resourcePolicies",
            {"name": "wp", "workloadPolicy": {}},
            "workloadPolicy.type': ''",
        ),
        (
            f"{R}/resourcePolicies",
            {
                "name": "wp",
                "workloadPolicy": {"type": "HIGH_AVAILABILITY", "acceleratorTopology": "2x2x2"},
            },
            "requires the workload policy type HIGH_THROUGHPUT",
        ),
        (
            f"{R}/resourcePolicies",
            {
                "name": "wp",
                "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "v6e"},
            },
            "acceleratorTopology': 'v6e'",
        ),
        (
            f"{R}/resourcePolicies",
            {"name": "wp", "workloadPolicy": {"type": "FAST"}},
            "Invalid value at 'resource.workload_policy.type'",
        ),
        (
            f"{R}/resourcePolicies",
            {**POLICY, "topology": "2x2x2"},
            "Invalid JSON payload received. Unknown name \"topology\" at 'resource': "
            "Cannot find field.",
        ),
        ("global/instanceTemplates", {"name": "it"}, "properties.machineType"),
        (
            "global/instanceTemplates",
            {"name": "it", "properties": {**TEMPLATE["properties"], "disks": []}},
            "properties.disks': ''. No disks are specified.",
        ),
        (
            "global/instanceTemplates",
            {"name": "it", "properties": {**TEMPLATE["properties"], "networkInterfaces": []}},
            "networkInterfaces': ''. At least one network interface is required.",
        ),
        (
            "global/instanceTemplates",
            {
                "name": "it",
                "properties": {
                    **TEMPLATE["properties"],
                    "machineType": "zones/us-central1-c/machineTypes/tpu7x-standard-4t",
                },
            },
            "Must be a match of regex",
        ),
        (
            "global/instanceTemplates",
            {
                "name": "it",
                "properties": {
                    **TEMPLATE["properties"],
                    "disks": [{"initializeParams": {"sourceImage": "global/images/mine"}}],
                },
            },
            "disks[0].initializeParams.sourceImage': 'global/images/mine'. The referenced image",
        ),
        (
            # Only an instance may say how long its request is valid.
            "global/instanceTemplates",
            {**TEMPLATE, "params": {"requestValidForDuration": {"seconds": "7200"}}},
            "Unknown name \"params\" at 'resource'",
        ),
        (
            "global/instanceTemplates",
            {
                "name": "it",
                "properties": {
                    **TEMPLATE["properties"],
                    "scheduling": {"maxRunDuration": "3600s"},
                },
            },
            "Invalid value at 'resource.properties.scheduling.max_run_duration'",
        ),
        (f"{Z}/reservations", {"name": "r"}, "Exactly one of"),
        (
            f"{Z}/reservations",
            {
                "name": "r",
                "specificReservation": {
                    "count": 1,
                    "instanceProperties": {"machineType": "ct6e-standard-4t"},
                },
            },
            "'ct6e-standard-4t'. The referenced resource does not exist.",
        ),
        (
            f"{Z}/reservations",
            {"name": "r", "specificReservation": {"count": 0}},
            "specificReservation.count': '0'",
        ),
    ],
)
def test_refused_requests(ask: Ask, path: str, body: Any, why: str) -> None:
    assert why in ask("POST", path, body, 400)
    assert "items" not in ask("GET", path)


def test_a_body_has_to_be_there(ask: Ask) -> None:
    why = "Required field 'resource' not specified"
    assert ask("POST", f"{R}/resourcePolicies", status=400) == why


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"requestid": "1"}, 'Unknown name "requestid": Cannot bind query parameter'),
        ({"requestId": "again"}, "'requestId': 'again'"),
        ({"requestId": "00000000-0000-0000-0000-000000000000"}, "Must be a valid UUID"),
    ],
)
def test_refused_queries(ask: Ask, query: dict[str, str], why: str) -> None:
    assert why in ask("POST", f"{R}/resourcePolicies", POLICY, 400, **query)


def test_a_repeated_request_begins_nothing_new(ask: Ask) -> None:
    ids = [str(uuid.uuid4()) for _ in range(4)]
    for path, name, body in (
        (f"{R}/resourcePolicies", "wp", POLICY),
        ("global/instanceTemplates", "it", TEMPLATE),
        (f"{Z}/reservations", "r1", RESERVATION),
    ):
        made = ask("POST", path, body, requestId=ids[0])
        assert ask("POST", path, body, requestId=ids[0])["name"] == made["name"]
        assert "already exists" in ask("POST", path, body, 409, requestId=ids[1])
        gone = ask("DELETE", f"{path}/{name}", requestId=ids[2])
        assert ask("DELETE", f"{path}/{name}", requestId=ids[2])["name"] == gone["name"]
        assert "was not found" in ask("DELETE", f"{path}/{name}", status=404, requestId=ids[3])


def test_alpha_and_beta_may_have_more_fields(cloud: Emulator) -> None:
    path = f"{cloud.url}compute/beta/{PROJECT}/{R}/resourcePolicies"
    answer = requests.post(path, json={**POLICY, "newest": True}, timeout=60)
    assert answer.status_code == 200, answer.text


def test_everything_survives_a_restart(tmp_path: Path) -> None:
    cloud = Emulator(state_dir=str(tmp_path))
    base = f"{cloud.url}compute/v1/{PROJECT}"
    requests.post(f"{base}/{R}/resourcePolicies", json=POLICY, timeout=60).raise_for_status()
    requests.post(f"{base}/global/instanceTemplates", json=TEMPLATE, timeout=60)
    cloud.stop()
    cloud.start()
    base = f"{cloud.url}compute/v1/{PROJECT}"
    assert requests.get(f"{base}/{R}/resourcePolicies/wp", timeout=60).ok
    assert requests.get(f"{base}/global/instanceTemplates/it", timeout=60).ok
    cloud.stop()


def test_google_api_python_client(cloud: Emulator) -> None:
    """Create, list, wait, delete; two calls in one request."""
    service = discovered_compute(cloud)
    where = {"project": Emulator.project, "region": "us-central1"}
    begun = service.resourcePolicies().insert(**where, body=POLICY).execute()
    waiting = service.regionOperations().wait(**where, operation=begun["name"]).execute()
    assert waiting["status"] == "DONE"
    templates = service.regionInstanceTemplates()
    templates.insert(**where, body=TEMPLATE).execute()
    assert [t["name"] for t in templates.list(**where).execute()["items"]] == ["it"]
    found = service.resourcePolicies().aggregatedList(project=Emulator.project).execute()
    assert found["items"][R]["resourcePolicies"][0]["name"] == "wp"
    answers: list[tuple[Any, Any]] = []
    batch = service.new_batch_http_request(
        callback=lambda _id, answer, error: answers.append((answer, error))
    )
    # At Google's the endpoint of a batch is on the same host.
    batch._batch_uri = f"{cloud.url}batch/compute/v1"
    batch.add(templates.delete(**where, instanceTemplate="it"))
    batch.add(templates.delete(**where, instanceTemplate="none"))
    batch.execute()
    (deleted, no_error), (nothing, error) = answers
    assert deleted["operationType"] == "delete"
    assert no_error is None
    assert nothing is None
    assert error.status_code == 404
    assert "items" not in templates.list(**where).execute()
