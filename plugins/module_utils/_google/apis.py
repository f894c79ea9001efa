# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Google's other APIs around the TPUs: their endpoints, and safe changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import NotFound, TpuError
from .._tpu.client import Client
from .._wire.auth import destination
from .._wire.transport import Transport, retry_of


@dataclass(frozen=True)
class Service:
    """One API: its address at Google, gcloud's variable for another, its place in a local cloud."""

    endpoint: str
    env: str
    local_path: str = ""


def _service(name: str, path: str = "") -> Service:
    env = f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}"
    return Service(f"https://{name}.googleapis.com/{path}", env, path)


SERVICES = {
    "compute": _service("compute", "compute/v1/"),
    "serviceusage": _service("serviceusage"),
    "iam": _service("iam"),
    "cloudresourcemanager": _service("cloudresourcemanager"),
    "storage": _service("storage", "storage/v1/"),
}


def endpoint_of(name: str, given: str | None, tpu_endpoint: str) -> str:
    """Return an API's endpoint: the user's setting, otherwise that of the TPU API."""
    if given:
        return given.rstrip("/") + "/"
    service, place = SERVICES[name], destination(tpu_endpoint)
    if place == "google":
        return service.endpoint
    if place == "loopback":
        # A local cloud serves all of them on one port.
        return tpu_endpoint.rstrip("/") + "/" + service.local_path
    raise TpuError(
        f"The TPU API is at {tpu_endpoint}, and nothing says where the API {name} is.",
        remedy=f"Give the option {name}_endpoint or set {service.env}.",
    )


class GoogleApis:
    """The APIs of one project; each is connected at its first call."""

    def __init__(self, client: Client) -> None:
        self.project = client.project
        self.clock = client.clock
        self._client = client
        self._transports: dict[str, Transport] = {}

    def transport(self, name: str) -> Transport:
        """Return the transport of one API."""
        if name not in self._transports:
            endpoint = endpoint_of(name, self._client.endpoints.get(name), self._client.endpoint)
            retry = retry_of(endpoint)
            self._transports[name] = Transport(
                endpoint, lambda: self._client.open_session(endpoint), self.clock, retry
            )
        return self._transports[name]

    def find(self, name: str, path: str) -> dict[str, Any] | None:
        """Return a resource, or None if it does not exist."""
        try:
            return self.transport(name).read(path)
        except NotFound:
            return None

    def repeat(
        self,
        name: str,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Send an idempotent request, which may be repeated."""
        transport = self.transport(name)
        return transport.repeat(lambda: transport.send(method, path, query, body))

    def items(
        self, name: str, path: str, key: str, query: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return all items of a list."""
        pages = self.transport(name).pages(path, query)
        items = (item for page in pages for item in page.get(key) or [])
        return [dict(item) for item in items if isinstance(item, dict)]
