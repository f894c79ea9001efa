# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Cloud TPU API in typed Python: nodes, queued resources, operations, what a zone offers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from .._core.errors import (
    BadRequest,
    NotFound,
    PermissionDenied,
    TpuError,
    Unavailable,
    from_status,
)
from .._core.wait import Backoff, Clock, Seen, SystemClock, wait_for
from .._wire.auth import AuthOptions, destination, session_for
from .._wire.transport import RetryPolicy, Transport
from .model import Listing, Node, Operation, basename
from .nodes import NodesClient
from .queued_resources import QueuedResource, QueuedResourcesClient
from .versions import V2

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

DEFAULT_ENDPOINT = "https://tpu.googleapis.com/"
ENDPOINT_ENV = "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"
PROJECT_ENVS = ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
TOKEN_ENV = "CLOUDSDK_AUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable, not a token
IMPERSONATE_ENV = "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT"
ALL_ZONES = "-"
# Nobody comes back late to an answer on this computer: a cloud that is not up is not up.
LOCAL_RETRY = RetryPolicy(tries=4, backoff=Backoff(first=0.4, factor=2.0))
POLL = Backoff(first=1.0, factor=1.5, most=20.0)

__all__ = [
    "ALL_ZONES",
    "AuthOptions",
    "Client",
    "Listing",
    "Node",
    "Operation",
    "QueuedResource",
]


@dataclass(frozen=True)
class AcceleratorTypeInfo:
    """A type that a zone offers."""

    name: str
    topologies: list[str]


class Client:
    """One project, seen through one endpoint; nothing is sent before the first call."""

    def __init__(
        self,
        project: str,
        *,
        endpoint: str | None = None,
        auth: AuthOptions | None = None,
        clock: Clock | None = None,
        session: requests.Session | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        if not project:
            raise TpuError(
                "There is no project.",
                remedy="Give the option project or set GOOGLE_CLOUD_PROJECT.",
            )
        self.project = project
        self.endpoint = (endpoint or DEFAULT_ENDPOINT).rstrip("/") + "/"
        self.clock = clock or SystemClock()
        options = auth or AuthOptions()
        self.transport = Transport(
            self.endpoint,
            lambda: session if session is not None else session_for(self.endpoint, options),
            self.clock,
            retry or (LOCAL_RETRY if destination(self.endpoint) == "loopback" else RetryPolicy()),
        )
        self.operations = OperationsClient(self)
        self.nodes = NodesClient(self)
        self.queued_resources = QueuedResourcesClient(self)
        self.accelerator_types = AcceleratorTypesClient(self)
        self.runtime_versions = RuntimeVersionsClient(self)
        self.locations = LocationsClient(self)

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str] | None = None,
        *,
        project: str | None = None,
        endpoint: str | None = None,
    ) -> Client:
        """Return a client as the variables that gcloud also reads want it."""
        env = os.environ if environment is None else environment
        named = project or next((env[name] for name in PROJECT_ENVS if env.get(name)), "")
        auth = AuthOptions(
            access_token=env.get(TOKEN_ENV) or None,
            impersonate_service_account=env.get(IMPERSONATE_ENV) or None,
        )
        return cls(named, endpoint=endpoint or env.get(ENDPOINT_ENV), auth=auth)

    def parent(self, zone: str, version: str = V2) -> str:
        """Return the path of a zone."""
        return f"{version}/projects/{self.project}/locations/{zone}"

    def pages(
        self,
        path: str,
        key: str,
        build: Callable[[dict[str, Any]], T],
        query: Mapping[str, Any] | None = None,
    ) -> Listing[T]:
        """Read all pages of a list, an empty one in the middle too."""
        items: list[T] = []
        unreachable: dict[str, None] = {}
        seen_tokens: set[str] = set()
        token = None
        while True:
            page = self.transport.read(path, {**(query or {}), "pageToken": token})
            items += [build(item) for item in page.get(key) or [] if isinstance(item, dict)]
            for name in page.get("unreachable") or []:
                unreachable[basename(str(name))] = None
            token = str(page.get("nextPageToken") or "")
            if not token:
                return Listing(items, list(unreachable))
            if token in seen_tokens:
                raise Unavailable(f"The list {path} never ends: a page token came back.")
            seen_tokens.add(token)


class OperationsClient:
    """Long-running operations."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def get(self, name: str) -> Operation:
        """Return an operation by its full name."""
        return Operation.from_api(self._client.transport.read(f"v2/{name}"))

    def list(self, zone: str) -> Listing[Operation]:
        """Return the operations of a zone."""
        path = self._client.parent(zone) + "/operations"
        return self._client.pages(path, "operations", Operation.from_api)

    def latest(self, zone: str, node: str) -> Operation | None:
        """Return the operation on a node that runs now, so that its failure can be seen."""
        try:
            running = [op for op in self.list(zone).items if not op.done]
        except (BadRequest, NotFound, PermissionDenied):
            return None  # It only makes a failure known earlier.
        ours = [op for op in running if op.target.endswith(f"/nodes/{node}")]
        return max(ours, key=lambda op: op.create_time, default=None)

    def refresh(self, operation: Operation) -> Operation:
        """Return the operation as it is now; raise what it failed with."""
        if operation.name and not operation.done:
            operation = self.get(operation.name)
        if operation.error:
            raise from_status(operation.error, operation.target or None)
        return operation

    def wait(
        self, operation: Operation, timeout: float = 900.0, backoff: Backoff = POLL
    ) -> dict[str, Any]:
        """Wait until an operation has ended; return its response, or raise its error.

        An operation without a name (its answer was lost) has nothing to wait for: look at the
        resource instead.
        """
        if not operation.name:
            return operation.response

        def look(_elapsed: float) -> Seen[dict[str, Any]]:
            now = self.refresh(operation)
            return Seen("done" if now.done else "running", now.done, now.response)

        what = f"the operation {operation.verb or basename(operation.name)} to end"
        if operation.target:
            what = f"the operation {operation.verb or 'on'} {basename(operation.target)} to end"
        result = wait_for(
            look, what=what, timeout=timeout, clock=self._client.clock, backoff=backoff
        )
        return result or {}


class AcceleratorTypesClient:
    """What hardware a zone offers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, zone: str) -> Listing[AcceleratorTypeInfo]:
        """Return the types of a zone."""
        path = self._client.parent(zone) + "/acceleratorTypes"
        return self._client.pages(path, "acceleratorTypes", _accelerator_type)

    def get(self, zone: str, name: str) -> AcceleratorTypeInfo:
        """Return one type; raise when the zone does not offer it."""
        path = f"{self._client.parent(zone)}/acceleratorTypes/{name}"
        return _accelerator_type(self._client.transport.read(path))


class RuntimeVersionsClient:
    """What images a zone offers."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, zone: str) -> Listing[str]:
        """Return the versions of a zone."""
        path = self._client.parent(zone) + "/runtimeVersions"
        return self._client.pages(path, "runtimeVersions", _version)

    def get(self, zone: str, name: str) -> str:
        """Return one version; raise when the zone does not offer it."""
        path = f"{self._client.parent(zone)}/runtimeVersions/{name}"
        return _version(self._client.transport.read(path))


class LocationsClient:
    """The zones."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self) -> Listing[str]:
        """Return the ids of the zones that the project sees; it may not use all of them."""
        path = f"v2/projects/{self._client.project}/locations"
        return self._client.pages(path, "locations", _location)


def _accelerator_type(raw: Mapping[str, Any]) -> AcceleratorTypeInfo:
    configs: Iterable[Any] = raw.get("acceleratorConfigs") or []
    return AcceleratorTypeInfo(
        name=str(raw.get("type") or basename(str(raw.get("name") or ""))),
        topologies=[str(item.get("topology") or "") for item in configs if isinstance(item, dict)],
    )


def _version(raw: Mapping[str, Any]) -> str:
    return str(raw.get("version") or basename(str(raw.get("name") or "")))


def _location(raw: Mapping[str, Any]) -> str:
    return str(raw.get("locationId") or basename(str(raw.get("name") or "")))
