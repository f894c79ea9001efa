# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Storage of published files for machines: a folder of a bucket, or of a share mounted here.

A file appears as a whole or not at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

from .._core.errors import NotFound, TpuError
from .._core.folders import is_folder
from .._wire.auth import AuthOptions, session_for
from .._wire.transport import Quoted, Transport
from .apis import GoogleApis

BYTES = "application/octet-stream"


class Place(Protocol):
    """Files by name."""

    def names(self, begin: str) -> set[str]:
        """Return the names with a prefix."""

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a file of JSON, if there is one."""

    def put(self, name: str, content: bytes, kind: str = BYTES) -> None:
        """Write a file; browsers need its kind."""


def uploads(apis: GoogleApis, auth: AuthOptions) -> Transport:
    """Return the transport to which objects are uploaded."""
    storage = apis.transport("storage")
    # Both are at one host; a custom endpoint applies to both.
    head, _path, _rest = storage.endpoint.rpartition("storage/v1/")
    endpoint = f"{head}upload/storage/v1/"
    return Transport(endpoint, lambda: session_for(endpoint, auth), apis.clock, storage.retry)


class Bucket:
    """A folder of a bucket. Names are relative to it."""

    def __init__(self, apis: GoogleApis, auth: AuthOptions, bucket: str, prefix: str) -> None:
        self._apis = apis
        self._bucket = bucket
        self._prefix = prefix
        self._upload = uploads(apis, auth)

    def names(self, begin: str) -> set[str]:
        """Return the names with a prefix."""
        path, query = f"b/{self._bucket}/o", {"prefix": self._prefix + begin}
        try:
            found = self._apis.items("storage", path, "items", query)
        except NotFound as error:
            raise TpuError(
                f"There is no bucket {self._bucket}, which fleet_self_setup names.",
                remedy=f"Run: gcloud storage buckets create gs://{self._bucket}",
            ) from error
        return {str(item["name"])[len(self._prefix) :] for item in found}

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a file of JSON, if there is one."""
        path = Quoted(f"b/{self._bucket}/o/{quote(self._prefix + name, safe='')}")
        try:
            return self._apis.transport("storage").read(path, {"alt": "media"})
        except NotFound:
            return None

    def put(self, name: str, content: bytes, kind: str = BYTES) -> None:
        """Write a file; browsers need its kind."""
        query = urlencode({"uploadType": "media", "name": self._prefix + name})
        path = f"b/{self._bucket}/o?{query}"
        self._upload.repeat(lambda: self._upload.exchange(path, kind, content))


class Folder:
    """A folder of a mounted share."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        if not is_folder(self._folder):
            raise TpuError(
                f"{folder} is no folder here.",
                remedy="Mount the share of fleet_self_setup, or correct its folder.",
            )

    def names(self, begin: str) -> set[str]:
        """Return the names with the prefix `begin`, which is a folder."""
        with contextlib.suppress(FileNotFoundError):
            return {begin + path.name for path in (self._folder / begin).iterdir()}
        return set()

    def read(self, name: str) -> dict[str, Any] | None:
        """Return a file of JSON, if there is one."""
        try:
            text = (self._folder / name).read_text(encoding="utf-8")
            found: dict[str, Any] = json.loads(text)
        except (FileNotFoundError, ValueError):
            return None
        return found

    def put(self, name: str, content: bytes, kind: str = BYTES) -> None:
        """Write a file, which has its kind by its name."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as out:
            out.write(content)
            # Root on the machines is often mapped to another user, and must be able to read it.
            os.fchmod(out.fileno(), 0o644)
        Path(out.name).replace(path)
