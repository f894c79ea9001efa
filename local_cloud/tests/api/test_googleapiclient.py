"""Google's generic client, which builds itself from the discovery document of v2 or v2alpha1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import requests
from discovery import document
from emulator import Emulator
from google.auth.credentials import AnonymousCredentials
from google_clients import BODY, EVERYWHERE, NAME, PARENT, QUEUE_BODY, QUEUED, discovered
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError

V6E = f"projects/{Emulator.project}/locations/us-east1-d"


@pytest.fixture(params=["v2", "v2alpha1"])
def locations(cloud: Emulator, request: pytest.FixtureRequest) -> Any:
    return discovered(cloud, request.param)


@pytest.fixture
def alpha(cloud: Emulator) -> Any:
    return discovered(cloud, "v2alpha1")


def every(collection: Any, key: str, **arguments: Any) -> list[Any]:
    """Return all items of a list, page by page."""
    request, items = collection.list(**arguments), []
    while request is not None:
        answer = request.execute()
        items += answer.get(key, [])
        request = collection.list_next(request, answer)
    return items


def ended(locations: Any, begun: dict[str, Any]) -> Any:
    operation = locations.operations().get(name=begun["name"]).execute()
    assert operation["done"] is True
    return operation


def create(locations: Any, name: str = "n1", **more: Any) -> Any:
    body = {**BODY, **more}
    return locations.nodes().create(parent=PARENT, nodeId=name, body=body).execute()


def queue(locations: Any, body: dict[str, Any], parent: str = PARENT) -> Any:
    asked = locations.queuedResources().create(parent=parent, queuedResourceId="q1", body=body)
    return asked.execute()


# Nodes ------------------------------------------------------------------------------------------


def test_a_life(locations: Any) -> None:
    nodes = locations.nodes()
    assert ended(locations, create(locations))["response"]["name"] == NAME
    assert nodes.get(name=NAME).execute()["state"] == "READY"
    nodes.patch(name=NAME, updateMask="tags", body={"tags": ["t"]}).execute()
    assert nodes.list(parent=PARENT).execute()["nodes"][0]["tags"] == ["t"]
    stopped = ended(locations, nodes.stop(name=NAME, body={}).execute())
    assert stopped["response"]["state"] == "STOPPED"
    started = ended(locations, nodes.start(name=NAME, body={}).execute())
    assert started["response"]["state"] == "READY"
    guest = nodes.getGuestAttributes(name=NAME, body={"queryPath": "hostkeys/"}).execute()
    assert guest["guestAttributes"][0]["queryValue"]["items"][0]["key"] == "ssh-ed25519"
    nodes.delete(name=NAME).execute()
    assert nodes.list(parent=PARENT).execute() == {}


def test_operations(locations: Any) -> None:
    name = create(locations)["name"]
    operations = locations.operations()
    assert [item["name"] for item in every(operations, "operations", name=PARENT)] == [name]
    operations.delete(name=name).execute()
    assert operations.list(name=PARENT).execute() == {}


def test_a_cancelled_operation(cloud: Emulator, locations: Any) -> None:
    cloud.control("clock", {"mode": "manual"})
    name = create(locations)["name"]
    assert locations.operations().get(name=name).execute()["done"] is False
    locations.operations().cancel(name=name).execute()
    assert locations.operations().get(name=name).execute()["error"]["code"] == 1


def test_maintenance(alpha: Any) -> None:
    create(alpha)
    nodes = alpha.nodes()
    simulated = nodes.simulateMaintenanceEvent(name=NAME, body={"workerIds": ["0"]}).execute()
    assert ended(alpha, simulated)["metadata"]["verb"] == "simulateMaintenanceEvent"
    performed = nodes.performMaintenance(name=NAME, body={}).execute()
    assert ended(alpha, performed)["metadata"]["verb"] == "performMaintenance"


def test_a_boot_disk_of_its_own_size(alpha: Any) -> None:
    create(alpha, bootDiskConfig={"diskSizeGb": "200"})
    assert alpha.nodes().get(name=NAME).execute()["bootDiskConfig"] == {"diskSizeGb": "200"}


# Lists ------------------------------------------------------------------------------------------


def test_pages_follow_each_other(cloud: Emulator, locations: Any) -> None:
    cloud.populate(5)
    found = every(locations.nodes(), "nodes", parent=PARENT, pageSize=2)
    assert [node["name"].rpartition("/")[2] for node in found] == [f"node-{i}" for i in range(5)]


def test_pages_may_be_tiny_and_empty(cloud: Emulator, locations: Any) -> None:
    cloud.populate(3)
    cloud.fault("page_size", size=1)
    cloud.fault("empty_page")
    first = locations.nodes().list(parent=PARENT).execute()
    assert "nodes" not in first
    assert first["nextPageToken"]
    assert len(every(locations.nodes(), "nodes", parent=PARENT)) == 3


def test_unreachable_zones(cloud: Emulator, locations: Any) -> None:
    cloud.populate(1)
    cloud.fault("unreachable", match={"zone": Emulator.zone})
    assert locations.nodes().list(parent=EVERYWHERE).execute() == {"unreachable": [PARENT]}
    assert locations.queuedResources().list(parent=EVERYWHERE).execute() == {
        "unreachable": [PARENT]
    }


def test_what_the_zone_offers(locations: Any) -> None:
    types = every(locations.acceleratorTypes(), "acceleratorTypes", parent=PARENT, pageSize=3)
    assert "v4-8" in [item["type"] for item in types]
    one = locations.acceleratorTypes().get(name=f"{PARENT}/acceleratorTypes/v4-8").execute()
    assert one["acceleratorConfigs"] == [{"type": "V4", "topology": "2x2x1"}]
    versions = every(locations.runtimeVersions(), "runtimeVersions", parent=PARENT, pageSize=1)
    assert "tpu-ubuntu2204-base" in [item["version"] for item in versions]
    name = f"{PARENT}/runtimeVersions/tpu-ubuntu2204-base"
    assert locations.runtimeVersions().get(name=name).execute()["name"] == name
    identity = locations.generateServiceIdentity(parent=PARENT, body={}).execute()["identity"]
    assert identity["email"].endswith("@cloud-tpu.iam.gserviceaccount.com")


def test_locations(locations: Any) -> None:
    found = every(locations, "locations", name=f"projects/{Emulator.project}", pageSize=4)
    assert PARENT in [item["name"] for item in found]
    assert locations.get(name=PARENT).execute()["locationId"] == Emulator.zone


def test_reservations(alpha: Any) -> None:
    assert alpha.reservations().list(parent=PARENT).execute() == {}


# Queued resources -------------------------------------------------------------------------------


def test_a_queued_resource(locations: Any) -> None:
    queued = locations.queuedResources()
    assert ended(locations, queue(locations, QUEUE_BODY))["response"]["name"] == QUEUED
    got = queued.get(name=QUEUED).execute()
    assert got["state"]["state"] == "ACTIVE"
    assert got["spot"] == {}
    assert locations.nodes().get(name=NAME).execute()["queuedResource"] == QUEUED
    assert [item["name"] for item in every(queued, "queuedResources", parent=EVERYWHERE)] == [
        QUEUED
    ]
    ended(locations, queued.reset(name=QUEUED, body={}).execute())
    assert queued.get(name=QUEUED).execute()["state"]["state"] == "ACTIVE"
    queued.delete(name=QUEUED, force=True).execute()
    assert queued.list(parent=PARENT).execute() == {}
    assert locations.nodes().list(parent=PARENT).execute() == {}


def test_best_effort(alpha: Any) -> None:
    queue(alpha, {"bestEffort": {}, "tpu": QUEUE_BODY["tpu"]})
    assert alpha.queuedResources().get(name=QUEUED).execute()["bestEffort"] == {}


def test_flex_start(alpha: Any) -> None:
    spec = {
        "parent": V6E,
        "multiNodeParams": {"nodeCount": 2, "nodeIdPrefix": "ms"},
        "node": {"acceleratorType": "v6e-8", "runtimeVersion": "v2-alpha-tpuv6e"},
    }
    body = {
        "provisioningModel": "FLEX_START",
        "runDuration": {"maxRunDuration": "14400s"},
        "tpu": {"nodeSpec": [spec]},
    }
    queue(alpha, body, V6E)
    got = alpha.queuedResources().get(name=f"{V6E}/queuedResources/q1").execute()
    assert got["provisioningModel"] == "FLEX_START"
    assert got["runDuration"]["maxRunDuration"] == "14400s"
    assert [spec["nodeId"] for spec in got["tpu"]["nodeSpec"]] == ["ms-0", "ms-1"]


def test_maintenance_of_a_queued_resource(alpha: Any) -> None:
    queue(alpha, QUEUE_BODY)
    queued = alpha.queuedResources()
    assert queued.getMaintenanceInfo(name=QUEUED).execute() is not None
    begun = queued.performMaintenanceQueuedResource(name=QUEUED, body={"nodeNames": ["n1"]})
    assert ended(alpha, begun.execute())["metadata"]["target"] == QUEUED


# Errors -----------------------------------------------------------------------------------------

REFUSED = [
    ("unauthenticated", {}, 401, "UNAUTHENTICATED", "Request had invalid authentication cred"),
    ("api_disabled", {}, 403, "PERMISSION_DENIED", "Cloud TPU API has not been used in project"),
    ("iam_denied", {}, 403, "PERMISSION_DENIED", "Permission 'tpu.nodes.create' denied on"),
    ("location_denied", {}, 403, "PERMISSION_DENIED", "(or it may not exist)"),
    ("billing_disabled", {}, 403, "PERMISSION_DENIED", "requires billing to be enabled"),
    ("queue_denied", {}, 403, "PERMISSION_DENIED", "User does not have permission to submit"),
    ("quota", {"limit": 0}, 429, "RESOURCE_EXHAUSTED", "has been exceeded. Limit: 0 in zone"),
    ("rate_limit", {}, 429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric"),
    ("internal", {}, 500, "INTERNAL", "nternal error"),
    ("unavailable", {}, 503, "UNAVAILABLE", "The service is currently unavailable."),
    ("zone_unsupported", {}, 400, "INVALID_ARGUMENT", "is not supported."),
]


@pytest.mark.parametrize(
    ("fault", "options", "http", "status", "text"), REFUSED, ids=[row[0] for row in REFUSED]
)
def test_a_request_is_refused(
    cloud: Emulator,
    locations: Any,
    fault: str,
    options: dict[str, Any],
    http: int,
    status: str,
    text: str,
) -> None:
    cloud.fault(fault, **options)
    with pytest.raises(HttpError) as caught:
        create(locations)
    assert caught.value.status_code == http
    assert text in caught.value.reason
    assert f'"status": "{status}"' in caught.value.content.decode()
    cloud.control("faults", method="DELETE")
    assert locations.nodes().list(parent=PARENT).execute() == {}


WRONG: list[tuple[str, Callable[[Any], Any], int, str]] = [
    ("name", lambda c: create(c, "Bad_Name"), 400, "Malformed name: "),
    ("field", lambda c: create(c, frob=1), 400, "Unknown name \"frob\" at 'node'"),
    (
        "type",
        lambda c: create(c, acceleratorType="v5p-8"),
        400,
        "the accelerator v5p-8 was not found in zone us-central2-b",
    ),
    (
        "type-twice",
        lambda c: create(c, acceleratorConfig={"type": "V4", "topology": "2x2x1"}),
        400,
        "cannot both be specified",
    ),
    ("missing", lambda c: c.nodes().get(name=NAME).execute(), 404, f"'{NAME}' was not found"),
    ("exists", lambda c: create(c) and create(c), 409, f"'{NAME}' already exists"),
    (
        "active",
        lambda c: queue(c, QUEUE_BODY) and c.queuedResources().delete(name=QUEUED).execute(),
        400,
        "",
    ),
    (
        "page",
        lambda c: c.nodes().list(parent=PARENT, pageToken="no-such").execute(),
        400,
        "invalid page token",
    ),
]


@pytest.mark.parametrize(
    ("act", "http", "text"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG]
)
def test_a_request_is_wrong(
    locations: Any, act: Callable[[Any], Any], http: int, text: str
) -> None:
    with pytest.raises(HttpError) as caught:
        act(locations)
    assert caught.value.status_code == http
    assert text in caught.value.reason


def test_details_of_an_error(cloud: Emulator, locations: Any) -> None:
    cloud.fault("api_disabled")
    with pytest.raises(HttpError) as caught:
        create(locations)
    reasons = [detail.get("reason") for detail in caught.value.error_details]
    assert "SERVICE_DISABLED" in reasons


def test_busy(cloud: Emulator, locations: Any) -> None:
    create(locations)
    cloud.fault("busy")
    with pytest.raises(HttpError) as caught:
        locations.nodes().delete(name=NAME).execute()
    assert (caught.value.status_code, caught.value.reason) == (
        409,
        "unable to queue the operation",
    )


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("stock_out", 8, "There is no more capacity in the zone"),
        ("operation_internal", 13, "an internal error"),
        ("reservation_missing", 5, "Reservation not found"),
    ],
)
def test_an_operation_fails(
    cloud: Emulator, locations: Any, fault: str, code: int, text: str
) -> None:
    cloud.fault(fault)
    error = ended(locations, create(locations))["error"]
    assert error["code"] == code
    assert text in error["message"]


def test_html_in_place_of_json(cloud: Emulator, locations: Any) -> None:
    cloud.fault("bad_gateway")
    with pytest.raises(HttpError) as caught:
        create(locations)
    assert (caught.value.status_code, caught.value.reason) == (502, "Bad Gateway")


def test_the_client_tries_again_when_told_to(cloud: Emulator, locations: Any) -> None:
    cloud.fault("rate_limit", count=1)
    assert locations.nodes().list(parent=PARENT).execute(num_retries=1) == {}


# The discovery document itself ------------------------------------------------------------------


@pytest.mark.parametrize("place", ["$discovery/rest", "$discovery/rest?version={apiVersion}"])
@pytest.mark.parametrize("version", ["v2", "v2alpha1", "v2alpha"])
def test_a_client_that_is_built_from_what_the_cloud_serves(
    cloud: Emulator, place: str, version: str
) -> None:
    """With one host name, as Ray and SkyPilot build theirs; they ask for no version."""
    service = build(
        "tpu",
        version,
        credentials=AnonymousCredentials(),
        discoveryServiceUrl=cloud.url + place,
        cache_discovery=False,
    )
    locations = service.projects().locations()
    assert ended(locations, create(locations))["response"]["name"] == NAME
    assert locations.nodes().list(parent=PARENT).execute()["nodes"][0]["state"] == "READY"
    alpha = hasattr(locations.nodes(), "simulateMaintenanceEvent")
    assert alpha == ("{" in place and version != "v2")


@pytest.mark.parametrize("version", ["v2", "v2alpha1"])
def test_the_documents_are_googles(cloud: Emulator, version: str) -> None:
    """Renew those of model/shared/discovery_documents when the installed ones are newer."""
    root = cloud.url
    ours = requests.get(f"{root}$discovery/rest", params={"version": version}, timeout=20).json()
    roots = {"rootUrl": root, "baseUrl": root, "mtlsRootUrl": root}
    assert ours == {**document(version), **roots}
    other = requests.get(f"{root}discovery/v1/apis/tpu/{version}/rest", timeout=20)
    assert other.json() == ours


def test_a_version_that_there_is_not(cloud: Emulator) -> None:
    answer = requests.get(f"{cloud.url}$discovery/rest?version=v9", timeout=20)
    assert answer.status_code == 404
    assert "version: v9" in answer.json()["error"]["message"]
