# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Compute API: disks, firewall rules and the project's metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .._core.wait import Backoff
from .._google.apis import GoogleApis
from .changes import POLL, Changes


class Compute:
    """Client of the Compute API for one project."""

    def __init__(self, apis: GoogleApis, timeout: float = 300.0, poll: Backoff = POLL) -> None:
        self._apis = apis
        self._changes = Changes(apis)
        self._project = f"projects/{apis.project}"
        self._timeout = timeout
        self._poll = poll

    # Disks ------------------------------------------------------------------------------------

    def disk(self, zone: str, name: str) -> dict[str, Any] | None:
        """Return a disk, if there is one."""
        return self._apis.find("compute", self._disk(zone, name))

    def create_disk(self, zone: str, body: Mapping[str, Any]) -> None:
        """Create a disk."""
        self._do("POST", f"{self._project}/zones/{zone}/disks", body)

    def resize_disk(self, zone: str, name: str, size_gb: int) -> None:
        """Enlarge a disk."""
        self._do("POST", f"{self._disk(zone, name)}/resize", {"sizeGb": str(size_gb)})

    def label_disk(self, zone: str, name: str, labels: Mapping[str, str]) -> None:
        """Add labels to those that a disk has."""

        def alter(disk: dict[str, Any]) -> dict[str, Any] | None:
            have = disk.get("labels") or {}
            if all(have.get(key) == value for key, value in labels.items()):
                return None
            fingerprint = disk.get("labelFingerprint")
            return {"labels": {**have, **labels}, "labelFingerprint": fingerprint}

        path = self._disk(zone, name)
        read = self._apis.transport("compute").read
        self._change(lambda: read(path), alter, f"{path}/setLabels")

    def delete_disk(self, zone: str, name: str) -> None:
        """Delete a disk with its data."""
        self._do("DELETE", self._disk(zone, name))

    def _disk(self, zone: str, name: str) -> str:
        return f"{self._project}/zones/{zone}/disks/{name}"

    # Firewall rules ---------------------------------------------------------------------------

    def firewall(self, name: str) -> dict[str, Any] | None:
        """Return a rule, if there is one."""
        return self._apis.find("compute", f"{self._project}/global/firewalls/{name}")

    def firewalls(self) -> list[dict[str, Any]]:
        """Return all rules."""
        return self._apis.items("compute", f"{self._project}/global/firewalls", "items")

    def create_firewall(self, body: Mapping[str, Any]) -> None:
        """Create a rule."""
        self._do("POST", f"{self._project}/global/firewalls", body)

    def update_firewall(self, name: str, body: Mapping[str, Any]) -> None:
        """Replace fields of a rule."""
        self._do("PATCH", f"{self._project}/global/firewalls/{name}", body)

    def delete_firewall(self, name: str) -> None:
        """Delete a rule."""
        self._do("DELETE", f"{self._project}/global/firewalls/{name}")

    # The project's metadata -------------------------------------------------------------------

    def metadata(self) -> dict[str, Any]:
        """Return the project's metadata as in the API: fingerprint and items."""
        project = self._apis.transport("compute").read(self._project)
        return dict(project.get("commonInstanceMetadata") or {})

    def change_metadata(self, alter: Callable[[dict[str, str]], dict[str, str] | None]) -> None:
        """Change metadata with `alter`, which returns None if nothing is left to change."""

        def alter_items(metadata: dict[str, Any]) -> dict[str, Any] | None:
            wanted = alter(values_of(metadata))
            if wanted is None:
                return None
            items = [{"key": key, "value": value} for key, value in wanted.items()]
            return {"fingerprint": metadata.get("fingerprint"), "items": items}

        self._change(self.metadata, alter_items, f"{self._project}/setCommonInstanceMetadata")

    # Operations -------------------------------------------------------------------------------

    def _change(
        self,
        read: Callable[[], dict[str, Any]],
        alter: Callable[[dict[str, Any]], dict[str, Any] | None],
        write: str,
    ) -> None:
        asked = self._changes.change(read, alter, write)
        if asked is not None:
            self._changes.wait(asked, self._timeout, self._poll)

    def _do(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> None:
        """Send a request and wait for its end; also when it is refused for the moment."""
        transport = self._apis.transport("compute")
        asked = transport.accept(lambda: self._changes.ask(method, path, body))
        self._changes.wait(asked, self._timeout, self._poll)


def values_of(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata as a mapping, in the order of the API."""
    items = metadata.get("items") or []
    return {
        str(item.get("key")): str(item.get("value") or "")
        for item in items
        if isinstance(item, dict)
    }
