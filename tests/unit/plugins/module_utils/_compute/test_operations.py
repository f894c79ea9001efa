"""How operations of Compute Engine and their errors are read."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.operations import (
    operation_of,
    status_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_table import Reaction
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import from_status, row_of
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    BORN,
    HOME,
    ZONE,
)

FULL = (
    f"The zone 'projects/p/zones/{ZONE}' does not have enough resources available to fulfill the "
    "request.  Try a different zone, or try again later."
)
INFO = {
    "errorInfo": {
        "domain": "compute.googleapis.com",
        "reason": "stockout",
        "metadatas": {"vmType": "ct6e-standard-4t", "zone": ZONE, "zonesAvailable": ""},
    }
}


def failed(code: str, message: str, http: int = 503, **rest: Any) -> dict[str, Any]:
    return {
        "name": "operation-1",
        "operationType": "insert",
        "status": "DONE",
        "insertTime": BORN,
        "zone": HOME,
        "targetLink": f"{HOME}/instances/one",
        "httpErrorStatusCode": http,
        "error": {"errors": [{"code": code, "message": message, **rest}]},
    }


@pytest.mark.parametrize("kind", ["insert", "compute.instanceGroupManagers.insert"])
def test_an_operation_is_about_a_node(kind: str) -> None:
    raw = {
        "name": "operation-1",
        "operationType": kind,
        "status": "RUNNING",
        "insertTime": BORN,
        "zone": HOME,
        "targetLink": f"{HOME}/instanceGroupManagers/big",
    }
    found = operation_of(raw, "p")
    assert (found.name, found.verb, found.done) == ("operation-1", "create", False)
    assert found.target == f"projects/p/locations/{ZONE}/nodes/big"
    assert found.create_time == BORN
    assert found.error == {}


@pytest.mark.parametrize(
    ("code", "message", "http", "row"),
    [
        ("ZONE_RESOURCE_POOL_EXHAUSTED", FULL, 503, "stock_out"),
        ("ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", FULL, 503, "stock_out"),
        (
            "QUOTA_EXCEEDED",
            "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 0.0 in region us-central1.",
            403,
            "quota_zero",
        ),
        (
            "QUOTA_EXCEEDED",
            "Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: 8.0 in region us-central1.",
            403,
            "quota",
        ),
        ("INTERNAL_ERROR", "Internal error. Please try again.", 500, "internal_error"),
        (
            "CONDITION_NOT_MET",
            "Constraint constraints/compute.vmExternalIpAccess violated for project p.",
            412,
            "organization_policy",
        ),
        ("RESOURCE_NOT_FOUND", "The resource 'x' was not found", 404, "not_found"),
        ("RESOURCE_ALREADY_EXISTS", "The resource 'x' already exists", 409, "exists"),
        # Of all conflicts, only one is a name that is taken.
        ("SOMETHING_IN_THE_WAY", "What is asked for is in the way", 409, "busy"),
        ("resourceNotReady", "The resource 'x' is not ready", 400, "busy"),
        ("SOMETHING_NEW", "what is this", 418, "operation_failed"),
    ],
)
def test_errors_of_operations(code: str, message: str, http: int, row: str) -> None:
    operation = operation_of(failed(code, message, http), "p")
    assert operation.done
    assert row_of(from_status(operation.error)).key == row


def test_capacity_and_quota_are_told_apart_by_what_is_done_next() -> None:
    full = from_status(status_of([{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": FULL}]))
    none = from_status(
        status_of([{"code": "QUOTA_EXCEEDED", "message": "Quota 'X' exceeded.  Limit: 0.0 in r."}])
    )
    assert row_of(full).reaction is Reaction.NEXT_PLACE
    assert row_of(none).reaction is Reaction.NEVER_HERE


def test_details_are_kept() -> None:
    raw = failed("ZONE_RESOURCE_POOL_EXHAUSTED", FULL, errorDetails=[{"help": {}}, INFO])
    error = from_status(operation_of(raw, "p").error)
    assert error.reason == "stockout"
    assert error.details[0]["metadata"]["zone"] == ZONE


def test_several_errors_become_one() -> None:
    errors = [{"code": "QUOTA_EXCEEDED", "message": "a"}, {"code": "X", "message": "a"}]
    assert status_of([*errors, {"code": "Y"}])["message"] == "a; Y"
    assert status_of([]) == {}
