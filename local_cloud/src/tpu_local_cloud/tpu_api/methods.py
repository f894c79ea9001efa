"""The Cloud TPU API over HTTP: v2, v2alpha1, and of v1 the zones, which gcloud lists there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from .. import errors, payload
from ..errors import ApiError
from ..model.cloud import Cloud
from ..model.shared import catalog
from ..model.shared.faults import Fault
from ..model.shared.history import caused_by
from ..model.shared.records import tier_of
from . import discovery, nodes, offers, operations, partial, queued
from .call import Call, Query

Handler = Callable[[Cloud, Call], dict[str, Any]]


class Route(NamedTuple):
    """One method of the API."""

    http: str
    pattern: re.Pattern[str]
    versions: tuple[str, ...]
    permission: str
    handler: Handler
    method: str
    shape: str
    """Its path without the version, with {} for each id; the key in discovery documents."""


Found = tuple[Route, re.Match[str]]


class Api:
    """Answers requests from the model."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def find(self, http: str, path: str) -> Found | None:
        """Return the method of a request, if there is one."""
        # Ids may hold encoded characters, and a client may encode the colon before a verb.
        for spelled in (path, unquote(path)) if "%" in path else (path,):
            for route in _ROUTES:
                if route.http != http:
                    continue
                match = route.pattern.fullmatch(spelled)
                if match and match["version"] in route.versions:
                    return route, match
        return None

    def where(self, found: Found, query: Query, body: bytes) -> dict[str, Any]:
        """Return the properties by which a fault matches a request."""
        route, match = found
        zone, name = match.groupdict().get("zone"), match.groupdict().get("id")
        where: dict[str, Any] = {
            "service": "tpu",
            "method": (route.method, route.http),
            "permission": route.permission,
            "version": match["version"],
            "zone": unquote(zone or ""),
        }
        if route.method.startswith("nodes."):
            where["node"] = unquote(name or query.get("nodeId") or query.get("node_id") or "")
            node = self.cloud.nodes.get(f"{where['zone']}/{where['node']}")
            if node:
                where |= self.cloud.place(node)
        elif route.method.startswith("queuedResources."):
            given = query.get("queuedResourceId") or query.get("queued_resource_id")
            where["queued"] = unquote(name or given or "")
        if route.method in ("nodes.create", "queuedResources.create"):
            where |= _asked_for(body)
        return where

    def answer(
        self,
        method: str,
        path: str,
        query: Query,
        body: bytes,
        token: bool,
        unpaid: bool = False,
    ) -> dict[str, Any]:
        """Return the JSON answer to a request, or raise ApiError."""
        cloud = self.cloud
        cloud.advance()
        found = self.find(method, path)
        where = self.where(found, query, body) if found and len(cloud.faults) else {}
        if cloud.require_auth and not token:
            raise errors.no_credentials()
        if unpaid and where and cloud.faults.hit("quota_project", cloud.clock.now(), **where):
            raise errors.quota_project_missing("tpu.googleapis.com")
        if not cloud.around.enabled("tpu.googleapis.com"):
            raise errors.api_disabled(cloud.number)
        if found is None:
            raise errors.NoSuchMethod(path)
        route, match = found
        cloud.requests[route.method] += 1
        version = "v2" if match["version"] == "v1" else match["version"]
        call = Call(version, match, query, body, route.method)
        _admit(cloud, call, route.permission, where)
        shape = f"{call.version}/{route.shape}"
        call.query = discovery.bind(call.version, method, shape, query)
        wanted = discovery.selection(call.version, method, shape, query.get("fields", ""))
        # The time stands still during a request, however fast it passes.
        with caused_by("client"), cloud.clock.at(cloud.clock.now()):
            answer: dict[str, Any] = partial.keep(route.handler(cloud, call), wanted)
        if len(cloud.faults) and cloud.faults.hit("project_number", cloud.clock.now(), **where):
            answer = _renumbered(answer, f"projects/{cloud.project}/", f"projects/{cloud.number}/")
        return answer


def _asked_for(body: bytes) -> dict[str, Any]:
    """Return the types and tiers of the nodes in a request; empty for an invalid one."""
    try:
        asked = payload.read(body or b"{}")
        specs = asked.get("tpu", {}).get("nodeSpec") or asked.get("tpu", {}).get("node_spec") or []
        specs = specs if isinstance(specs, list) else [specs]
        nodes = [spec.get("node", {}) for spec in specs] or [asked]
        types = [n.get("acceleratorType") or n.get("accelerator_type") or "" for n in nodes]
        tiers = [
            tier_of(n.get("schedulingConfig") or n.get("scheduling_config") or {}) for n in nodes
        ]
    except (ApiError, AttributeError, TypeError):
        return {}
    return {"accelerator_type": types, "tier": [*tiers, *(t for t in ("spot",) if t in asked)]}


def _admit(cloud: Cloud, call: Call, permission: str, where: dict[str, Any]) -> None:
    """Raise the reasons to refuse a call, real or by a fault."""
    faults, now = cloud.faults, cloud.clock.now()

    def struck(kind: str, only: Callable[[Fault], bool] | None = None) -> Fault | None:
        return faults.hit(kind, now, only, **where) if where else None

    if struck("unauthenticated"):
        raise errors.unauthenticated()
    if struck("api_disabled"):
        raise errors.api_disabled(cloud.number)
    if struck("billing_disabled"):
        raise errors.billing_disabled(cloud.number)
    if struck("unavailable"):
        raise errors.unavailable()
    if struck("internal"):
        raise errors.internal()
    resource = f"projects/{call.project}" + (f"/locations/{call.zone}" if call.zone else "")
    if call.project not in (cloud.project, cloud.number) or struck("iam_denied"):
        raise errors.iam_denied(permission, resource)
    if call.zone:
        if struck("zone_unsupported"):
            raise errors.zone_not_supported(call.zone)
        closed = struck("location_denied")
        if closed and closed.options.get("wording") == "old":
            raise errors.location_denied_as_of_old(call.zone)
        if closed or (call.zone != "-" and call.zone not in catalog.ZONES):
            raise errors.location_denied(call.zone, cloud.number)
    fault = struck("rate_limit", lambda f: f.too_many(now))
    if fault:
        value = int(fault.options.get("per_minute", errors.PER_MINUTE))
        after = fault.options.get("retry_after")
        raise errors.rate_limited(cloud.number, after, call.method, value)


def _renumbered(value: Any, old: str, new: str) -> Any:
    """Return an answer with the project's number in the names of resources."""
    if isinstance(value, dict):
        # Texts of users stay unchanged; an operation's metadata is Google's.
        own = ("labels", "metadata")
        return {
            key: item
            if key in own and "@type" not in (item if isinstance(item, dict) else {})
            else _renumbered(item, old, new)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_renumbered(item, old, new) for item in value]
    if isinstance(value, str) and value.startswith(old):
        return new + value.removeprefix(old)
    return value


_BOTH, _ALPHA = ("v2", "v2alpha1"), ("v2alpha1",)
# `gcloud compute tpus locations` asks v1 alone, in which the answer is the same.
_ANY = (*_BOTH, "v1")


def _route(
    method: str, tail: str, versions: tuple[str, ...], permission: str, handler: Handler
) -> Route:
    path = "/(?P<version>v[^/]+)/projects/(?P<project>[^/]+)/locations" + tail.replace(
        "{zone}", "/(?P<zone>[^/:]+)"
    ).replace("{id}", "/(?P<id>[^/:]+)")
    name = method_name(method, tail)
    shape = "projects/{}/locations" + tail.replace("{zone}", "/{}").replace("{id}", "/{}")
    return Route(method, re.compile(path), versions, f"tpu.{permission}", handler, name, shape)


_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


def method_name(http: str, tail: str) -> str:
    """Return the name of a method in the discovery document, such as `nodes.create`."""
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
    _route("GET", "{zone}/operations", _BOTH, "operations.list", operations.list_operations),
    _route("GET", "{zone}/operations{id}", _BOTH, "operations.get", operations.get_operation),
    _route("DELETE", "{zone}/operations{id}", _BOTH, "operations.delete",
           operations.delete_operation),
    _route("POST", "{zone}/operations{id}:cancel", _BOTH, "operations.cancel",
           operations.cancel_operation),
    _route("GET", "{zone}/acceleratorTypes", _BOTH, "acceleratortypes.list", offers.list_types),
    _route("GET", "{zone}/acceleratorTypes{id}", _BOTH, "acceleratortypes.get", offers.get_type),
    _route("GET", "{zone}/runtimeVersions", _BOTH, "runtimeversions.list", offers.list_runtimes),
    _route("GET", "{zone}/runtimeVersions{id}", _BOTH, "runtimeversions.get", offers.get_runtime),
    _route("GET", "{zone}/queuedResources", _BOTH, "queuedResources.list", queued.list_queued),
    _route("GET", "{zone}/queuedResources{id}", _BOTH, "queuedResources.get", queued.get_queued),
    _route("POST", "{zone}/queuedResources", _BOTH, "queuedResources.create", queued.create_queued),
    _route("DELETE", "{zone}/queuedResources{id}", _BOTH, "queuedResources.delete",
           queued.delete_queued),
    _route("POST", "{zone}/queuedResources{id}:reset", _BOTH, "queuedResources.reset",
           queued.reset_queued),
    _route("POST", "{zone}/queuedResources{id}:performMaintenanceQueuedResource", _ALPHA,
           "queuedResources.performMaintenance", queued.perform_maintenance),
    _route("GET", "{zone}/queuedResources{id}:getMaintenanceInfo", _ALPHA, "queuedResources.get",
           queued.maintenance_info),
    _route("GET", "{zone}/reservations", _ALPHA, "reservations.list", queued.list_reservations),
]  # fmt: skip
