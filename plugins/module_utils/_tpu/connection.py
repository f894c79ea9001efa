# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One project at one endpoint: the base of all clients of the Cloud TPU API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from .._core.errors import TpuError
from .._core.wait import Clock, SystemClock
from .._wire.auth import AuthOptions, session_for
from .._wire.transport import RetryPolicy, Transport, retry_of
from .model import Listing, basename
from .versions import V2

if TYPE_CHECKING:
    import requests

T = TypeVar("T")

DEFAULT_ENDPOINT = "https://tpu.googleapis.com/"


class Connection:
    """One project at one endpoint; sends nothing before the first call."""

    def __init__(
        self,
        project: str,
        *,
        endpoint: str | None = None,
        auth: AuthOptions | None = None,
        clock: Clock | None = None,
        session: requests.Session | None = None,
        retry: RetryPolicy | None = None,
        endpoints: Mapping[str, str | None] | None = None,
    ) -> None:
        if not project:
            raise TpuError(
                "There is no project.",
                remedy="Give the option project or set GOOGLE_CLOUD_PROJECT.",
            )
        self.project = project
        self.endpoint = (endpoint or DEFAULT_ENDPOINT).rstrip("/") + "/"
        # The endpoints of Google's other APIs by their names, if they differ from this one.
        self.endpoints = endpoints or {}
        self.clock = clock or SystemClock()
        self.auth = auth or AuthOptions()
        self._session = session
        self.transport = Transport(
            self.endpoint,
            lambda: self.open_session(self.endpoint),
            self.clock,
            retry or retry_of(self.endpoint),
        )

    def open_session(self, endpoint: str) -> requests.Session:
        """Return a session for an endpoint: the one that was given, for all of Google's APIs."""
        return session_for(endpoint, self.auth) if self._session is None else self._session

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
        """Return the items of a list, and the zones that do not answer."""
        items: list[T] = []
        unreachable: dict[str, None] = {}
        for page in self.transport.pages(path, query):
            items += [build(item) for item in page.get(key) or [] if isinstance(item, dict)]
            for name in page.get("unreachable") or []:
                unreachable[basename(str(name))] = None
        return Listing(items, list(unreachable))
