"""The queue's bucket, with the controller's credentials. What it does not answer is NoAnswer.

Nothing is repeated here: `Queue` reads again to find out whether a write was carried out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage import uploads
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import (
    PAGE,
    Denied,
    NoAnswer,
    Stored,
    upload,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import MOST_TEXT
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire.transport import Quoted

_FIELDS = "name,size,generation,metageneration,metadata"
_CODE = "code/"
_MOST_CODE = 1 << 29
_LOOKS = 3


class FleetBucket:
    """A folder of a bucket; names are relative to it."""

    def __init__(self, client: Client, bucket: str, folder: str) -> None:
        apis = GoogleApis(client)
        self._bucket = bucket
        self._folder = folder
        self._storage = apis.transport("storage")
        self._uploads = uploads(apis, client.auth)

    def get(self, name: str) -> Stored | None:
        """Return an object with its content and both numbers; None if it is not there."""
        for _look in range(_LOOKS):
            about = self._asked("GET", self._path(name), {"fields": _FIELDS})
            if about is None:
                return None
            found = self._stored(about)
            data = self._content(name, found.generation)
            if data is not None:
                return found._replace(data=data)
        raise NoAnswer(f"gs://{self._bucket}/{self._folder}{name} changes all the time.")

    def _content(self, name: str, generation: int) -> bytes | None:
        """Return the content of a generation; None if it was replaced meanwhile."""
        most = _MOST_CODE if name.startswith(_CODE) else 2 * MOST_TEXT
        query = {"alt": "media", "generation": generation}
        try:
            return b"".join(self._storage.content(self._path(name), query, most))
        except TpuError as error:
            _refuse_but_absence(error)
            return None

    def put(
        self,
        name: str,
        data: bytes,
        metadata: Mapping[str, str],
        generation: int | None = None,
        metageneration: int | None = None,
    ) -> int | None:
        """Write an object if it has these numbers; return its generation."""
        numbers = {"ifGenerationMatch": generation, "ifMetagenerationMatch": metageneration}
        query = {key: value for key, value in numbers.items() if value is not None}
        words = urlencode({"uploadType": "multipart", "fields": "generation", **query})
        sent = upload(f"{self._folder}{name}", metadata, data)
        try:
            _kind, said = self._uploads.exchange(f"b/{self._bucket}/o?{words}", *sent)
            return int(json.loads(said)["generation"])
        except TpuError as error:
            if error.http_status == 404:
                raise self._missing() from error
            _refuse_but_absence(error)
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise NoAnswer(f"The answer to a write of {name} cannot be read.") from error

    def patch(
        self, name: str, metadata: Mapping[str, str], generation: int, metageneration: int
    ) -> int | None:
        """Change some of the custom metadata; return the metageneration."""
        query = {
            "ifGenerationMatch": generation,
            "ifMetagenerationMatch": metageneration,
            "fields": _FIELDS,
        }
        found = self._asked("PATCH", self._path(name), query, {"metadata": dict(metadata)})
        return None if found is None else self._stored(found).metageneration

    def list(self, prefix: str, token: str = "", most: int = PAGE) -> tuple[list[Stored], str]:
        """Return objects whose names begin so, without content; and the next token."""
        query = {
            "prefix": f"{self._folder}{prefix}",
            "maxResults": most,
            "pageToken": token or None,
            "fields": f"items({_FIELDS}),nextPageToken",
        }
        page = self._asked("GET", f"b/{self._bucket}/o", query)
        if page is None:
            raise self._missing()
        items = page.get("items")
        found = [self._stored(one) for one in items] if isinstance(items, list) else []
        return found, str(page.get("nextPageToken") or "")

    def delete(self, name: str, generation: int | None = None) -> bool:
        """Delete an object if it has this generation; return whether it did."""
        query = {"ifGenerationMatch": generation}
        return self._asked("DELETE", self._path(name), query) is not None

    def _path(self, name: str) -> Quoted:
        return Quoted(f"b/{self._bucket}/o/{quote(self._folder + name, safe='')}")

    def _asked(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any],
        body: Mapping[str, Any] | None = None,
    ) -> dict[str, Any] | None:
        """Return an answer; None if the object is another one, or not there."""
        try:
            return self._storage.send(method, path, query, body)
        except TpuError as error:
            _refuse_but_absence(error)
            return None

    def _missing(self) -> NoAnswer:
        """Return what a 404 means that is about no object."""
        return NoAnswer(
            f"There is no bucket {self._bucket}. Make it: gcloud storage buckets create "
            f"gs://{self._bucket}, or correct fleet_queue.bucket."
        )

    def _stored(self, item: Mapping[str, Any]) -> Stored:
        metadata = item.get("metadata")
        try:
            return Stored(
                str(item["name"])[len(self._folder) :],
                int(item["generation"]),
                int(item["metageneration"]),
                {str(k): str(v) for k, v in metadata.items()} if metadata else {},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NoAnswer(f"The answer about gs://{self._bucket} cannot be read.") from error


def _refuse_but_absence(error: TpuError) -> None:
    """Raise NoAnswer, or Denied, unless the bucket said that it is another object, or none."""
    if error.http_status in (400, 403):
        raise Denied(str(error)) from error
    if error.http_status not in (404, 412):
        raise NoAnswer(str(error)) from error
