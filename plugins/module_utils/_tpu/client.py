# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Cloud TPU API in typed Python: nodes, queued resources, operations, a zone's catalogue."""

from __future__ import annotations

from functools import cached_property

from .._wire.auth import AuthOptions
from .connection import DEFAULT_ENDPOINT, Connection
from .model import Listing, Node, Operation
from .nodes import NodesClient
from .offers import AcceleratorTypesClient, LocationsClient, RuntimeVersionsClient
from .operations import OperationsClient
from .queued_resources import QueuedResource, QueuedResourcesClient

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

    @cached_property
    def operations(self) -> OperationsClient:
        """Return the client of operations."""
        return OperationsClient(self)

    @cached_property
    def nodes(self) -> NodesClient:
        """Return the client of nodes."""
        return NodesClient(self, self.operations)

    @cached_property
    def queued_resources(self) -> QueuedResourcesClient:
        """Return the client of queued resources."""
        return QueuedResourcesClient(self, self.operations)

    @cached_property
    def accelerator_types(self) -> AcceleratorTypesClient:
        """Return the client of the accelerator types of zones."""
        return AcceleratorTypesClient(self)

    @cached_property
    def runtime_versions(self) -> RuntimeVersionsClient:
        """Return the client of the runtime versions of zones."""
        return RuntimeVersionsClient(self)

    @cached_property
    def locations(self) -> LocationsClient:
        """Return the client of the zones."""
        return LocationsClient(self)
