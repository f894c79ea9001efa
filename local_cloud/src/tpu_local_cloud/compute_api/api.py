"""Compute Engine over HTTP, on the TPU API's port, because their paths differ."""

from __future__ import annotations

import re
from typing import Any

from .. import compute_errors, errors, payload
from ..errors import ApiError
from ..google.answers import Call
from ..google.api import TITLES, disabled
from ..google.operations import show as show_done
from ..model.cloud import Cloud
from ..model.shared.faults import Fault
from ..model.shared.history import caused_by
from ..tpu_api.call import Asked
from . import (
    catalog,
    disks,
    firewalls,
    future_reservations,
    groups,
    instances,
    networks,
    operations,
    policies,
    project,
    reservations,
    templates,
)
from .methods import Method
from .operations import awaited

__all__ = ["answer", "awaited", "where"]

METHODS: list[Method] = [
    *instances.METHODS,
    *groups.METHODS,
    *operations.METHODS,
    *catalog.METHODS,
    *policies.METHODS,
    *templates.METHODS,
    *reservations.METHODS,
    *future_reservations.METHODS,
    *disks.METHODS,
    *networks.METHODS,
    *firewalls.METHODS,
    *project.METHODS,
]
Found = tuple[Method, re.Match[str]]


def answer(cloud: Cloud, asked: Asked) -> dict[str, Any] | None:
    """Return the answer to a request, raise ApiError, or return None for an unknown path."""
    found = _find(asked.method, asked.path)
    if found is None:
        return None
    try:
        return _answer(cloud, found, asked)
    except ApiError as error:
        raise compute_errors.as_compute(error) from None


def where(method: str, path: str, body: bytes) -> dict[str, Any] | None:
    """Return the properties by which a fault matches a request; None for an unknown path."""
    found = _find(method, path)
    return _where(found, body) if found else None


def _find(method: str, path: str) -> Found | None:
    if not path.startswith("/compute/"):
        return None
    for route in METHODS:
        match = route.pattern.fullmatch(path)
        if match and route.http == method:
            return route, match
    return None


def _where(found: Found, body: bytes) -> dict[str, Any]:
    route, match = found
    groups_of = match.groupdict()
    return {
        "service": "compute",
        "method": (route.name, route.http),
        "permission": route.permission,
        "version": match["version"],
        "zone": groups_of.get("zone") or "",
        "node": groups_of.get("id") or _name_in(route, body),
    }


def _name_in(route: Method, body: bytes) -> str:
    if not route.name.endswith(".insert"):
        return ""
    try:
        return str(payload.read(body or b"{}").get("name", ""))
    except (ApiError, AttributeError):
        return ""


def _answer(cloud: Cloud, found: Found, asked: Asked) -> dict[str, Any]:
    route, match = found
    cloud.advance()
    cloud.requests[f"compute.{route.name}"] += 1
    call = Call(route.http, match.groupdict(), asked.query, asked.body, base=route.name)
    _admit(cloud, call, route, _where(found, asked.body), asked)
    # The time stands still during a request, however fast it passes.
    with cloud.lock, caused_by("client"), cloud.clock.at(cloud.clock.now()):
        return _once(cloud, call, asked.path, route)


def _once(cloud: Cloud, call: Call, path: str, route: Method) -> dict[str, Any]:
    """Carry out a request; one that is repeated with its id begins nothing new."""
    request_id = call.query.get("requestId", "")
    if not request_id or call.method == "GET":
        return route.handler(cloud, call)
    request = f"{call.method} {path}"
    for operation in cloud.operations.values():
        if (operation.request_id, operation.request) == (request_id, request):
            return operations.show(cloud, operation)
    for earlier in cloud.around.operations:
        if earlier.get("request") == [request_id, request]:
            return show_done(cloud, earlier)
    answered = route.handler(cloud, call)
    name = str(answered.get("name"))
    begun, other = cloud.operations.get(name), cloud.around.operations.get(name)
    if begun is not None:
        begun.request_id, begun.request = request_id, request
        cloud.store.save("operation", begun.name, begun.to_dict())
    elif other is not None:
        cloud.around.operations.put(name, {**other, "request": [request_id, request]})
    return answered


def _admit(cloud: Cloud, call: Call, route: Method, place: dict[str, Any], asked: Asked) -> None:
    """Raise the reasons to refuse a call, real or by a fault."""
    now, faults = cloud.clock.now(), cloud.faults

    def struck(kind: str) -> Fault | None:
        return faults.hit(kind, now, **place)

    if struck("unauthenticated") or (cloud.require_auth and not asked.token):
        raise errors.unauthenticated()
    if asked.unpaid and struck("quota_project"):
        raise errors.quota_project_missing("compute.googleapis.com")
    if not cloud.around.enabled("compute.googleapis.com") or struck("api_disabled"):
        raise disabled(cloud, "compute.googleapis.com", TITLES["compute"])
    if struck("billing_disabled"):
        raise errors.billing_disabled(cloud.number)
    if struck("unavailable"):
        raise compute_errors.unavailable()
    if struck("internal"):
        raise errors.internal()
    # A public project is not named.
    if call["project"] not in ("", cloud.project, cloud.number) or struck("iam_denied"):
        scope = f"/zones/{call['zone']}" if call["zone"] else ""
        raise compute_errors.denied(route.permission, f"projects/{call['project']}{scope}")
    limit = faults.hit("rate_limit", now, lambda fault: fault.too_many(now), **place)
    if limit:
        raise compute_errors.rate_limited(cloud.number, limit.options.get("retry_after"))
