"""The queue's bucket with the machine's own account, as `_queue.bucket` says."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from run_agent.act import bucket_requests
from run_agent.act.bucket_requests import Answer, Bucket, CannotLook, TooMuch
from run_agent.decide.values import json_object

from ..decide.settings import Settings
from ..shared._host.unpack import MOST_BYTES
from ..shared._queue.bucket import Denied, NoAnswer, Stored, upload
from ..shared._queue.objects import CODE, MOST_TEXT

_SECONDS, _SECONDS_FOR_CODE = 20.0, 600.0
_PAGE = 400
_MOST_OF_PAGE = _PAGE * 6 * 10_000
"""Bytes of a list of so many objects: each may have 8 KiB of metadata and a name of 1 KiB, whose
letters are six bytes of JSON if they are `<` or control characters."""
_FIELDS = "nextPageToken,items(name,generation,metageneration,metadata)"
_JSON = {"Content-Type": "application/json"}


class MachinesBucket:
    """A bucket's folder; see `_queue.bucket.Bucket`."""

    def __init__(self, settings: Settings) -> None:
        self._folder = settings.folder
        self._bucket = Bucket(settings.storage, settings.metadata, settings.bucket, _SECONDS)

    def close(self) -> None:
        """End the connection."""
        self._bucket.close()

    def get(self, name: str) -> Stored | None:
        """Return an object with its content and both numbers; None if it is not there."""
        is_code = name.startswith(CODE)
        most = MOST_BYTES if is_code else 2 * MOST_TEXT
        seconds = _SECONDS_FOR_CODE if is_code else _SECONDS
        try:
            answer = self._ask(f"{self._path(name)}?alt=media", most=most, seconds=seconds)
        except TooMuch:
            # It is there, and nothing that tpu-fleet wrote: its reader refuses what is empty.
            return Stored(name, 0, 0, {})
        if answer.status != 200:
            return None
        return Stored(name, answer.generation, answer.metageneration, {}, answer.body)

    def put(
        self,
        name: str,
        data: bytes,
        metadata: Mapping[str, str],
        generation: int | None = None,
        metageneration: int | None = None,
    ) -> int | None:
        """Write an object if it has these numbers; return its generation."""
        query = {"uploadType": "multipart", "fields": "generation"}
        path = f"/upload/o?{urlencode({**query, **_conditions(generation, metageneration)})}"
        kind, body = upload(self._folder + name, metadata, data)
        answer = self._ask(path, "POST", body, {"Content-Type": kind})
        if answer.status == 404:
            raise NoAnswer("there is no such bucket: correct fleet_queue.bucket")
        return self._number(answer, "generation")

    def patch(
        self, name: str, metadata: Mapping[str, str], generation: int, metageneration: int
    ) -> int | None:
        """Change some of the custom metadata; return the metageneration."""
        query = {"fields": "metageneration", **_conditions(generation, metageneration)}
        data = json.dumps({"metadata": dict(metadata)}).encode()
        answer = self._ask(f"{self._path(name)}?{urlencode(query)}", "PATCH", data, _JSON)
        return self._number(answer, "metageneration")

    def list(self, prefix: str, token: str = "", most: int = _PAGE) -> tuple[list[Stored], str]:
        """Return objects whose names begin so, in order, without content; and the next token."""
        query = {"prefix": self._folder + prefix, "maxResults": min(most, _PAGE)}
        more = {"pageToken": token} if token else {}
        try:
            path = f"/o?{urlencode({**query, **more, 'fields': _FIELDS})}"
            answer = self._ask(path, most=_MOST_OF_PAGE)
        except TooMuch as error:
            raise NoAnswer(str(error)) from error
        found = self._object(answer)
        items, following = found.get("items"), found.get("nextPageToken")
        stored = map(self._stored, items if isinstance(items, list) else ())
        return [one for one in stored if one], following if isinstance(following, str) else ""

    def delete(self, name: str, generation: int | None = None) -> bool:
        """Delete an object if it has this generation; return whether it did."""
        query = urlencode(_conditions(generation, None))
        return self._ask(f"{self._path(name)}?{query}", "DELETE").status in (200, 204)

    def _path(self, name: str) -> str:
        return f"/o/{quote(self._folder + name, safe='')}"

    def _ask(
        self,
        path: str,
        method: str = "GET",
        data: bytes | None = None,
        headers: dict[str, str] | None = None,
        most: int = 4 << 20,
        seconds: float = _SECONDS,
    ) -> Answer:
        self._bucket.renew(seconds)
        try:
            return self._bucket.ask(path, method, data, headers, most)
        except TooMuch:
            raise
        except bucket_requests.Denied as error:
            raise Denied(str(error)) from error
        except CannotLook as error:
            raise NoAnswer(str(error)) from error

    def _object(self, answer: Answer) -> dict[str, Any]:
        found = json_object(answer.body) if answer.status == 200 else None
        if found is None:
            raise NoAnswer(f"the bucket gives no JSON ({answer.status})")
        return found

    def _number(self, answer: Answer, name: str) -> int | None:
        if answer.status != 200:
            return None
        try:
            return int(self._object(answer)[name])
        except (KeyError, TypeError, ValueError):
            raise NoAnswer(f"the bucket gives no {name}") from None

    def _stored(self, found: Any) -> Stored | None:
        """Return an object of a list; None for one that is not as it must be."""
        try:
            name = found["name"].removeprefix(self._folder)
            numbers = int(found["generation"]), int(found["metageneration"])
            metadata = found.get("metadata") or {}
            return Stored(name, *numbers, {str(key): str(it) for key, it in metadata.items()})
        except (AttributeError, KeyError, TypeError, ValueError):
            return None


def _conditions(generation: int | None, metageneration: int | None) -> dict[str, str]:
    found = {"ifGenerationMatch": generation, "ifMetagenerationMatch": metageneration}
    return {name: str(number) for name, number in found.items() if number is not None}
