"""The Cloud TPU API over gRPC: every call is carried out as the equivalent request of the REST API.

Needs the extra `grpc` of the package: Google's own messages, from google-cloud-tpu.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import Any, NamedTuple

import grpc
from google.api_core import path_template
from google.cloud import tpu_v2, tpu_v2alpha1
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.protobuf import empty_pb2, field_mask_pb2, json_format
from google.rpc import status_pb2
from grpc_status import rpc_status
from starlette.datastructures import Headers
from starlette.types import Scope

from .. import errors
from ..errors import RPC_CODE
from .frontend import FrontEnd, Reply
from .peers import Address

# Calls carried out at the same time; more wait.
WORKERS = 32
# Seconds that calls may continue when the server stops.
GRACE = 5.0

_LOCATION = "projects/*/locations/*"


class Method(NamedTuple):
    """One method: the equivalent request of the REST API, and its messages."""

    http: str
    uri: str
    body: str
    request: Any
    answer: Any


# By the names of the service definition. Fields that are in neither path nor body belong to the
# query (google.api.http).
_V2 = {
    "ListNodes": ("get", "/{parent=@}/nodes", ""),
    "GetNode": ("get", "/{name=@/nodes/*}", ""),
    "CreateNode": ("post", "/{parent=@}/nodes", "node"),
    "DeleteNode": ("delete", "/{name=@/nodes/*}", ""),
    "StopNode": ("post", "/{name=@/nodes/*}:stop", "*"),
    "StartNode": ("post", "/{name=@/nodes/*}:start", "*"),
    "UpdateNode": ("patch", "/{node.name=@/nodes/*}", "node"),
    "GetGuestAttributes": ("post", "/{name=@/nodes/*}:getGuestAttributes", "*"),
    "ListQueuedResources": ("get", "/{parent=@}/queuedResources", ""),
    "GetQueuedResource": ("get", "/{name=@/queuedResources/*}", ""),
    "CreateQueuedResource": ("post", "/{parent=@}/queuedResources", "queued_resource"),
    "DeleteQueuedResource": ("delete", "/{name=@/queuedResources/*}", ""),
    "ResetQueuedResource": ("post", "/{name=@/queuedResources/*}:reset", "*"),
    "GenerateServiceIdentity": ("post", "/{parent=@}:generateServiceIdentity", "*"),
    "ListAcceleratorTypes": ("get", "/{parent=@}/acceleratorTypes", ""),
    "GetAcceleratorType": ("get", "/{name=@/acceleratorTypes/*}", ""),
    "ListRuntimeVersions": ("get", "/{parent=@}/runtimeVersions", ""),
    "GetRuntimeVersion": ("get", "/{name=@/runtimeVersions/*}", ""),
}
_ALPHA = {
    **_V2,
    "SimulateMaintenanceEvent": ("post", "/{name=@/nodes/*}:simulateMaintenanceEvent", "*"),
    "PerformMaintenance": ("post", "/{name=@/nodes/*}:performMaintenance", "*"),
    "PerformMaintenanceQueuedResource": (
        *("post", "/{name=@/queuedResources/*}:performMaintenanceQueuedResource", "*"),
    ),
    "ListReservations": ("get", "/{parent=@}/reservations", ""),
}


def _of_service(
    version: str, types: Any, rules: Mapping[str, tuple[str, ...]]
) -> dict[str, Method]:
    """Return the methods of a version of the service by their full names."""
    methods = {}
    for name, (http, uri, body) in rules.items():
        answer = (
            getattr(types, f"{name}Response", None)
            or (name.startswith("Get") and getattr(types, name.removeprefix("Get")))
            or operations_pb2.Operation
        )
        request = getattr(types, f"{name}Request").pb()
        # Those of google-cloud-tpu are wrapped, the shared ones are not.
        answer = answer.pb() if hasattr(answer, "pb") else answer
        path = f"/{version}{uri.replace('@', _LOCATION)}"
        methods[f"/google.cloud.tpu.{version}.Tpu/{name}"] = Method(
            http, path, body, request, answer
        )
    return methods


# These services have no version, because all versions of the API answer alike.
_LRO, _ZONES = "/google.longrunning.Operations/", "/google.cloud.location.Locations/"
_OPERATION = "/v2/{name=projects/*/locations/*/operations/*}"
METHODS = {
    **_of_service("v2", tpu_v2, _V2),
    **_of_service("v2alpha1", tpu_v2alpha1, _ALPHA),
    f"{_LRO}ListOperations": Method(
        *("get", "/v2/{name=projects/*/locations/*}/operations", ""),
        *(operations_pb2.ListOperationsRequest, operations_pb2.ListOperationsResponse),
    ),
    f"{_LRO}GetOperation": Method(
        "get", _OPERATION, "", operations_pb2.GetOperationRequest, operations_pb2.Operation
    ),
    f"{_LRO}DeleteOperation": Method(
        "delete", _OPERATION, "", operations_pb2.DeleteOperationRequest, empty_pb2.Empty
    ),
    f"{_LRO}CancelOperation": Method(
        *("post", f"{_OPERATION}:cancel", ""),
        *(operations_pb2.CancelOperationRequest, empty_pb2.Empty),
    ),
    f"{_ZONES}ListLocations": Method(
        *("get", "/v2/{name=projects/*}/locations", ""),
        *(locations_pb2.ListLocationsRequest, locations_pb2.ListLocationsResponse),
    ),
    f"{_ZONES}GetLocation": Method(
        *("get", "/v2/{name=projects/*/locations/*}", ""),
        *(locations_pb2.GetLocationRequest, locations_pb2.Location),
    ),
}


class GrpcServer(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc has no types
    """Serves the API over gRPC, in its own threads.

    The check is the same as for the REST API: it returns why a call is refused, or nothing.
    Browsers do not speak HTTP/2 without TLS, so calls cannot come from web pages.
    """

    def __init__(
        self, front: FrontEnd, host: str, port: int, check: Callable[[Scope, Headers], str]
    ) -> None:
        self._front, self._check = front, check
        self._server = grpc.server(
            ThreadPoolExecutor(WORKERS, thread_name_prefix="grpc"),
            handlers=(self,),
            # Otherwise two clouds could share a port, and each would get some of the calls.
            options=[("grpc.so_reuseport", 0)],
        )
        self.address: Address = (host, self._server.add_insecure_port(f"{host}:{port}"))

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def stop(self) -> None:
        """Refuse further calls, and return when the running ones are done."""
        self._server.stop(GRACE).wait()

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a method, if the API has it."""
        method = METHODS.get(details.method)
        if method is None:
            return None

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            return self._answer(method, request, context)

        return grpc.unary_unary_rpc_method_handler(
            answer, method.request.FromString, lambda message: message.SerializeToString()
        )

    def _answer(self, method: Method, request: Any, context: grpc.ServicerContext) -> Any:
        client = _ipv4(context.peer())
        why = self._check({"client": client, "server": self.address}, Headers())
        if why:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, f"The local cloud refuses this: {why}")
        sent = context.invocation_metadata()
        headers = Headers(raw=[(k.encode(), v.encode()) for k, v in sent if isinstance(v, str)])
        transcode: Callable[..., dict[str, Any]] = path_template.transcode
        rule = {"method": method.http, "uri": method.uri}
        try:
            found = transcode([{**rule, "body": method.body} if method.body else rule], request)
        except ValueError:
            field = method.uri.partition("{")[2].partition("=")[0]
            name = attrgetter(field)(request)
            _fail(context, errors.malformed_name(name).body()["error"])
        given = found["query_params"].ListFields()
        query = {field.json_name: _parameter(value) for field, value in given}
        body = json_format.MessageToJson(found["body"]).encode() if method.body else b""
        reply = self._front.reply(method.http.upper(), found["uri"], query, headers, body)
        return self._told(reply, method, context)

    def _told(self, reply: Reply, method: Method, context: grpc.ServicerContext) -> Any:
        time.sleep(reply.pause)
        if reply.cut:
            # As clients report a closed connection.
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        if not reply.headers["Content-Type"].startswith("application/json"):
            # As clients report an answer that is not gRPC.
            context.abort(
                grpc.StatusCode.UNAVAILABLE, f"Received http2 header with status: {reply.status}"
            )
        answer = json.loads(reply.body)
        if reply.status != 200:
            _fail(context, answer["error"])
        try:
            # Fields that these messages do not know are left out.
            return json_format.ParseDict(answer, method.answer(), ignore_unknown_fields=True)
        except json_format.ParseError:
            logging.getLogger(__name__).exception("%s", answer)
            _fail(context, errors.internal().body()["error"])


def _fail(context: grpc.ServicerContext, error: dict[str, Any]) -> None:
    """End a call with the status and the details of an error."""
    status = {**error, "code": RPC_CODE[error["status"]]}
    message = json_format.ParseDict(status, status_pb2.Status(), ignore_unknown_fields=True)
    context.abort_with_status(rpc_status.to_status(message))


def _parameter(value: Any) -> str:
    if isinstance(value, field_mask_pb2.FieldMask):
        # Unchanged: clients write paths in either spelling, JSON allows only one.
        return ",".join(value.paths)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ipv4(peer: str) -> Address | None:
    """Return the address in gRPC's name of a peer."""
    kind, _, place = peer.partition(":")
    host, _, port = place.rpartition(":")
    return (host, int(port)) if kind == "ipv4" and port.isdecimal() else None
