"""A small client of the metadata server."""

from __future__ import annotations

import http.client
import json
import time
from typing import Any
from urllib.parse import quote, urlencode

HOST = "169.254.169.254"
ROOT = "/computeMetadata/v1/"


class Unavailable(Exception):
    """The metadata server does not answer, or answers with an error."""


class Metadata:
    """A client of the metadata server; each call opens a connection."""

    def __init__(self, host: str = HOST, port: int = 80) -> None:
        self._host = host
        self._port = port

    def _call(
        self, method: str, path: str, body: str | None = None, timeout: float = 10
    ) -> tuple[int, str, str]:
        connection = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            headers = {"Metadata-Flavor": "Google"}
            connection.request(method, ROOT + path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            return answer.status, text, answer.headers.get("ETag", "")
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(str(error)) from error
        finally:
            connection.close()

    def tree(self, last_etag: str = "", wait: int = 0) -> tuple[dict[str, Any], str]:
        """Return everything and its ETag; with `wait`, after a change or so many seconds."""
        query: dict[str, str] = {"recursive": "true", "alt": "json"}
        if wait:
            query.update(wait_for_change="true", timeout_sec=str(wait), last_etag=last_etag)
        status, text, etag = self._call("GET", "?" + urlencode(query), timeout=wait + 10)
        if status != 200:
            raise Unavailable(f"HTTP {status}")
        try:
            return json.loads(text), etag
        except ValueError as error:
            raise Unavailable(str(error)) from error

    def put_guest_attribute(self, namespace: str, key: str, value: str) -> None:
        """Publish a guest attribute."""
        path = f"instance/guest-attributes/{quote(namespace)}/{quote(key)}"
        status, _, _ = self._call("PUT", path, body=value)
        if status >= 300:
            raise Unavailable(f"HTTP {status}")

    def attribute(self, name: str, patience: float) -> str | None:
        """Return an attribute of the instance or None; wait for the server up to `patience` s."""
        deadline = time.monotonic() + patience
        while True:
            try:
                status, text, _ = self._call("GET", f"instance/attributes/{quote(name)}")
                if status == 200:
                    return text
                if status == 404:
                    return None
            except Unavailable:
                pass
            if time.monotonic() > deadline:
                return None
            time.sleep(0.5)
