"""Carries requests to a local cloud in this process: real bytes, status and headers, no sockets."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import BaseAdapter, HTTPAdapter
from starlette.concurrency import run_in_threadpool
from urllib3 import HTTPHeaderDict, HTTPResponse

from tpu_fleet.cloud.serve import server

# Nobody listens there; a request that misses the adapter fails at once.
ENDPOINT = "http://127.0.0.1:1/"
_READER = HTTPAdapter()


async def _in_place(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a function here where no loop runs, in a thread where a real server would."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return function(*args, **named)
    return await run_in_threadpool(function, *args, **named)


server.run_in_threadpool = _in_place
# Time passes only between requests, so nothing that a request waits for would happen.
server.SHORT_WAIT = 0.0


def finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine that never waits for anything."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    raise RuntimeError("the cloud waits for real time; the simulation has none")


class Wire(BaseAdapter):
    """Answers the requests of a session from an application; `around` may cut in."""

    def __init__(
        self,
        app: server.CloudApp,
        around: Callable[[requests.PreparedRequest, Callable[[], requests.Response]], Any],
    ) -> None:
        super().__init__()
        self._app = app
        self._around = around

    def send(  # type: ignore[override]
        self, request: requests.PreparedRequest, **_options: Any
    ) -> requests.Response:
        """Answer one request."""
        answer: requests.Response = self._around(request, lambda: self.exchange(request))
        return answer

    def close(self) -> None:
        """Nothing is open."""

    def exchange(self, request: requests.PreparedRequest) -> requests.Response:
        """Let the application see the request; return what a client would read of its answer."""
        parts = urlsplit(request.url or "")
        body = request.body or b""
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": parts.path,
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "headers": [(k.lower().encode(), _bytes(v)) for k, v in request.headers.items()],
            "server": (parts.hostname, parts.port),
            "client": ("127.0.0.1", 0),
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": _bytes(body), "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        try:
            finish(self._app(scope, receive, send))
        except ConnectionError as error:
            raise requests.exceptions.ConnectionError(str(error), request=request) from error
        return _read(request, sent)


def _read(request: requests.PreparedRequest, sent: list[dict[str, Any]]) -> requests.Response:
    start = next((m for m in sent if m["type"] == "http.response.start"), None)
    if start is None:
        raise requests.exceptions.ConnectionError("closed without an answer", request=request)
    headers = HTTPHeaderDict((k.decode(), v.decode()) for k, v in start.get("headers", ()))
    body = b"".join(m.get("body", b"") for m in sent if m["type"] == "http.response.body")
    if len(body) < int(headers.get("content-length", len(body))):
        raise requests.exceptions.ConnectionError("closed in the middle", request=request)
    raw = HTTPResponse(
        io.BytesIO(body), headers, status=start["status"], preload_content=False, version=11
    )
    answer = _READER.build_response(request, raw)
    answer.content  # noqa: B018 - read it as requests does when nothing is streamed
    return answer


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def session_over(wire: Wire, headers: Mapping[str, str] | None = None) -> requests.Session:
    """Return a session that knows no way but this wire."""
    session = requests.Session()
    session.trust_env = False
    session.adapters.clear()
    session.mount("http://", wire)
    session.headers.update(headers or {})
    return session
