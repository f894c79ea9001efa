# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Cloud TPU API in typed Python: nodes, queued resources, operations, a zone's catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from .._core.wait import Clock
from .._wire.auth import AuthOptions
from .._wire.transport import RetryPolicy
from .connection import DEFAULT_ENDPOINT, Connection
from .model import Listing, Node, Operation
from .nodes import NodesClient
from .offers import AcceleratorTypesClient, LocationsClient, RuntimeVersionsClient
from .operations import OperationsClient
from .queued_resources import QueuedResource, QueuedResourcesClient

if TYPE_CHECKING:
    import requests

ENDPOINT_ENV = "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU"
PROJECT_ENVS = ("GOOGLE_CLOUD_PROJECT", "CLOUDSDK_CORE_PROJECT")
TOKEN_ENV = "CLOUDSDK_AUTH_ACCESS_TOKEN"  # noqa: S105 - the name of a variable, not a token
IMPERSONATE_ENV = "CLOUDSDK_AUTH_IMPERSONATE_SERVICE_ACCOUNT"
ALL_ZONES = "-"

__all__ = [
    "ALL_ZONES",
    "DEFAULT_ENDPOINT",
    "AuthOptions",
    "Client",
    "Listing",
    "Node",
    "Operation",
    "QueuedResource",
]


class Client(Connection):
    """All clients that share one connection."""

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
        super().__init__(
            project,
            endpoint=endpoint,
            auth=auth,
            clock=clock,
            session=session,
            retry=retry,
            endpoints=endpoints,
        )
        self.operations = OperationsClient(self)
        self.nodes = NodesClient(self, self.operations)
        self.queued_resources = QueuedResourcesClient(self, self.operations)
        self.accelerator_types = AcceleratorTypesClient(self)
        self.runtime_versions = RuntimeVersionsClient(self)
        self.locations = LocationsClient(self)
