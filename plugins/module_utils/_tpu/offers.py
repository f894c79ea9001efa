# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue of a zone: accelerator types and runtime versions; and the list of zones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .connection import Connection
from .model import Listing, basename


@dataclass(frozen=True)
class AcceleratorTypeInfo:
    """An accelerator type that a zone offers."""

    name: str
    topologies: list[str]


class AcceleratorTypesClient:
    """Reads the accelerator types of zones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, zone: str) -> Listing[AcceleratorTypeInfo]:
        """Return the types of a zone."""
        path = self._connection.parent(zone) + "/acceleratorTypes"
        return self._connection.pages(path, "acceleratorTypes", _accelerator_type)

    def get(self, zone: str, name: str) -> AcceleratorTypeInfo:
        """Return one type; raise NotFound if the zone does not offer it."""
        path = f"{self._connection.parent(zone)}/acceleratorTypes/{name}"
        return _accelerator_type(self._connection.transport.read(path))


class RuntimeVersionsClient:
    """Reads the runtime versions of zones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self, zone: str) -> Listing[str]:
        """Return the versions of a zone."""
        path = self._connection.parent(zone) + "/runtimeVersions"
        return self._connection.pages(path, "runtimeVersions", _version)

    def get(self, zone: str, name: str) -> str:
        """Return one version; raise NotFound if the zone does not offer it."""
        path = f"{self._connection.parent(zone)}/runtimeVersions/{name}"
        return _version(self._connection.transport.read(path))


class LocationsClient:
    """Reads the list of zones."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def list(self) -> Listing[str]:
        """Return the ids of the zones that the project sees; it may not use all of them."""
        path = f"v2/projects/{self._connection.project}/locations"
        return self._connection.pages(path, "locations", _location)


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
