"""Which error means what: the service's own texts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import row_of

ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
NO_CAPACITY = (
    'There is no more capacity in the zone "us-central1-c"; you can try in another zone where '
    "Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) "
    "[EID: 0x9f48947a7d57c8d]"
)
API_OFF = (
    "Cloud TPU API has not been used in project 1032299714650 before or it is disabled. Enable it "
    "by visiting https://console.developers.google.com/apis/api/tpu.googleapis.com/overview?"
    "project=1032299714650 then retry. If you enabled this API recently, wait a few minutes for "
    "the action to propagate to our systems and retry."
)
QUOTA = (
    "Quota limit 'TPUV5sLitepodServingPerProjectPerZoneForTPUAPI' has been exceeded. "
    "Limit: 4 in zone us-east5-a."
)
NO_TYPE = (
    "Cloud TPU received a bad request. The requested accelerator configuration for accelerator "
    'type, "v5litepod-8", could not be found in the zonal accelerator configurations for '
    '"us-central1-b".; the accelerator v5litepod-8 was not found in zone us-central1-b '
    "[EID: 0x5be9ca996f9773a4]"
)
RATE = (
    "Quota exceeded for quota metric 'Create node requests' and limit 'Create node requests per "
    "minute' of service 'tpu.googleapis.com' for consumer 'project_number:123'."
)
QUEUE = (
    "User does not have permission to submit requests for accelerator type "
    '"v5litepod-4" in location us-central1-a'
)


def info(reason: str, **metadata: str) -> dict[str, Any]:
    return {
        "@type": ERROR_INFO,
        "reason": reason,
        "domain": "googleapis.com",
        "metadata": {"service": "tpu.googleapis.com", **metadata},
    }


def violation(text: str) -> dict[str, Any]:
    violations = [{"subject": "project:1037372895180", "description": text}]
    return {"@type": QUOTA_FAILURE, "violations": violations}


RESPONSES = [
    # status, enum, message, details, kind, flavour, words of the remedy
    (400, "INVALID_ARGUMENT", NO_TYPE, [], "bad_request", None, "accelerator-types list"),
    (
        400,
        "INVALID_ARGUMENT",
        'Cloud TPU received a bad request. The requested zone "asia-northeast1-a" is not '
        "supported. [EID: 0x1]",
        [],
        "bad_request",
        None,
        "locations list",
    ),
    (
        400,
        "INVALID_ARGUMENT",
        "Cloud TPU received a bad request. update is not supported while in state PREEMPTED "
        "[EID: 0x1]",
        [],
        "bad_request",
        None,
        "recreate: true",
    ),
    (400, "FAILED_PRECONDITION", "Your request has been denied.", [], "bad_request", None, None),
    (
        401,
        "UNAUTHENTICATED",
        "Request had invalid authentication credentials.",
        [info("ACCESS_TOKEN_EXPIRED")],
        "credentials",
        None,
        "gcloud auth application-default login",
    ),
    (
        403,
        "PERMISSION_DENIED",
        API_OFF,
        [info("SERVICE_DISABLED", consumer="projects/1032299714650")],
        "permission",
        "api_disabled",
        "gcloud services enable tpu.googleapis.com --project=1032299714650",
    ),
    (
        403,
        "PERMISSION_DENIED",
        API_OFF,
        [],
        "permission",
        "api_disabled",
        "--project=1032299714650",
    ),
    (
        403,
        "PERMISSION_DENIED",
        "Permission 'tpu.nodes.list' denied on 'projects/p/locations/z'",
        [info("IAM_PERMISSION_DENIED")],
        "permission",
        "iam",
        "add-iam-policy-binding p --role=roles/tpu.viewer",
    ),
    (
        403,
        "PERMISSION_DENIED",
        "Permission 'tpu.nodes.update' denied on 'projects/p/locations/z/nodes/n'",
        [],
        "permission",
        "iam",
        "--role=roles/tpu.admin",
    ),
    (
        403,
        "PERMISSION_DENIED",
        "Permission denied on 'locations/us-central2-b' (or it may not exist).",
        [info("LOCATION_POLICY_VIOLATED", consumer="projects/9", location="us-central2-b")],
        "permission",
        "location",
        "locations list --project=9",
    ),
    (
        403,
        "PERMISSION_DENIED",
        "Location us-east1-d is not found or access is unauthorized.",
        [],
        "permission",
        "location",
        "Check the zone's name",
    ),
    (
        403,
        "PERMISSION_DENIED",
        "This API method requires billing to be enabled.",
        [info("BILLING_DISABLED", consumer="projects/9")],
        "permission",
        "billing",
        "gcloud billing projects link 9",
    ),
    (403, "PERMISSION_DENIED", QUEUE, [], "permission", "queue", "repeating never helps"),
    (
        403,
        "PERMISSION_DENIED",
        "Permission denied on resource project wrong.",
        [info("CONSUMER_INVALID", consumer="projects/wrong")],
        "permission",
        "project",
        "gcloud projects list",
    ),
    (403, "PERMISSION_DENIED", "No.", [], "permission", "other", "Check which account"),
    (404, "NOT_FOUND", "Resource 'projects/p/…/n' was not found", [], "not_found", None, None),
    (409, "ALREADY_EXISTS", "Resource 'n' already exists", [], "exists", None, "another name"),
    (409, "ABORTED", "unable to queue the operation", [], "busy", None, "running operation"),
    (429, "RESOURCE_EXHAUSTED", QUOTA, [violation("…")], "quota", None, "more quota"),
    (429, "RESOURCE_EXHAUSTED", QUOTA, [], "quota", None, "more quota"),
    (
        429,
        "RESOURCE_EXHAUSTED",
        QUOTA.replace("Limit: 4", "Limit: 0"),
        [violation("…")],
        "quota",
        None,
        "it will never succeed",
    ),
    (
        429,
        "RESOURCE_EXHAUSTED",
        RATE,
        [info("RATE_LIMIT_EXCEEDED")],
        "rate_limit",
        None,
        "Wait a minute",
    ),
    (429, "RESOURCE_EXHAUSTED", RATE, [], "rate_limit", None, "Wait a minute"),
    (
        429,
        "RESOURCE_EXHAUSTED",
        "Too many operations are currently being executed, try again later.",
        [],
        "rate_limit",
        None,
        "Wait a minute",
    ),
    (500, "INTERNAL", "Internal error. Please try again", [], "unavailable", None, None),
    (501, "UNIMPLEMENTED", "Not here", [], "bad_request", None, None),
    (503, "UNAVAILABLE", "The service is currently unavailable.", [], "unavailable", None, None),
]


@pytest.mark.parametrize(
    ("status", "enum", "message", "details", "kind", "flavour", "remedy"), RESPONSES
)
def test_response(
    status: int,
    enum: str,
    message: str,
    details: list[dict[str, Any]],
    kind: str,
    flavour: str | None,
    remedy: str | None,
) -> None:
    body = {"error": {"code": status, "message": message, "status": enum, "details": details}}
    error = _errors.from_response(status, json.dumps(body).encode(), {})
    assert error.kind == kind
    assert getattr(error, "flavour", None) == flavour
    assert error.http_status == status
    assert error.details == details
    assert error.reason == (details[0].get("reason") if details else None)
    assert "EID" not in str(error)
    if remedy:
        assert remedy in str(error)


STATUSES = [
    (8, NO_CAPACITY, "stock_out"),
    (8, "something new about resources", "stock_out"),
    (8, "Insufficient reserved capacity. Contact customer support. [EID: 0x1]", "stock_out"),
    (9, "Insufficient reserved capacity. Contact customer support. [EID: 0x1]", "stock_out"),
    (8, QUOTA, "quota"),
    (5, "Reservation not found", "not_found"),
    (7, QUEUE, "permission"),
    (3, "update is not supported while in state PREEMPTED [EID: 0x1]", "bad_request"),
    (13, "an internal error [EID: 0x77] has occurred", "operation_failed"),
    (14, "The service is currently unavailable.", "unavailable"),
    (1, "cancelled by the user", "cancelled"),
    (99, "a code of the future", "operation_failed"),
]


@pytest.mark.parametrize(("code", "message", "kind"), STATUSES)
def test_status_of_an_operation(code: int, message: str, kind: str) -> None:
    error = _errors.from_status({"code": code, "message": message})
    assert error.kind == kind
    assert error.rpc_code == code
    assert "EID" not in error.message


def test_event_id_is_kept_apart() -> None:
    error = _errors.from_status({"code": 8, "message": NO_CAPACITY})
    assert error.eid == "0x9f48947a7d57c8d"
    assert error.message.endswith("docs/regions)")
    assert error.to_dict()["eid"] == "0x9f48947a7d57c8d"


REGION = (
    "Quota limit 'TPUV6EPerProjectPerRegionForTPUAPI' has been exceeded. Limit: 64 in region "
    "us-east5."
)
EXHAUSTED = "Quota 'TPUV6EPerProjectPerZoneForTPUAPI' exhausted. Limit 4 in zone us-east5-a"
LIMITS = [
    # message, descriptions of the violations, limit, row
    (QUOTA, [], 4, "quota"),
    (QUOTA.replace("Limit: 4", "Limit: 0"), [], 0, "quota_zero"),
    (REGION, [], 64, "quota"),
    (REGION.replace("64", "0"), [], 0, "quota_zero"),
    # The zone's limit and the region's may both be reached: the smaller one decides.
    (REGION, [EXHAUSTED, EXHAUSTED.replace("Limit 4", "Limit 16")], 4, "quota"),
    (REGION, [EXHAUSTED, EXHAUSTED.replace("Limit 4", "Limit 0")], 0, "quota_zero"),
    ("words that nobody knows", [EXHAUSTED], 4, "quota"),
    ("words that nobody knows", ["neither here"], None, "quota"),
]


@pytest.mark.parametrize(("message", "descriptions", "limit", "key"), LIMITS)
def test_limit_of_a_quota(
    message: str, descriptions: list[str], limit: int | None, key: str
) -> None:
    details = [
        {"@type": QUOTA_FAILURE, "violations": [{"description": text} for text in descriptions]}
    ]
    if not descriptions:
        details = []
    body = {"error": {"status": "RESOURCE_EXHAUSTED", "message": message, "details": details}}
    status = {"code": 8, "message": message, "details": details}
    for error in (_errors.from_response(429, body), _errors.from_status(status)):
        assert isinstance(error, _errors.QuotaExceeded)
        assert error.limit == limit
        assert row_of(error).key == key


def test_what_the_caller_wrote_names_the_project() -> None:
    """The service knows the project by its number only."""
    body = {"error": {"status": "PERMISSION_DENIED", "message": API_OFF}}
    error = _errors.from_response(403, body, {}, "v2/projects/my-project/locations/-/nodes")
    assert error.remedy == "Run: gcloud services enable tpu.googleapis.com --project=my-project"


BODIES = [
    b"",
    b"null",
    b"[]",
    b"\xff\xfe not text",
    b'{"error": "invalid_grant", "error_description": "why"}',
    b'{"error": {"message": null, "details": {"a": 1}}}',
    b'[{"error": {"code": 502, "message": "in a list"}}]',
    b"<html><head><title>502 Bad Gateway</title><style>a{}</style></head><body>x</body></html>",
]


@pytest.mark.parametrize("body", BODIES)
def test_any_body_can_be_read(body: bytes) -> None:
    error = _errors.from_response(502, body, {})
    assert error.kind == "unavailable"
    assert error.message
    assert "<" not in error.message


def test_words_of_a_page_are_kept() -> None:
    assert _errors.from_response(502, BODIES[-1], {}).message == "502 Bad Gateway x"


RETRY_AFTER = [
    ({"Retry-After": "7"}, 7.0),
    ({"retry-after": "1.5"}, 1.5),
    ({"Retry-After": "-1"}, 0.0),
    ({"Retry-After": "soon"}, None),
    ({"Retry-After": "Wed, 21 Oct"}, None),
    # A point in time counts by the clock of the one who names it.
    (
        {
            "Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT",
            "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
        },
        30.0,
    ),
    (
        {
            "Retry-After": "Wed, 21 Oct 2026 07:27:00 GMT",
            "Date": "Wed, 21 Oct 2026 07:28:00 GMT",
        },
        0.0,
    ),
    ({"Retry-After": "Wed, 21 Oct 2026 07:28:30 GMT"}, None),
    ({}, None),
]


@pytest.mark.parametrize(("headers", "seconds"), RETRY_AFTER)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after(status: int, headers: dict[str, str], seconds: float | None) -> None:
    error = _errors.from_response(status, b"", headers)
    assert isinstance(error, (_errors.RateLimited, _errors.Unavailable))
    assert error.retry_after == seconds


def test_retry_after_in_the_details() -> None:
    """Some services say it there; what the header says goes before."""
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "12.5s"}
    body = {"error": {"status": "RESOURCE_EXHAUSTED", "message": RATE, "details": [detail]}}
    for headers, seconds in (({}, 12.5), ({"Retry-After": "3"}, 3.0)):
        error = _errors.from_response(429, body, headers)
        assert isinstance(error, _errors.RateLimited)
        assert error.retry_after == seconds


def test_answer_of_the_front_end() -> None:
    """The headers of the real quota answer name ESF, and no time to wait."""
    headers = {"Content-Type": "application/json; charset=UTF-8", "Server": "ESF"}
    body = {"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": QUOTA}}
    error = _errors.from_response(429, json.dumps(body), headers)
    assert isinstance(error, _errors.QuotaExceeded)
    assert not hasattr(error, "retry_after")


ZONES = [
    ("v2/projects/p/locations/us-west4-a/nodes", "--zone=us-west4-a --project=p"),
    ("v2/projects/p/locations/-/nodes", "--zone=<zone> --project=p"),
    (None, "--zone=<zone> --project=<project>"),
]


@pytest.mark.parametrize(("resource", "words"), ZONES)
def test_remedy_names_the_zone_and_the_project(resource: str | None, words: str) -> None:
    body = {"error": {"status": "INVALID_ARGUMENT", "message": NO_TYPE}}
    assert words in str(_errors.from_response(400, body, {}, resource))
