"""The Cloud TPU API over HTTP: v2, v2alpha1, and of v1 what gcloud still asks for."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from ansible_collections.tpu.fleet.plugins.module_utils._accelerators import API_ENUM

from . import catalog, errors, schema
from .model import Cloud
from .records import NodeRecord

DEFAULT_PAGE, LARGEST_PAGE = 500, 1000

# One request after it was taken apart.
Query = dict[str, str]
Handler = Callable[["Api", "Call"], dict[str, Any]]


class Call:
    """One request: version, project, zone, id, verb, query and body."""

    def __init__(self, version: str, match: re.Match[str], query: Query, body: bytes) -> None:
        groups = match.groupdict()
        self.version = version
        self.project = unquote(groups["project"])
        self.zone = unquote(groups.get("zone") or "")
        self.id = unquote(groups.get("id") or "")
        self.query = query
        self._body = body

    def parse(self, message: dict[str, schema.Spec], where: str) -> dict[str, Any]:
        """Return the body, checked; an absent body is an empty one."""
        if not self._body.strip():
            return {}
        try:
            raw = json.loads(self._body)
        except ValueError:
            raise errors.invalid_json() from None
        return schema.parse(raw, message, where)

    def argument(self, name: str) -> str:
        """Return a query parameter in either spelling."""
        return self.query.get(name) or self.query.get(schema.snake(name)) or ""


class Api:
    """Answers requests from the model."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def answer(
        self, method: str, path: str, query: Query, body: bytes, token: bool
    ) -> dict[str, Any]:
        """Return the JSON answer to a request, or raise ApiError."""
        self._strike(token)
        for verb, pattern, versions, permission, handler in _ROUTES:
            match = pattern.fullmatch(path)
            if match and verb == method and match["version"] in versions:
                call = Call(match["version"], match, query, body)
                self._admit(call, permission)
                return handler(self, call)
        raise errors.no_such_method(path)

    def _strike(self, token: bool) -> None:
        """Raise what the faults say that every method answers with."""
        cloud, now = self.cloud, self.cloud.clock.now()
        if cloud.faults.hit("unauthenticated", now) or (cloud.require_auth and not token):
            raise errors.unauthenticated()
        if cloud.faults.hit("api_disabled", now):
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

    def page(
        self, call: Call, items: list[Any], key: str, show: Callable[[Any], Any]
    ) -> dict[str, Any]:
        """Return one page of a list; what is empty is left out."""
        size = call.argument("pageSize")
        if size and not re.fullmatch(r"\d+", size):
            raise errors.invalid_page_size()
        count = min(int(size or 0) or DEFAULT_PAGE, LARGEST_PAGE)
        start = _start(call.argument("pageToken"))
        answer: dict[str, Any] = {}
        shown = [show(item) for item in items[start : start + count]]
        if shown:
            answer[key] = shown
        if start + count < len(items):
            token = base64.urlsafe_b64encode(f"from:{start + count}".encode()).decode()
            answer["nextPageToken"] = token
        return answer

    # Nodes ------------------------------------------------------------------------------------

    def list_nodes(self, call: Call) -> dict[str, Any]:
        """List the nodes of a zone, or of all."""
        cloud = self.cloud
        nodes = cloud.nodes_in(call.zone)
        zones = list(catalog.ZONES) if call.zone == "-" else [call.zone]
        now = cloud.clock.now()
        lost = [zone for zone in zones if cloud.faults.hit("unreachable", now, zone=zone)]
        nodes = [node for node in nodes if node.zone not in lost]
        answer = self.page(call, nodes, "nodes", lambda n: cloud.render(n, call.version))
        if lost:
            project = cloud.shown_project
            answer["unreachable"] = [f"projects/{project}/locations/{zone}" for zone in lost]
        return answer

    def list_nodes_v1(self, call: Call) -> dict[str, Any]:
        """List nodes in the shape of the old API, which `gcloud compute tpus list` reads."""
        return self.page(call, self.cloud.nodes_in(call.zone), "nodes", self._v1_node)

    def _v1_node(self, node: NodeRecord) -> dict[str, Any]:
        shown = self.cloud.render(node)
        kept = ("name", "description", "acceleratorType", "state", "health", "createTime", "labels")
        old = {key: shown[key] for key in kept if key in shown}
        old["tensorflowVersion"] = node.body.get("runtimeVersion", "")
        old["apiVersion"] = shown["apiVersion"]
        old["network"] = node.body.get("networkConfig", {}).get("network", "default")
        old["networkEndpoints"] = [
            {"ipAddress": e["ipAddress"], "port": e["port"]}
            for e in shown.get("networkEndpoints", [])
        ]
        result: dict[str, Any] = schema.proto3(old)
        return result

    def get_node(self, call: Call) -> dict[str, Any]:
        """Return one node."""
        node = self.cloud.node(call.zone, call.id)
        where = {"zone": node.zone, "node": node.name}
        if self.cloud.faults.hit("not_found_after_create", self.cloud.clock.now(), **where):
            raise errors.not_found(node.resource(self.cloud.project))
        return self.cloud.render(node, call.version)

    def create_node(self, call: Call) -> dict[str, Any]:
        """Begin to make a node."""
        body = call.parse(schema.NODES[call.version], "node")
        name = call.argument("nodeId")
        operation = self.cloud.create(call.zone, name, body, call.version)
        return operation.render(self.cloud.shown_project)

    def delete_node(self, call: Call) -> dict[str, Any]:
        """Begin to delete a node."""
        operation = self.cloud.delete(call.zone, call.id, call.version)
        return operation.render(self.cloud.shown_project)

    def patch_node(self, call: Call) -> dict[str, Any]:
        """Begin to update a node."""
        body = call.parse(schema.NODES[call.version], "node")
        names = [name.strip() for name in call.argument("updateMask").split(",") if name.strip()]
        mask = [".".join(schema.snake(part) for part in name.split(".")) for name in names]
        operation = self.cloud.update(call.zone, call.id, body, mask, call.version)
        return operation.render(self.cloud.shown_project)

    def stop_node(self, call: Call) -> dict[str, Any]:
        """Begin to stop a node."""
        call.parse(schema.EMPTY, "")
        operation = self.cloud.stop(call.zone, call.id, call.version)
        return operation.render(self.cloud.shown_project)

    def start_node(self, call: Call) -> dict[str, Any]:
        """Begin to start a node."""
        call.parse(schema.EMPTY, "")
        operation = self.cloud.start(call.zone, call.id, call.version)
        return operation.render(self.cloud.shown_project)

    def guest_attributes(self, call: Call) -> dict[str, Any]:
        """Return what the workers published; the place in the list is the worker's number."""
        body = call.parse(schema.GUEST_ATTRIBUTES, "")
        node = self.cloud.node(call.zone, call.id)
        path = body.get("queryPath", "")
        # gcloud sends one empty id for "all".
        asked = [worker for worker in body.get("workerIds", []) if worker]
        try:
            workers = [int(worker) for worker in asked] or list(range(len(node.machines)))
            found = [self._attributes_of(node, worker, path) for worker in workers]
        except (ValueError, IndexError):
            raise errors.bad_request(f"worker ids {asked} are not those of the node.") from None
        return {"guestAttributes": found}

    def _attributes_of(self, node: NodeRecord, worker: int, path: str) -> dict[str, Any]:
        where = {"zone": node.zone, "node": node.name, "worker": str(worker)}
        if worker < 0 or worker >= len(node.machines):
            raise IndexError(worker)
        if self.cloud.faults.hit("guest_attributes_missing", self.cloud.clock.now(), **where):
            return {}
        namespace, _, key = path.partition("/")
        items = [
            {"namespace": space, "key": name, "value": value}
            for space, values in sorted(node.guest[worker].items())
            for name, value in sorted(values.items())
            if namespace in ("", space) and key in ("", name)
        ]
        return {"queryPath": path, "queryValue": {"items": items}} if items else {}

    def simulate_maintenance(self, call: Call) -> dict[str, Any]:
        """Begin a maintenance of one worker, of which only the first that is named counts."""
        body = call.parse(schema.SIMULATE, "")
        try:
            workers = [int(worker) for worker in body.get("workerIds", []) if worker][:1]
        except ValueError:
            raise errors.bad_request(f"worker ids {body['workerIds']} are not numbers.") from None
        operation = self.cloud.maintain(call.zone, call.id, workers, call.version)
        return operation.render(self.cloud.shown_project)

    def perform_maintenance(self, call: Call) -> dict[str, Any]:
        """Begin a maintenance of all workers."""
        call.parse(schema.EMPTY, "")
        workers = list(range(len(self.cloud.node(call.zone, call.id).machines)))
        operation = self.cloud.maintain(
            call.zone, call.id, workers, call.version, verb="performMaintenance"
        )
        return operation.render(self.cloud.shown_project)

    # Operations -------------------------------------------------------------------------------

    def list_operations(self, call: Call) -> dict[str, Any]:
        """List the operations of a zone, or of all."""
        self.cloud.advance()
        found = [o for o in self.cloud.operations.values() if call.zone in ("-", o.zone)]
        found.sort(key=lambda o: o.name)
        return self.page(call, found, "operations", lambda o: o.render(self.cloud.shown_project))

    def get_operation(self, call: Call) -> dict[str, Any]:
        """Return one operation."""
        return self.cloud.operation(call.zone, call.id).render(self.cloud.shown_project)

    def cancel_operation(self, call: Call) -> dict[str, Any]:
        """Cancel an operation."""
        self.cloud.cancel(call.zone, call.id)
        return {}

    def delete_operation(self, call: Call) -> dict[str, Any]:
        """Forget an operation."""
        self.cloud.forget_operation(call.zone, call.id)
        return {}

    # What the zones offer ---------------------------------------------------------------------

    def list_locations(self, call: Call) -> dict[str, Any]:
        """List the zones."""
        return self.page(call, sorted(catalog.ZONES), "locations", self._location)

    def get_location(self, call: Call) -> dict[str, Any]:
        """Return one zone."""
        return self._location(call.zone)

    def _location(self, zone: str) -> dict[str, Any]:
        name = f"projects/{self.cloud.shown_project}/locations/{zone}"
        return {"name": name, "locationId": zone}

    def service_identity(self, call: Call) -> dict[str, Any]:
        """Return the service account with which the service acts."""
        call.parse(schema.EMPTY, "")
        return {
            "identity": {"email": f"service-{self.cloud.number}@cloud-tpu.iam.gserviceaccount.com"}
        }

    def list_types(self, call: Call) -> dict[str, Any]:
        """List the accelerator types of a zone."""
        return self.page(
            call,
            catalog.types_in(call.zone),
            "acceleratorTypes",
            lambda t: self._type(call.zone, t.name),
        )

    def get_type(self, call: Call) -> dict[str, Any]:
        """Return one accelerator type."""
        if catalog.type_in(call.zone, call.id) is None:
            raise errors.not_found(self._named(call, "acceleratorTypes"))
        return self._type(call.zone, call.id)

    def _type(self, zone: str, name: str) -> dict[str, Any]:
        kind = catalog.type_in(zone, name)
        config = (
            [{"type": API_ENUM[kind.generation], "topology": kind.topology}]
            if kind is not None
            else []
        )
        return {
            "name": f"projects/{self.cloud.shown_project}/locations/{zone}/acceleratorTypes/{name}",
            "type": name,
            "acceleratorConfigs": config,
        }

    def list_runtimes(self, call: Call) -> dict[str, Any]:
        """List the runtime versions of a zone."""
        versions = catalog.runtimes_in(call.zone)
        return self.page(call, versions, "runtimeVersions", lambda v: self._runtime(call.zone, v))

    def get_runtime(self, call: Call) -> dict[str, Any]:
        """Return one runtime version."""
        if call.id not in catalog.runtimes_in(call.zone):
            raise errors.not_found(self._named(call, "runtimeVersions"))
        return self._runtime(call.zone, call.id)

    def _runtime(self, zone: str, version: str) -> dict[str, Any]:
        name = f"projects/{self.cloud.shown_project}/locations/{zone}/runtimeVersions/{version}"
        return {"name": name, "version": version}

    def _named(self, call: Call, collection: str) -> str:
        return f"projects/{self.cloud.project}/locations/{call.zone}/{collection}/{call.id}"

    # Queued resources come with the capacity work; until then the cloud has none, and says so.

    def list_queued(self, call: Call) -> dict[str, Any]:
        """List no queued resources."""
        return {}

    def get_queued(self, call: Call) -> dict[str, Any]:
        """Know no queued resource."""
        raise errors.not_found(self._named(call, "queuedResources"))

    def create_queued(self, call: Call) -> dict[str, Any]:
        """Refuse to queue."""
        raise errors.unimplemented("queuedResources.create on this local cloud")


def _start(token: str) -> int:
    if not token:
        return 0
    try:
        word, _, number = base64.urlsafe_b64decode(token).decode().partition(":")
        if word == "from":
            return int(number)
    except (ValueError, binascii.Error):
        pass
    raise errors.invalid_page_token()


_BOTH, _ALPHA, _OLD = ("v2", "v2alpha1"), ("v2alpha1",), ("v1",)
_ANY = (*_BOTH, "v1alpha1", *_OLD)


def _route(
    method: str, tail: str, versions: tuple[str, ...], permission: str, handler: Handler
) -> tuple[str, re.Pattern[str], tuple[str, ...], str, Handler]:
    path = "/(?P<version>v[^/]+)/projects/(?P<project>[^/]+)/locations" + tail.replace(
        "{zone}", "/(?P<zone>[^/:]+)"
    ).replace("{id}", "/(?P<id>[^/:]+)")
    return method, re.compile(path), versions, f"tpu.{permission}", handler


_ROUTES = [
    _route("GET", "", _ANY, "locations.list", Api.list_locations),
    _route("GET", "{zone}", _ANY, "locations.get", Api.get_location),
    _route("POST", "{zone}:generateServiceIdentity", _BOTH, "nodes.create", Api.service_identity),
    _route("GET", "{zone}/nodes", _BOTH, "nodes.list", Api.list_nodes),
    _route("GET", "{zone}/nodes", _OLD, "nodes.list", Api.list_nodes_v1),
    _route("POST", "{zone}/nodes", _BOTH, "nodes.create", Api.create_node),
    _route("GET", "{zone}/nodes{id}", _BOTH, "nodes.get", Api.get_node),
    _route("DELETE", "{zone}/nodes{id}", _BOTH, "nodes.delete", Api.delete_node),
    _route("PATCH", "{zone}/nodes{id}", _BOTH, "nodes.update", Api.patch_node),
    _route("POST", "{zone}/nodes{id}:stop", _BOTH, "nodes.stop", Api.stop_node),
    _route("POST", "{zone}/nodes{id}:start", _BOTH, "nodes.start", Api.start_node),
    _route("POST", "{zone}/nodes{id}:getGuestAttributes", _BOTH, "nodes.get", Api.guest_attributes),
    _route("POST", "{zone}/nodes{id}:simulateMaintenanceEvent", _ALPHA, "nodes.simulateMaintenance",
           Api.simulate_maintenance),
    _route("POST", "{zone}/nodes{id}:performMaintenance", _ALPHA, "nodes.performMaintenance",
           Api.perform_maintenance),
    _route("GET", "{zone}/operations", _ANY, "operations.list", Api.list_operations),
    _route("GET", "{zone}/operations{id}", _ANY, "operations.get", Api.get_operation),
    _route("DELETE", "{zone}/operations{id}", _ANY, "operations.delete", Api.delete_operation),
    _route("POST", "{zone}/operations{id}:cancel", _ANY, "operations.cancel", Api.cancel_operation),
    _route("GET", "{zone}/acceleratorTypes", _ANY, "acceleratortypes.list", Api.list_types),
    _route("GET", "{zone}/acceleratorTypes{id}", _ANY, "acceleratortypes.get", Api.get_type),
    _route("GET", "{zone}/runtimeVersions", _BOTH, "runtimeversions.list", Api.list_runtimes),
    _route("GET", "{zone}/runtimeVersions{id}", _BOTH, "runtimeversions.get", Api.get_runtime),
    _route("GET", "{zone}/queuedResources", _BOTH, "queuedResources.list", Api.list_queued),
    _route("GET", "{zone}/queuedResources{id}", _BOTH, "queuedResources.get", Api.get_queued),
    _route("POST", "{zone}/queuedResources", _BOTH, "queuedResources.create", Api.create_queued),
]  # fmt: skip
