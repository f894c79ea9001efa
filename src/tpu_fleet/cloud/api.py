"""The Cloud TPU API over HTTP: v2, v2alpha1, and of v1 what gcloud still asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from . import api_nodes as nodes
from . import api_offers as offers
from . import api_operations as operations
from . import catalog, errors
from .api_call import Call, Query
from .model import Cloud

Handler = Callable[[Cloud, Call], dict[str, Any]]


class Api:
    """Answers requests from the model."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def answer(
        self, method: str, path: str, query: Query, body: bytes, token: bool
    ) -> dict[str, Any]:
        """Return the JSON answer to a request, or raise ApiError."""
        self._strike(token)
        for verb, pattern, versions, permission, handler, name in _ROUTES:
            match = pattern.fullmatch(path)
            if match and verb == method and match["version"] in versions:
                self.cloud.requests[name] += 1
                call = Call(match["version"], match, query, body)
                self._admit(call, permission)
                return handler(self.cloud, call)
        raise errors.no_such_method(path)

    def _strike(self, token: bool) -> None:
        """Raise what the faults say that every method answers with."""
        cloud, now = self.cloud, self.cloud.clock.now()
        if cloud.faults.hit("unauthenticated", now) or (cloud.require_auth and not token):
            raise errors.unauthenticated()
        if cloud.faults.hit("api_disabled", now) or not cloud.around.enabled("tpu.googleapis.com"):
            raise errors.api_disabled(cloud.number)
        if cloud.faults.hit("billing_disabled", now):
            raise errors.billing_disabled(cloud.number)
        if cloud.faults.hit("unavailable", now):
            raise errors.unavailable()
        if cloud.faults.hit("internal", now):
            raise errors.internal()

    def _admit(self, call: Call, permission: str) -> None:
        cloud, now = self.cloud, self.cloud.clock.now()
        resource = f"projects/{call.project}" + (f"/locations/{call.zone}" if call.zone else "")
        where = {"zone": call.zone, "node": call.id, "permission": permission}
        foreign = call.project not in (cloud.project, cloud.number)
        if foreign or cloud.faults.hit("iam_denied", now, **where):
            raise errors.iam_denied(permission, resource)
        if call.zone and call.zone != "-" and call.zone not in catalog.ZONES:
            raise errors.location_denied(call.zone, cloud.number)
        if call.zone and cloud.faults.hit("location_denied", now, **where):
            raise errors.location_denied(call.zone, cloud.number)
        fault = cloud.faults.hit("rate_limit", now, **where)
        if fault:
            raise errors.rate_limited(cloud.number, fault.options.get("retry_after"))


_BOTH, _ALPHA, _OLD = ("v2", "v2alpha1"), ("v2alpha1",), ("v1",)
_ANY = (*_BOTH, "v1alpha1", *_OLD)


def _route(
    method: str, tail: str, versions: tuple[str, ...], permission: str, handler: Handler
) -> tuple[str, re.Pattern[str], tuple[str, ...], str, Handler, str]:
    path = "/(?P<version>v[^/]+)/projects/(?P<project>[^/]+)/locations" + tail.replace(
        "{zone}", "/(?P<zone>[^/:]+)"
    ).replace("{id}", "/(?P<id>[^/:]+)")
    return (
        method,
        re.compile(path),
        versions,
        f"tpu.{permission}",
        handler,
        method_name(method, tail),
    )


_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


def method_name(http: str, tail: str) -> str:
    """Return what the discovery document calls a method, as `nodes.create`."""
    place, _, verb = tail.partition(":")
    words = place.removeprefix("{zone}/").split("{")
    collection = words[0].strip("/") or "locations"
    to_one = place.endswith("}")
    if not verb:
        verb = "list" if http == "GET" and not to_one else _VERBS[http]
    return f"{collection}.{verb}"


_ROUTES = [
    _route("GET", "", _ANY, "locations.list", offers.list_locations),
    _route("GET", "{zone}", _ANY, "locations.get", offers.get_location),
    _route("POST", "{zone}:generateServiceIdentity", _BOTH, "nodes.create",
           offers.service_identity),
    _route("GET", "{zone}/nodes", _BOTH, "nodes.list", nodes.list_nodes),
    _route("GET", "{zone}/nodes", _OLD, "nodes.list", nodes.list_nodes_v1),
    _route("POST", "{zone}/nodes", _BOTH, "nodes.create", nodes.create_node),
    _route("GET", "{zone}/nodes{id}", _BOTH, "nodes.get", nodes.get_node),
    _route("DELETE", "{zone}/nodes{id}", _BOTH, "nodes.delete", nodes.delete_node),
    _route("PATCH", "{zone}/nodes{id}", _BOTH, "nodes.update", nodes.patch_node),
    _route("POST", "{zone}/nodes{id}:stop", _BOTH, "nodes.stop", nodes.stop_node),
    _route("POST", "{zone}/nodes{id}:start", _BOTH, "nodes.start", nodes.start_node),
    _route("POST", "{zone}/nodes{id}:getGuestAttributes", _BOTH, "nodes.get",
           nodes.guest_attributes),
    _route("POST", "{zone}/nodes{id}:simulateMaintenanceEvent", _ALPHA, "nodes.simulateMaintenance",
           nodes.simulate_maintenance),
    _route("POST", "{zone}/nodes{id}:performMaintenance", _ALPHA, "nodes.performMaintenance",
           nodes.perform_maintenance),
    _route("GET", "{zone}/operations", _ANY, "operations.list", operations.list_operations),
    _route("GET", "{zone}/operations{id}", _ANY, "operations.get", operations.get_operation),
    _route("DELETE", "{zone}/operations{id}", _ANY, "operations.delete",
           operations.delete_operation),
    _route("POST", "{zone}/operations{id}:cancel", _ANY, "operations.cancel",
           operations.cancel_operation),
    _route("GET", "{zone}/acceleratorTypes", _ANY, "acceleratortypes.list", offers.list_types),
    _route("GET", "{zone}/acceleratorTypes{id}", _ANY, "acceleratortypes.get", offers.get_type),
    _route("GET", "{zone}/runtimeVersions", _BOTH, "runtimeversions.list", offers.list_runtimes),
    _route("GET", "{zone}/runtimeVersions{id}", _BOTH, "runtimeversions.get", offers.get_runtime),
    _route("GET", "{zone}/queuedResources", _BOTH, "queuedResources.list", offers.list_queued),
    _route("GET", "{zone}/queuedResources{id}", _BOTH, "queuedResources.get", offers.get_queued),
    _route("POST", "{zone}/queuedResources", _BOTH, "queuedResources.create", offers.create_queued),
]  # fmt: skip
