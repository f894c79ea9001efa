"""Compute Engine's operations: those of instances run for a while, others are soon done."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ..compute_errors import not_found
from ..google import operations as soon_done
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared.records import OperationRecord
from . import lists
from .methods import methods
from .times import of_stamp

_WAIT = re.compile(r"/compute/[^/]+/projects/[^/]+/(?P<scope>.+)/operations/(?P<id>[^/]+)/wait")

# Compute Engine's word for an error that names none, by its number.
_CODES = {
    1: "OPERATION_CANCELED_BY_USER",
    5: "RESOURCE_NOT_FOUND",
    9: "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE",
}


def show(cloud: Cloud, operation: OperationRecord) -> dict[str, Any]:
    """Return an operation as the API shows it."""
    together = _together(cloud, operation)
    done = all(each.done and not each.stuck for each in together or [operation])
    scope = operation.scope
    place = scope.split("s/")[0]
    tail = operation.target.split("/", 2)[2]
    begun = of_stamp(operation.created)
    shown: dict[str, Any] = {
        "kind": "compute#operation",
        "id": _number(operation.name),
        "name": operation.name,
        "operationType": operation.verb,
        "targetLink": soon_done.link(cloud, tail),
        **({"targetId": operation.target_id} if operation.target_id else {}),
        "status": "DONE" if done else "RUNNING",
        "user": "system" if operation.verb.startswith("compute.instances.") else "you@example.com",
        "progress": 100 if done else 0,
        "insertTime": begun,
        "startTime": begun,
        place: soon_done.link(cloud, scope),
        "selfLink": soon_done.link(cloud, f"{scope}/operations/{operation.name}"),
    }
    if operation.group:
        shown["operationGroupId"] = operation.group
    if together:
        shown["instancesBulkInsertOperationMetadata"] = {
            "perLocationStatus": {scope: _progress(together, done)}
        }
    if done:
        shown["endTime"] = of_stamp(max(each.ended for each in together or [operation]))
    errors = [each.error for each in together or [operation] if each.error]
    if done and len(errors) == len(together or [operation]):
        # What was cancelled is so because another failed.
        shown |= _failure(next((each for each in errors if each["code"] != 1), errors[0]))
    return shown


def _together(cloud: Cloud, operation: OperationRecord) -> list[OperationRecord]:
    """Return the operations on the instances of a request for several; empty for any other."""
    if operation.verb != "bulkInsert":
        return []
    return [
        each
        for each in cloud.operations.values()
        if each.group == operation.group and each is not operation
    ]


def _progress(together: list[OperationRecord], done: bool) -> dict[str, Any]:
    """Return how many instances of a request for several there are."""
    failed = sum(1 for each in together if each.error)
    return {
        "status": "DONE" if done else "CREATING",
        "targetVmCount": len(together),
        "createdVmCount": sum(1 for each in together if each.done) - failed,
        "failedToCreateVmCount": failed,
    }


def _failure(error: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of an operation that failed."""
    details = error.get("details") or []
    known = dict(next((item["compute"] for item in details if "compute" in item), {}))
    number = known.pop("httpErrorStatusCode", 400)
    words = known.pop("httpErrorMessage", "BAD REQUEST")
    code = known.pop("code", _CODES.get(error["code"], "INTERNAL_ERROR"))
    entry = {"code": code, "message": error["message"], **known}
    return {
        "error": {"errors": [entry]},
        "httpErrorStatusCode": number,
        "httpErrorMessage": words,
    }


def _number(name: str) -> str:
    return str(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1)


def _found(cloud: Cloud, scope: str, name: str) -> dict[str, Any]:
    own = cloud.operations.get(name)
    if own is not None and own.api == "compute" and scope == own.scope:
        return show(cloud, own)
    other = cloud.around.operations.get(name)
    if other is None or other["scope"] != scope:
        raise not_found(f"projects/{cloud.project}/{scope}/operations/{name}")
    return soon_done.show(cloud, other)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one operation."""
    return _found(cloud, soon_done.scope_of(call), call["id"])


def awaited(cloud: Cloud, path: str) -> dict[str, Any]:
    """Return the operation for which a request waits, as it is now."""
    match = _WAIT.fullmatch(path)
    if match is None:
        raise not_found(path)
    cloud.advance()
    with cloud.lock:
        return _found(cloud, match["scope"], match["id"])


def _all(cloud: Cloud, scope: str = "") -> list[dict[str, Any]]:
    own = [
        show(cloud, each)
        for each in cloud.operations.values()
        if each.api == "compute" and scope in ("", each.scope)
    ]
    others = [
        soon_done.show(cloud, each)
        for each in cloud.around.operations
        if scope in ("", each["scope"]) and each["scope"] != "services"
    ]
    return sorted([*own, *others], key=lambda each: str(each["name"]))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the operations of a zone, a region or the project."""
    scope = soon_done.scope_of(call)
    found = _all(cloud, scope)
    return lists.page(cloud, call, f"{scope}/operations", found)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the operations of all zones and regions."""
    found = [(_scope_of(each), each) for each in _all(cloud)]
    return lists.aggregated(cloud, call, "operations", found)


def _scope_of(operation: dict[str, Any]) -> str:
    place = str(operation.get("zone") or operation.get("region") or "")
    return "/".join(place.split("/")[-2:]) or "global"


METHODS = methods(
    {
        **{
            f"{place}Operations.{verb}": handler
            for place in ("zone", "region", "global")
            for verb, handler in (("list", listed), ("get", get), ("wait", get))
        },
        "globalOperations.aggregatedList": aggregated,
    }
)
