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
from ..model.shared.records import OperationRecord, tier_of
from ..model.shared.schema import methods, path_pattern
from . import discovery, nodes, offers, operations, partial, queued
from .call import Asked, Call, Query

Handler = Callable[[Cloud, Call], dict[str, Any] | OperationRecord]


class Route(NamedTuple):
    """One method of the API."""

    http: str
    pattern: re.Pattern[str]
    versions: tuple[str, ...]
    permission: str
    handler: Handler
    method: str
    """Its name in the discovery documents, such as `nodes.create`."""


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

    def answer(self, asked: Asked) -> dict[str, Any]:
        """Return the JSON answer to a request, or raise ApiError."""
        cloud = self.cloud
        cloud.advance()
        found = self.find(asked.method, asked.path)
        where = self.where(found, asked.query, asked.body) if found and len(cloud.faults) else {}
        if cloud.require_auth and not asked.token:
            raise errors.no_credentials()
        if asked.unpaid and where and cloud.faults.hit("quota_project", cloud.clock.now(), **where):
            raise errors.quota_project_missing("tpu.googleapis.com")
        if not cloud.around.enabled("tpu.googleapis.com"):
            raise errors.api_disabled(cloud.number)
        if found is None:
            raise errors.NoSuchMethod(asked.path)
        route, match = found
        cloud.requests[route.method] += 1
        version = "v2" if match["version"] == "v1" else match["version"]
        call = Call(version, match, asked.query, asked.body, route.method)
        _admit(cloud, call, route.permission, where)
        call.query = discovery.bind(call.version, route.method, asked.query)
        wanted = discovery.selection(call.version, route.method, asked.query.get("fields", ""))
        # The time stands still during a request, however fast it passes.
        with caused_by("client"), cloud.clock.at(cloud.clock.now()):
            done = route.handler(cloud, call)
            shown = done.render(cloud.project) if isinstance(done, OperationRecord) else done
        answer: dict[str, Any] = partial.keep(shown, wanted)
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


# A version of the API that Google's document no longer has, in which clients look for zones.
_OLD = {"locations.list": ("v1",), "locations.get": ("v1",)}
# The permission for a method is called as the method is, apart from these.
_PERMISSIONS = {
    "locations.generateServiceIdentity": "nodes.create",
    "nodes.patch": "nodes.update",
    "nodes.getGuestAttributes": "nodes.get",
    "nodes.simulateMaintenanceEvent": "nodes.simulateMaintenance",
    "acceleratorTypes.list": "acceleratortypes.list",
    "acceleratorTypes.get": "acceleratortypes.get",
    "runtimeVersions.list": "runtimeversions.list",
    "runtimeVersions.get": "runtimeversions.get",
    "queuedResources.performMaintenanceQueuedResource": "queuedResources.performMaintenance",
    "queuedResources.getMaintenanceInfo": "queuedResources.get",
}
_HANDLERS: dict[str, Handler] = {
    "locations.list": offers.list_locations,
    "locations.get": offers.get_location,
    "locations.generateServiceIdentity": offers.service_identity,
    "nodes.list": nodes.list_nodes,
    "nodes.create": nodes.create_node,
    "nodes.get": nodes.get_node,
    "nodes.delete": nodes.delete_node,
    "nodes.patch": nodes.patch_node,
    "nodes.stop": nodes.stop_node,
    "nodes.start": nodes.start_node,
    "nodes.getGuestAttributes": nodes.guest_attributes,
    "nodes.simulateMaintenanceEvent": nodes.simulate_maintenance,
    "nodes.performMaintenance": nodes.perform_maintenance,
    "operations.list": operations.list_operations,
    "operations.get": operations.get_operation,
    "operations.delete": operations.delete_operation,
    "operations.cancel": operations.cancel_operation,
    "acceleratorTypes.list": offers.list_types,
    "acceleratorTypes.get": offers.get_type,
    "runtimeVersions.list": offers.list_runtimes,
    "runtimeVersions.get": offers.get_runtime,
    "queuedResources.list": queued.list_queued,
    "queuedResources.get": queued.get_queued,
    "queuedResources.create": queued.create_queued,
    "queuedResources.delete": queued.delete_queued,
    "queuedResources.reset": queued.reset_queued,
    "queuedResources.performMaintenanceQueuedResource": queued.perform_maintenance,
    "queuedResources.getMaintenanceInfo": queued.maintenance_info,
    "reservations.list": queued.list_reservations,
}


def _route(name: str, handler: Handler) -> Route:
    versions = [version for version in discovery.VERSIONS if name in methods(version)]
    said = methods(versions[0])[name]
    path = said["flatPath"].partition("/")[2].replace("{projectsId}", "(?P<project>[^/]+)")
    pattern = re.compile("/(?P<version>v[^/]+)/" + path_pattern(path))
    permission = f"tpu.{_PERMISSIONS.get(name, name)}"
    served = (*versions, *_OLD.get(name, ()))
    return Route(said["httpMethod"], pattern, served, permission, handler, name)


_ROUTES = [_route(name, handler) for name, handler in _HANDLERS.items()]
