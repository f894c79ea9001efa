# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Google's other APIs around the TPUs: their endpoints, and safe changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest, Busy, NotFound, RateLimited, TpuError, Unavailable
from .._core.wait import Backoff
from .._tpu.client import Client
from .._wire.auth import destination
from .._wire.transport import Transport, retry_of

# A concurrent change is rare, and over in a moment.
CHANGE_TRIES = 8
CHANGE_PAUSE = Backoff(first=0.3, factor=2.0, most=10.0)


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

    def items(self, name: str, path: str, key: str) -> list[dict[str, Any]]:
        """Return all items of a list."""
        found: list[dict[str, Any]] = []
        token = None
        while True:
            page = self.transport(name).read(path, {"pageToken": token})
            found += [dict(item) for item in page.get(key) or [] if isinstance(item, dict)]
            following = page.get("nextPageToken") or None
            if not following or following == token:
                return found
            token = following

    def change(
        self,
        read: Callable[[], dict[str, Any]],
        alter: Callable[[dict[str, Any]], dict[str, Any] | None],
        write: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> dict[str, Any] | None:
        """Read, alter, and write back; start again after a concurrent change.

        `alter` returns None when nothing is left to change, so that an answer that was lost is
        settled by looking. What is written carries the etag or fingerprint of what was read, and
        its keeper refuses it when that is no longer the newest.
        """
        delays = CHANGE_PAUSE.delays()
        for tries_left in reversed(range(CHANGE_TRIES)):
            wanted = alter(read())
            if wanted is None:
                return None
            try:
                return write(wanted)
            except (Busy, RateLimited, Unavailable, BadRequest) as error:
                outdated = error.http_status == 412
                if not tries_left or (isinstance(error, BadRequest) and not outdated):
                    raise
            self.clock.sleep(next(delays))
        return None
