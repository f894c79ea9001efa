"""The one method of Cloud Storage's gRPC API that gcsfs asks before all else: GetStorageLayout.

Without an answer its first use of a bucket takes minutes.
The two messages are written here byte by byte, because their package is large and they are small.
"""

from __future__ import annotations

import re
from typing import Any

import grpc

from ..errors import ApiError
from ..model.cloud import Cloud
from ..storage_api.access import require
from .storage import Identify
from .unix_grpc import UnixGrpc
from .wire import field, strings

METHOD = "/google.storage.control.v2.StorageControl/GetStorageLayout"
WORKERS = 4
_CODES = {
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
}


class StorageGrpc(UnixGrpc):
    """Serves the method on a Unix socket, to which the port with TLS relays."""

    def __init__(self, cloud: Cloud, identify: Identify) -> None:
        self._cloud, self._identify = cloud, identify
        super().__init__("storage", WORKERS)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Return the handler of a method, if there is one."""
        if details.method != METHOD:
            return None
        return grpc.unary_unary_rpc_method_handler(self._answer)

    def _answer(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        sent = dict(context.invocation_metadata())
        kind, _, token = sent.get("authorization", "").partition(" ")
        name = strings(request).get(1, "")
        match = re.fullmatch(r"projects/[^/]+/buckets/([^/]+)/storageLayout", name)
        try:
            document = self._cloud.buckets.bucket(match[1] if match else "")
            caller = self._identify(token if kind == "Bearer" else "")
            require(self._cloud, caller, document["name"], "storage.objects.list")
        except ApiError as error:
            context.abort(_CODES.get(error.http, grpc.StatusCode.INTERNAL), error.message)
        return layout(name, document)


def layout(name: str, document: dict[str, Any]) -> bytes:
    """Return the message StorageLayout of a bucket without a hierarchy."""
    texts = ((1, name), (2, document["location"]), (3, document["locationType"]), (5, ""))
    return b"".join(field(number, text) for number, text in texts)
