"""Every fault on the wire, as a client meets it."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest
import requests
from emulator import Emulator

ZONE = f"projects/{Emulator.project}/locations/{Emulator.zone}"
ALL = f"projects/{Emulator.project}/locations/-"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


def call(cloud: Emulator, method: str, path: str, **more: Any) -> requests.Response:
    return requests.request(method, f"{cloud.url}v2/{path}", timeout=30, **more)


def get(cloud: Emulator, path: str, **query: Any) -> Any:
    answer = call(cloud, "GET", path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def create(cloud: Emulator, name: str = "n1", zone: str = ZONE, **more: Any) -> requests.Response:
    body = {**BODY, **more}
    return call(cloud, "POST", f"{zone}/nodes", params={"nodeId": name}, json=body)


def error_of(answer: requests.Response) -> dict[str, Any]:
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == answer.status_code
    return error


def operation_error(cloud: Emulator, answer: requests.Response) -> dict[str, Any]:
    done = get(cloud, answer.json()["name"])
    assert done["done"] is True
    error: dict[str, Any] = done["error"]
    return error


# What every method may answer -----------------------------------------------------------------

REFUSALS = [
    ("unauthenticated", {}, 401, "UNAUTHENTICATED", "Request had invalid authentication creden"),
    ("api_disabled", {}, 403, "PERMISSION_DENIED", "Cloud TPU API has not been used in project"),
    ("billing_disabled", {}, 403, "PERMISSION_DENIED", "This API method requires billing to be"),
    (
        "iam_denied",
        {},
        403,
        "PERMISSION_DENIED",
        f"Permission 'tpu.nodes.create' denied on '{ZONE}",
    ),
    (
        "location_denied",
        {},
        403,
        "PERMISSION_DENIED",
        "Permission denied on 'locations/us-central2-b' (or it may not exist).",
    ),
    (
        "location_denied",
        {"wording": "old"},
        403,
        "PERMISSION_DENIED",
        "Location us-central2-b is not found or access is unauthorized.",
    ),
    (
        "queue_denied",
        {},
        403,
        "PERMISSION_DENIED",
        'User does not have permission to submit requests for accelerator type "v4-8" in location '
        "us-central2-b",
    ),
    (
        "queue_denied",
        {"wording": "queue"},
        403,
        "PERMISSION_DENIED",
        "User does not have permission to submit requests into this queue for accelerator type "
        "v4-8 in location us-central2-b.",
    ),
    (
        "zone_unsupported",
        {},
        400,
        "INVALID_ARGUMENT",
        'Cloud TPU received a bad request. The requested zone "us-central2-b" is not supported. '
        "[EID: 0x",
    ),
    ("rate_limit", {}, 429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric '"),
    ("quota", {}, 429, "RESOURCE_EXHAUSTED", "Quota limit 'TPUV4sPerProjectPerZoneForTPUAPI' has"),
    ("unavailable", {}, 503, "UNAVAILABLE", "The service is currently unavailable."),
    ("internal", {}, 500, "INTERNAL", "an internal error [EID: 0x"),
]


@pytest.mark.parametrize(("kind", "options", "status", "name", "text"), REFUSALS)
def test_refusals_of_a_creation(
    cloud: Emulator, kind: str, options: dict[str, Any], status: int, name: str, text: str
) -> None:
    cloud.fault(kind, count=1, **options)
    error = error_of(create(cloud))
    assert (error["code"], error["status"]) == (status, name)
    assert error["message"].startswith(text)
    assert create(cloud).status_code == 200


def test_two_answers_for_a_zone_that_does_not_exist(cloud: Emulator) -> None:
    mars = ZONE.replace("us-central2-b", "mars-north1-a")
    error = error_of(call(cloud, "GET", f"{mars}/nodes"))
    assert error["details"][0]["reason"] == "LOCATION_POLICY_VIOLATED"
    cloud.fault("zone_unsupported", match={"zone": "mars-north1-a"})
    error = error_of(call(cloud, "GET", f"{mars}/nodes"))
    assert 'The requested zone "mars-north1-a" is not supported.' in error["message"]


REASONS = {
    "api_disabled": "SERVICE_DISABLED",
    "billing_disabled": "BILLING_DISABLED",
    "iam_denied": "IAM_PERMISSION_DENIED",
    "location_denied": "LOCATION_POLICY_VIOLATED",
    "rate_limit": "RATE_LIMIT_EXCEEDED",
    "unauthenticated": "ACCESS_TOKEN_EXPIRED",
}


@pytest.mark.parametrize(("kind", "reason"), REASONS.items())
def test_reasons_that_a_program_reads(cloud: Emulator, kind: str, reason: str) -> None:
    cloud.fault(kind)
    details = error_of(create(cloud))["details"]
    infos = [item for item in details if item["@type"].endswith("google.rpc.ErrorInfo")]
    assert [item["reason"] for item in infos] == [reason]
    assert infos[0]["domain"] == "googleapis.com"


@pytest.mark.parametrize(
    ("match", "struck"),
    [
        ({"method": "nodes.create"}, True),
        ({"method": "POST"}, True),
        ({"method": "nodes.list"}, False),
        ({"zone": "us-central2-b"}, True),
        ({"zone": ["us-east5-a", "us-central2-b"]}, True),
        ({"zone": "us-east5-a"}, False),
        ({"accelerator_type": "v4-8"}, True),
        ({"accelerator_type": "v4-16"}, False),
        ({"permission": "tpu.nodes.create"}, True),
        ({"permission": "tpu.nodes.get"}, False),
        ({"node": "n1", "tier": "on_demand"}, True),
        ({"node": "n1", "tier": "spot"}, False),
        ({"service": "tpu", "version": "v2"}, True),
        ({"version": "v2alpha1"}, False),
    ],
)
def test_where_a_fault_strikes(cloud: Emulator, match: dict[str, Any], struck: bool) -> None:
    cloud.fault("unavailable", match=match)
    assert (create(cloud).status_code == 503) is struck


def test_a_node_is_known_by_its_type_later_on(cloud: Emulator) -> None:
    create(cloud)
    cloud.fault("unavailable", match={"accelerator_type": "v4-8", "method": "nodes.delete"})
    assert call(cloud, "GET", f"{ZONE}/nodes/n1").status_code == 200
    assert call(cloud, "DELETE", f"{ZONE}/nodes/n1").status_code == 503


def test_from_when_until_when() -> None:
    with Emulator(clock="manual") as cloud:
        cloud.fault("unavailable", after=100, lasts=50)
        seen = []
        for _ in range(4):
            seen.append(call(cloud, "GET", f"{ZONE}/nodes").status_code)
            cloud.control("clock", {"advance": 50})
        assert seen == [200, 200, 503, 200]
        assert cloud.control("faults", method="GET")["faults"] == []


def test_what_was_due_while_a_fault_was_on_meets_it_later_too() -> None:
    """No request for an hour; this one still waited for the ten minutes without capacity."""
    with Emulator(clock="manual") as cloud:
        cloud.fault("stock_out", seconds=600)
        spec = {"parent": ZONE, "nodeId": "n1", "node": BODY}
        query = {"queuedResourceId": "q1"}
        body = {"tpu": {"nodeSpec": [spec]}}
        call(cloud, "POST", f"{ZONE}/queuedResources", params=query, json=body).raise_for_status()
        cloud.control("clock", {"advance": 3600})
        assert get(cloud, f"{ZONE}/nodes/n1")["state"] == "READY"
        events = cloud.control("history", method="GET")["events"]
        at = {event["state"]: event["at"] for event in events if event["what"] == "queued"}
        assert 600 <= at["PROVISIONING"] - at["CREATING"] < 660
        assert cloud.control("faults", method="GET")["faults"] == []


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"kind": "quota", "limits": 3},
            "the fault quota has no option 'limits'; it has limit, sc",
        ),
        ({"kind": "busy", "size": 3}, "the fault busy has no option 'size'; it has none"),
        (
            {"kind": "busy", "match": {"node_name": "x"}},
            "no fault is matched by 'node_name'; there",
        ),
        ({"kind": "busy", "probability": 2}, "probability 2 is not between 0 and 1"),
        ({"kind": "reservation_full", "status": "INTERNAL"}, "status 'INTERNAL' is none of RESO"),
        ({"kind": "busy", "count": 0}, "count 0 is less than 1"),
    ],
)
def test_mistakes_are_told(cloud: Emulator, fields: dict[str, Any], text: str) -> None:
    answer = requests.post(f"{cloud.url}_cloud/faults", json=fields, timeout=30)
    assert answer.status_code == 400
    assert text in answer.json()["error"]["message"]
    assert cloud.control("faults", method="GET")["faults"] == []


# Rates and quotas -----------------------------------------------------------------------------


@pytest.mark.parametrize("said", [None, 7])
def test_rate_limit_with_and_without_a_hint(cloud: Emulator, said: int | None) -> None:
    cloud.fault("rate_limit", **({"retry_after": said} if said else {}))
    headers = create(cloud).headers
    assert headers.get("Retry-After") == (str(said) if said else None)


@pytest.mark.parametrize(
    ("http", "path", "request_name"),
    [
        ("POST", f"{ZONE}/nodes?nodeId=n1", "CreateNode"),
        ("GET", f"{ZONE}/nodes", "ListNodes"),
        ("GET", f"{ZONE}/queuedResources", "ListQueuedResources"),
        ("GET", f"{ZONE}/operations/o", "GetOperation"),
    ],
)
def test_a_rate_is_the_methods(cloud: Emulator, http: str, path: str, request_name: str) -> None:
    cloud.fault("rate_limit")
    error = error_of(call(cloud, http, path, json=BODY if http == "POST" else None))
    limit = f"Maximum number of {request_name} requests per minute"
    assert f"limit '{limit}' of service" in error["message"]
    assert error["details"][0]["metadata"]["quota_limit"] == limit


def test_a_rate_that_can_be_kept() -> None:
    with Emulator(clock="manual") as cloud:
        cloud.fault("rate_limit", per_minute=3)
        codes = [call(cloud, "GET", f"{ZONE}/nodes").status_code for _ in range(5)]
        assert codes == [200, 200, 200, 429, 429]
        cloud.control("clock", {"advance": 60})
        assert call(cloud, "GET", f"{ZONE}/nodes").status_code == 200


def test_a_quota_counts_what_exists_dead_or_alive(cloud: Emulator) -> None:
    cloud.fault("quota", limit=24)
    spot = {"schedulingConfig": {"spot": True}}
    assert create(cloud, "a", **spot).status_code == 200
    assert create(cloud, "b", acceleratorType="v4-16", **spot).status_code == 200
    refused = error_of(create(cloud, "c", **spot))
    assert refused["message"] == (
        "Quota limit 'TPUV4sPreemptiblePerProjectPerZoneForTPUAPI' has been exceeded. Limit: 24 in "
        "zone us-central2-b."
    )
    # On-demand capacity is another quota.
    assert create(cloud, "d").status_code == 200
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/a:preempt")
    assert create(cloud, "c", **spot).status_code == 429
    call(cloud, "DELETE", f"{ZONE}/nodes/a")
    assert create(cloud, "c", **spot).status_code == 200


def test_a_quota_of_zero_is_never_enough(cloud: Emulator) -> None:
    cloud.fault("quota", match={"zone": cloud.zone})
    assert "Limit: 0 in zone us-central2-b." in error_of(create(cloud))["message"]
    elsewhere = ZONE.replace("us-central2-b", "us-central1-f")
    assert create(cloud, zone=elsewhere, acceleratorType="v2-8").status_code == 200


def test_the_quota_of_a_region(cloud: Emulator) -> None:
    cloud.fault("quota", limit=4, scope="region")
    body = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    zones = [ZONE.replace("us-central2-b", zone) for zone in ("us-east5-a", "us-east5-b")]
    assert create(cloud, "a", zones[0], **body).status_code == 200
    message = error_of(create(cloud, "b", zones[1], **body))["message"]
    assert message == (
        "Quota limit 'TPUV5sLitepodServingPerProjectPerRegionForTPUAPI' has been exceeded. "
        "Limit: 4 in region us-east5."
    )


def test_both_quotas_at_once(cloud: Emulator) -> None:
    cloud.fault("quota", limit=0, scope="both")
    [detail] = error_of(create(cloud))["details"]
    texts = [violation["description"] for violation in detail["violations"]]
    assert texts == [
        "Quota 'TPUV4sPerProjectPerZoneForTPUAPI' exhausted. Limit 0 in zone us-central2-b",
        "Quota 'TPUV4sPerProjectPerRegionForTPUAPI' exhausted. Limit 0 in region us-central2",
    ]


# Tokens ---------------------------------------------------------------------------------------


def with_token(cloud: Emulator, token: str) -> requests.Response:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return call(cloud, "GET", f"{ZONE}/nodes", headers=headers)


def test_tokens_grow_old() -> None:
    with Emulator(clock="manual") as cloud:
        cloud.control("auth", {"required": True})
        cloud.fault("token_expired", older_than=3600)
        assert with_token(cloud, "one").status_code == 200
        cloud.control("clock", {"advance": 3601})
        refused = with_token(cloud, "one")
        assert error_of(refused)["details"][0]["reason"] == "ACCESS_TOKEN_EXPIRED"
        assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]
        assert with_token(cloud, "two").status_code == 200


def test_one_token_is_taken_back(cloud: Emulator) -> None:
    cloud.fault("token_expired", token="one")
    assert [with_token(cloud, t).status_code for t in ("one", "two", "")] == [401, 200, 200]


def test_no_token_where_one_is_needed(cloud: Emulator) -> None:
    assert get(cloud, f"{ZONE}/nodes") == {}
    cloud.control("auth", {"required": True})
    refused = with_token(cloud, "")
    error = error_of(refused)
    assert (refused.status_code, error["status"]) == (401, "UNAUTHENTICATED")
    assert error["message"].startswith("Request is missing required authentication credential.")
    assert error["details"][0]["reason"] == "CREDENTIALS_MISSING"
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")
    assert with_token(cloud, "t").status_code == 200


# Lists ----------------------------------------------------------------------------------------


def test_small_pages_and_empty_ones_lose_nothing(cloud: Emulator) -> None:
    cloud.populate(5)
    cloud.fault("page_size", size=2)
    cloud.fault("empty_page")
    sizes, names, token = [], [], ""
    while True:
        page = get(cloud, f"{ALL}/nodes", pageToken=token)
        sizes.append(len(page.get("nodes", [])))
        names += [node["name"].rpartition("/")[2] for node in page.get("nodes", [])]
        token = page.get("nextPageToken", "")
        if not token:
            break
    assert sizes == [0, 2, 0, 2, 0, 1]
    assert names == [f"node-{number}" for number in range(5)]


def test_what_goes_between_two_pages_shifts_nothing(cloud: Emulator) -> None:
    cloud.populate(4)
    first = get(cloud, f"{ZONE}/nodes", pageSize=2)
    call(cloud, "DELETE", f"{ZONE}/nodes/node-0")
    second = get(cloud, f"{ZONE}/nodes", pageSize=2, pageToken=first["nextPageToken"])
    names = [node["name"].rpartition("/")[2] for node in second["nodes"]]
    assert names == ["node-2", "node-3"]


@pytest.mark.parametrize("collection", ["acceleratorTypes", "runtimeVersions"])
def test_what_a_zone_offers_that_cannot_be_reached(cloud: Emulator, collection: str) -> None:
    cloud.fault("unreachable", match={"zone": cloud.zone})
    assert get(cloud, f"{ZONE}/{collection}") == {"unreachable": [ZONE]}
    elsewhere = ZONE.replace("us-central2-b", "us-east5-a")
    assert get(cloud, f"{elsewhere}/{collection}")[collection]


@pytest.mark.parametrize("collection", ["nodes", "queuedResources", "operations"])
@pytest.mark.parametrize("zone", ["-", "us-central2-b"])
def test_zones_that_cannot_be_reached(cloud: Emulator, collection: str, zone: str) -> None:
    create(cloud)
    cloud.fault("unreachable", match={"zone": cloud.zone})
    parent = f"projects/{cloud.project}/locations"
    answer = get(cloud, f"{parent}/{zone}/{collection}")
    assert answer == {"unreachable": [f"{parent}/us-central2-b"]}


def test_what_was_created_cannot_be_seen_at_first() -> None:
    with Emulator(clock="manual") as cloud:
        cloud.fault("invisible", seconds=40, count=1)
        create(cloud, "a")
        create(cloud, "b")
        cloud.control("clock", {"advance": 39})
        assert call(cloud, "GET", f"{ZONE}/nodes/a").status_code == 404
        [seen] = get(cloud, f"{ALL}/nodes")["nodes"]
        assert seen["name"].endswith("/b")
        assert create(cloud, "a").status_code == 409
        cloud.control("clock", {"advance": 1})
        assert get(cloud, f"{ZONE}/nodes/a")["state"] == "READY"
        assert len(get(cloud, f"{ALL}/nodes")["nodes"]) == 2


def test_the_projects_number_in_every_name(cloud: Emulator) -> None:
    begun = create(cloud, metadata={"kept": "projects/local-project/"}).json()
    cloud.fault("project_number")
    node = get(cloud, f"{ZONE}/nodes/n1")
    assert node["name"] == "projects/123456789012/locations/us-central2-b/nodes/n1"
    assert node["metadata"] == {"kept": "projects/local-project/"}
    operation = get(cloud, begun["name"])
    for name in (operation["name"], operation["metadata"]["target"], operation["response"]["name"]):
        assert name.startswith("projects/123456789012/")


def test_words_of_tomorrow(cloud: Emulator) -> None:
    create(cloud)
    cloud.fault("unknown_fields", state="FROZEN")
    node = get(cloud, f"{ZONE}/nodes/n1")
    assert (node["state"], node["health"], node["bootDisk"]) == ("FROZEN", "HEALTH_OF_TOMORROW", {})


# Operations -----------------------------------------------------------------------------------

FAILURES = [
    ("stock_out", {}, 8, 'There is no more capacity in the zone "us-central2-b"; you can try in'),
    ("reservation_missing", {}, 5, "Reservation not found"),
    ("reservation_full", {}, 8, "Insufficient reserved capacity. Contact customer support to inc"),
    ("reservation_full", {"status": "FAILED_PRECONDITION"}, 9, "Insufficient reserved capacity."),
    ("operation_internal", {}, 13, "an internal error [EID: 0x"),
    ("late_failure", {"seconds": 900}, 13, "an internal error [EID: 0x"),
    ("late_failure", {"seconds": 900, "error": "stock_out"}, 8, "There is no more capacity in"),
]


@pytest.mark.parametrize(("kind", "options", "code", "text"), FAILURES)
def test_creations_that_fail(kind: str, options: dict[str, Any], code: int, text: str) -> None:
    with Emulator(clock="manual", delays={"create": 90, "fail": 60}) as cloud:
        cloud.fault(kind, count=1, **options)
        begun = create(cloud)
        cloud.control("clock", {"advance": options.get("seconds", 60) - 1})
        assert get(cloud, f"{ZONE}/nodes/n1")["state"] == "CREATING"
        assert get(cloud, begun.json()["name"])["done"] is False
        cloud.control("clock", {"advance": 1})
        error = operation_error(cloud, begun)
        assert error["code"] == code
        assert error["message"].startswith(text)
        assert call(cloud, "GET", f"{ZONE}/nodes/n1").status_code == 404


@pytest.mark.parametrize(
    ("verb", "before"), [("stop", "READY"), ("start", "STOPPED"), ("delete", "READY")]
)
def test_a_node_is_as_before_when_something_fails(cloud: Emulator, verb: str, before: str) -> None:
    create(cloud)
    if before == "STOPPED":
        call(cloud, "POST", f"{ZONE}/nodes/n1:stop", json={})
    cloud.fault("operation_internal", match={"verb": verb})
    if verb == "delete":
        begun = call(cloud, "DELETE", f"{ZONE}/nodes/n1")
    else:
        begun = call(cloud, "POST", f"{ZONE}/nodes/n1:{verb}", json={})
    assert operation_error(cloud, begun)["code"] == 13
    assert get(cloud, f"{ZONE}/nodes/n1")["state"] == before


def test_without_capacity_for_one_type(cloud: Emulator) -> None:
    cloud.fault("stock_out", match={"accelerator_type": "v4-16", "tier": "spot"})
    create(cloud, "a", acceleratorType="v4-16")
    create(cloud, "b", schedulingConfig={"spot": True})
    create(cloud, "c", acceleratorType="v4-16", schedulingConfig={"spot": True})
    names = [node["name"].rpartition("/")[2] for node in get(cloud, f"{ALL}/nodes")["nodes"]]
    assert names == ["a", "b"]


@pytest.mark.parametrize(("hold", "state"), [(False, "READY"), (True, "CREATING")])
def test_an_operation_that_never_ends(hold: bool, state: str) -> None:
    with Emulator(clock="manual") as cloud:
        cloud.fault("stuck_operation", hold=hold)
        begun = create(cloud).json()["name"]
        cloud.control("clock", {"advance": 30 * 86400})
        assert get(cloud, begun)["done"] is False
        assert get(cloud, f"{ZONE}/nodes/n1")["state"] == state


def test_busy(cloud: Emulator) -> None:
    create(cloud)
    cloud.fault("busy", count=1)
    error = error_of(call(cloud, "DELETE", f"{ZONE}/nodes/n1"))
    assert (error["status"], error["message"]) == ("ABORTED", "unable to queue the operation")
    assert call(cloud, "DELETE", f"{ZONE}/nodes/n1").status_code == 200


def test_busy_by_the_verb(cloud: Emulator) -> None:
    create(cloud)
    cloud.fault("busy", match={"verb": "update"})
    assert call(cloud, "POST", f"{ZONE}/nodes/n1:stop", json={}).status_code == 200
    update = call(cloud, "PATCH", f"{ZONE}/nodes/n1?updateMask=tags", json={"tags": ["t"]})
    assert error_of(update)["status"] == "ABORTED"
    assert call(cloud, "DELETE", f"{ZONE}/nodes/n1").status_code == 200


# Guest attributes -----------------------------------------------------------------------------


def guests(cloud: Emulator) -> Any:
    body = {"queryPath": "hostkeys/"}
    return call(cloud, "POST", f"{ZONE}/nodes/n1:getGuestAttributes", json=body).json()


@pytest.mark.parametrize(
    ("kind", "fields", "there"),
    [
        ("guest_attributes_missing", {}, [False, False]),
        ("guest_attributes_missing", {"match": {"worker": "0"}}, [False, True]),
        ("guest_attributes_partial", {}, [True, False]),
        ("guest_attributes_partial", {"workers": "0"}, [False, True]),
        ("guest_attributes_partial", {"keys": ["ssh-ed25519"]}, [False, False]),
        ("guest_attributes_partial", {"workers": [1], "keys": "ssh-rsa"}, [True, True]),
    ],
)
def test_guest_attributes_of_some(
    cloud: Emulator, kind: str, fields: dict[str, Any], there: list[bool]
) -> None:
    create(cloud, acceleratorType="v4-16")
    cloud.fault(kind, **fields)
    assert [bool(item) for item in guests(cloud)["guestAttributes"]] == there


def test_guest_attributes_of_none(cloud: Emulator) -> None:
    create(cloud)
    cloud.fault("guest_attributes_empty")
    assert guests(cloud) == {}


# The wire -------------------------------------------------------------------------------------


def raw_answer(cloud: Emulator, path: str) -> tuple[bytes, bool]:
    """Return what comes back over a socket, and whether the connection was reset."""
    port = int(cloud.url.rstrip("/").rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as link:
        link.sendall(f"GET /v2/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        time.sleep(0.01)
        received = b""
        try:
            while part := link.recv(1000):
                received += part
        except ConnectionResetError:
            return received, True
    return received, False


def test_a_connection_that_is_reset_in_the_middle(cloud: Emulator) -> None:
    create(cloud)
    cloud.fault("reset", count=1)
    received, reset = raw_answer(cloud, f"{ZONE}/nodes")
    assert reset
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    promised = int(head.lower().partition(b"content-length: ")[2].split()[0])
    assert 0 < len(body) < promised
    assert get(cloud, f"{ZONE}/nodes")["nodes"]


def test_a_reset_comes_after_the_work(cloud: Emulator) -> None:
    cloud.fault("reset", count=1)
    with pytest.raises(requests.RequestException):
        create(cloud)
    assert get(cloud, f"{ZONE}/nodes/n1")["state"] == "READY"


@pytest.mark.parametrize(("when", "status"), [("before", 404), ("after", 200)])
def test_a_connection_that_is_closed(cloud: Emulator, when: str, status: int) -> None:
    cloud.fault("drop", count=1, when=when, match={"method": "nodes.create"})
    with pytest.raises(requests.ConnectionError):
        create(cloud)
    assert call(cloud, "GET", f"{ZONE}/nodes/n1").status_code == status


def test_a_slow_answer_is_slow_by_the_clouds_clock() -> None:
    with Emulator(clock="real", speed=100) as cloud:
        cloud.fault("slow", seconds=60)
        begun = time.monotonic()
        get(cloud, f"{ZONE}/nodes")
        assert 0.6 <= time.monotonic() - begun < 10


def test_html_where_json_is_expected(cloud: Emulator) -> None:
    cloud.fault("bad_gateway", count=1, match={"zone": cloud.zone})
    answer = call(cloud, "GET", f"{ZONE}/nodes")
    assert (answer.status_code, answer.text[:15]) == (502, "<!DOCTYPE html>")
    assert answer.headers["Content-Type"].startswith("text/html")
    assert call(cloud, "GET", f"{ZONE}/nodes").status_code == 200


# Reservations ---------------------------------------------------------------------------------

RESERVED = {"schedulingConfig": {"reserved": True}}


def test_reserved_capacity_needs_a_reservation(cloud: Emulator) -> None:
    error = operation_error(cloud, create(cloud, **RESERVED))
    assert (error["code"], error["message"]) == (5, "Reservation not found")
    assert call(cloud, "GET", f"{ZONE}/nodes/n1").status_code == 404
    zone = {"zone": cloud.zone, "name": "r", "chips": 4}
    cloud.control("reservations", zone)
    create(cloud, **RESERVED)
    assert get(cloud, f"{ZONE}/nodes/n1")["state"] == "READY"
    error = operation_error(cloud, create(cloud, "n2", **RESERVED))
    assert (error["code"], error["message"][:30]) == (8, "Insufficient reserved capacity")
    call(cloud, "DELETE", f"{ZONE}/nodes/n1")
    assert "error" not in get(cloud, create(cloud, "n2", **RESERVED).json()["name"])


def test_a_queued_resource_with_reserved_capacity_needs_a_reservation(cloud: Emulator) -> None:
    spec = {"parent": ZONE, "nodeId": "n1", "node": BODY}
    asked = {"tpu": {"nodeSpec": [spec]}, "guaranteed": {"reserved": True}}
    path = f"{cloud.url}v2alpha1/{ZONE}/queuedResources"
    begun = requests.post(path, params={"queuedResourceId": "q1"}, json=asked, timeout=30)
    error = operation_error(cloud, begun)
    assert (error["code"], error["message"]) == (5, "Reservation not found")
    cloud.control("reservations", {"zone": cloud.zone, "name": "r", "chips": 4})
    requests.post(path, params={"queuedResourceId": "q1"}, json=asked, timeout=30)
    queued = requests.get(f"{path}/q1", timeout=30).json()
    assert queued["state"]["state"] == "ACTIVE"
    error = operation_error(cloud, create(cloud, "n2", **RESERVED))
    assert error["message"].startswith("Insufficient reserved capacity")
