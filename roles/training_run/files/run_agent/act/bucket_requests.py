"""Requests to one bucket, with the machine's own account.

Each is bounded in seconds and bytes. The token goes to Cloud Storage and nowhere else, without
proxies and redirections.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

from ..decide.values import json_object, one_line

_BYTES = 4 << 20
_SILENCE = 15.0
_TOKEN_SECONDS = 240.0
_GOOGLE = "storage.googleapis.com"
_TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"  # noqa: S105 - a path
_DENIALS = (400, 403, 405, 409, 410, 411, 413, 416, 422)
_LOOKS, _WRITES = "roles/storage.objectViewer", "roles/storage.objectUser"


Data = bytes | Iterable[bytes] | None


class CannotLook(Exception):
    """What stands in the way; the text has the remedy."""


class Denied(CannotLook):
    """The server answered, and does not do it; to ask once more does not help."""


class TooMuch(CannotLook):
    """An answer has more bytes than are read."""


class Answer(NamedTuple):
    """What a server answers."""

    status: int
    body: bytes
    generation: int
    """Of the object; 0 where none is named."""
    metageneration: int = 0


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def may_have_token(address: str) -> bool:
    """Return whether a token may be sent to a server: to Google by TLS, or to this computer."""
    parts = urlsplit(address)
    if parts.scheme == "https" and parts.hostname == _GOOGLE:
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    return False


class _Server:
    """One connection, without proxies and redirections; a silent or verbose server is cut off."""

    def __init__(self, address: str, deadline: float) -> None:
        parts = urlsplit(address)
        self.name = parts.hostname or address
        is_secret = parts.scheme == "https"  # by the system's certificates
        kind = http.client.HTTPSConnection if is_secret else http.client.HTTPConnection
        self.deadline = deadline
        self._connection = kind(parts.netloc, timeout=self._patience())

    def ask(
        self,
        path: str,
        headers: dict[str, str],
        method: str = "GET",
        data: Data = None,
        most: int = _BYTES,
    ) -> Answer:
        """Return the answer, of at most so many bytes; raise CannotLook.

        Data in pieces needs its length in the headers.
        """
        try:
            self._wait_no_longer()
            self._connection.request(method, path, body=data, headers=headers)
            self._wait_no_longer()
            answer = self._connection.getresponse()
            body = b"".join(self._parts(answer, most))
            # Before Python 3.12 an answer that was read in parts does not end by itself, and its
            # connection takes no other request.
            answer.close()
            numbers = (
                _number(answer.headers.get(f"x-goog-{name}", ""))
                for name in ("generation", "metageneration")
            )
            return Answer(answer.status, body, *numbers)
        except (http.client.HTTPException, OSError, ValueError, TooMuch) as error:
            self._connection.close()
            kind = TooMuch if isinstance(error, TooMuch) else CannotLook
            raise kind(f"{self.name} does not answer: {error or 'nothing'}") from error

    def _patience(self) -> float:
        """Return for how long a silent server is waited for."""
        return min(_SILENCE, max(0.01, self.deadline - time.monotonic()))

    def _wait_no_longer(self) -> None:
        self._connection.timeout = self._patience()
        if self._connection.sock is not None:
            self._connection.sock.settimeout(self._patience())

    def _parts(self, answer: http.client.HTTPResponse, most: int) -> Iterator[bytes]:
        size = 0
        while part := answer.read1(1 << 16):
            size += len(part)
            if size > most:
                raise TooMuch("it says too much")
            if time.monotonic() > self.deadline:
                raise OSError("it is too slow")
            yield part

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


class Bucket:
    """The objects of one bucket; its requests together take at most so many seconds.

    `storage` and `metadata` are the addresses of the two servers; without the latter no token is
    sent. All methods raise CannotLook.
    """

    def __init__(self, storage: str, metadata: str, name: str, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._address, self._metadata, self._name = storage, metadata, name
        self._server = _Server(storage, self._deadline)
        self._headers: dict[str, str] | None = None
        self._authorized = 0.0

    def close(self) -> None:
        """End the connection."""
        self._server.close()

    def renew(self, seconds: float) -> None:
        """Let the next requests take at most so many seconds, over the same connection."""
        now = time.monotonic()
        self._deadline = self._server.deadline = now + seconds
        # The metadata server gives a token for as long as it is good for minutes more.
        if now - self._authorized > _TOKEN_SECONDS:
            self._headers = None

    def ask(
        self,
        path: str,
        method: str = "GET",
        data: Data = None,
        headers: dict[str, str] | None = None,
        most: int = _BYTES,
    ) -> Answer:
        """Return the answer about a path below the bucket: 200, 404 or 412; at most so many bytes.

        `path` begins with `/o`; those for uploads with `/upload/o`.
        """
        if self._headers is None:
            left = self._deadline - time.monotonic()
            self._headers = authorization(self._address, self._metadata, left)
            self._authorized = time.monotonic()
        if time.monotonic() > self._deadline:
            raise CannotLook(f"{self._server.name} is too slow")
        upload, rest = path.startswith("/upload/"), path.removeprefix("/upload")
        whole = f"{'/upload' if upload else ''}/storage/v1/b/{self._name}{rest}"
        told = {**self._headers, **(headers or {})}
        answer = self._server.ask(whole, told, method, data, most)
        if answer.status == 401:
            self._headers = None
        if answer.status not in (200, 204, 404, 412):
            kind = Denied if answer.status in _DENIALS else CannotLook
            raise kind(_refusal(answer, _LOOKS if method == "GET" else _WRITES))
        return answer

    def found(self, rest: str) -> dict[str, Any] | None:
        """Return the JSON object of a path below the bucket's objects; None if there is none."""
        answer = self.ask(f"/o{rest}")
        if answer.status == 404:
            return None
        found = json_object(answer.body)
        if found is None:
            raise CannotLook(f"{self._server.name} gives no JSON")
        return found

    def items_below(
        self, prefix: str, most_pages: int, about: str = "name,size,updated"
    ) -> Iterator[Any]:
        """Yield name, size and time of the objects whose names begin so, as JSON has them.

        What else is wanted of each is said with `about`.
        """
        fields, token, page = f"items({about}),nextPageToken", "", 0
        while page == 0 or (token and page < most_pages):
            more = {"pageToken": token} if token else {}
            answer = self.found(f"?{urlencode({'prefix': prefix, 'fields': fields, **more})}") or {}
            items = answer.get("items")
            yield from items if isinstance(items, list) else []
            token, page = str(answer.get("nextPageToken") or ""), page + 1

    def read(self, name: str) -> tuple[bytes, int] | None:
        """Return an object's content and generation; None if there is no such object."""
        answer = self.ask(f"/o/{quote(name, safe='')}?alt=media")
        return None if answer.status == 404 else (answer.body, answer.generation)

    def write(self, name: str, data: bytes, generation: int | None = None) -> bool:
        """Write an object; return False if it no longer has the generation that is given.

        Generation 0 is that of an object that is not there; None writes over any. Where CannotLook
        is raised because the answer is missing, the object may be written all the same.
        """
        query = {"uploadType": "media", "name": name, "fields": "generation"}
        if generation is not None:
            query["ifGenerationMatch"] = str(generation)
        return self._upload(query, data).status == 200

    def put(self, name: str, size: int, pieces: Iterable[bytes]) -> None:
        """Write an object of a known size, over any."""
        length = {"Content-Length": str(size)}
        self._upload({"uploadType": "media", "name": name}, pieces, length)

    def _upload(
        self, query: dict[str, str], data: Data, headers: dict[str, str] | None = None
    ) -> Answer:
        answer = self.ask(f"/upload/o?{urlencode(query)}", "POST", data, headers)
        if answer.status == 404:
            raise CannotLook("there is no such bucket: correct its address")
        return answer

    def compose(self, names: Iterable[str], target: str) -> bool:
        """Make one object of several; return False if one of them is not there."""
        told = json.dumps({"sourceObjects": [{"name": name} for name in names]}).encode()
        path = f"/o/{quote(target, safe='')}/compose"
        return self.ask(path, "POST", told, {"Content-Type": "application/json"}).status == 200

    def delete(self, name: str) -> None:
        """Delete an object, if it is there."""
        self.ask(f"/o/{quote(name, safe='')}", "DELETE")


def authorization(storage: str, metadata: str, seconds: float) -> dict[str, str]:
    """Return the headers with the machine's token for Cloud Storage; raise CannotLook.

    Without the address of a metadata server there are none.
    """
    if not metadata:
        return {}
    if not may_have_token(storage):
        raise CannotLook(f"no token is sent to {storage}, which is not {_GOOGLE}")
    server = _Server(metadata, time.monotonic() + seconds)
    try:
        answer = server.ask(_TOKEN, {"Metadata-Flavor": "Google"})
    finally:
        server.close()
    token = (json_object(answer.body) or {}).get("access_token")
    if answer.status != 200 or not isinstance(token, str) or not token.isascii():
        raise CannotLook(
            f"the machine gets no token ({answer.status}): give the slice a service_account"
        )
    return {"Authorization": f"Bearer {token}"}


def _refusal(answer: Answer, role: str) -> str:
    if answer.status in (401, 403):
        return (
            f"the bucket refuses ({answer.status}): give the service account of the slice "
            f"{role} on it"
        )
    error = (json_object(answer.body) or {}).get("error")
    said = error.get("message") if isinstance(error, dict) else ""
    return f"the bucket answers {answer.status} {one_line(str(said or ''), 100)}".rstrip()
