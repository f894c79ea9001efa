"""Every error that the local cloud answers with is one that the collection knows by its words."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    from_response,
    from_status,
    row_of,
)

from tpu_local_cloud import errors
from tpu_local_cloud.errors import ApiError

ARGUMENTS: dict[str, Any] = {
    "fields": [("zone", "node")],
    "names": ["filter"],
    "retry_after": 5,
    "limit": 4,
    "scopes": ("zone", "region"),
    "state": "CREATING",
    "method": "nodes.create",
    "status": "FAILED_PRECONDITION",
    "value": 1,
}
# Of which row each is, where it is not the row for requests that are simply wrong.
ROW_OF = {
    "type_not_in_zone": "type_not_in_zone",
    "runtime_not_in_zone": "runtime_not_in_zone",
    "zone_not_supported": "zone_not_supported",
    "wrong_state": "wrong_state",
    "single_host_only": "single_host_only",
    "cannot_restart": "lost_state",
    "malformed_name": "invalid_name",
    "incompatible_request_id": "request_id",
    "flex_start_not_supported": "flex_start",
    "queued_has_nodes": "queued_has_nodes",
    "no_credentials": "credentials",
    "unauthenticated": "credentials",
    "api_disabled": "api_disabled",
    "quota_project_missing": "quota_project",
    "iam_denied": "iam",
    "location_denied_as_of_old": "location",
    "location_denied": "location",
    "billing_disabled": "billing",
    "queue_denied": "queue",
    "queue_closed": "queue",
    "not_found": "not_found",
    "no_such_discovery": "not_found",
    "reservation_not_found": "reservation_missing",
    "already_exists": "exists",
    "busy": "busy",
    "rate_limited": "rate_limit",
    "unavailable": "service_unavailable",
    "internal": "internal",
    "queued_internal": "internal",
    "unimplemented": "unimplemented",
    "not_emulated": "unimplemented",
    "disk_full": "internal",
    "cancelled": "cancelled",
}
# What operations and queued resources fail with.
ROW_OF_OPERATION = {
    "stock_out": "stock_out",
    "insufficient_reservation": "reserved_capacity",
    "not_in_time": "queued_expired",
    "internal": "internal_error",
    "queued_internal": "internal_error",
    "reservation_not_found": "reservation_missing",
    "flex_start_not_supported": "flex_start",
    "queue_closed": "queue",
    "cancelled": "cancelled",
    "unavailable": "service_unavailable",
}


def made(name: str) -> ApiError:
    function = getattr(errors, name)
    names = inspect.signature(function).parameters
    error: ApiError = function(*(ARGUMENTS.get(n, f"a-{n}") for n in names))
    return error


def factories() -> list[str]:
    return [
        name
        for name, function in inspect.getmembers(errors, inspect.isfunction)
        if function.__annotations__.get("return") == "ApiError"
    ]


@pytest.mark.parametrize("name", sorted(set(factories()) - set(ROW_OF_OPERATION) | set(ROW_OF)))
def test_answer(name: str) -> None:
    error = made(name)
    known = from_response(error.http, error.body(), error.headers)
    assert row_of(known).key == ROW_OF.get(name, "quota" if "quota" in name else "bad_request")


@pytest.mark.parametrize("name", ROW_OF_OPERATION)
def test_operation(name: str) -> None:
    assert row_of(from_status(made(name).rpc_status())).key == ROW_OF_OPERATION[name]


def test_state_in_which_a_node_is_lost() -> None:
    error = errors.wrong_state("update", "PREEMPTED")
    assert row_of(from_response(error.http, error.body())).key == "lost_state"


def test_page_of_the_front_end() -> None:
    assert row_of(from_response(502, errors.BAD_GATEWAY)).key == "bad_gateway"
    page = errors.NOT_THERE.format("/v2/projects/my-project")
    assert row_of(from_response(404, page)).key == "wrong_endpoint"
