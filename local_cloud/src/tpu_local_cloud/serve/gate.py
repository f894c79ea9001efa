"""Access to the servers of a local cloud, for programs of its users and its machines."""

from __future__ import annotations

import json
import pwd
from collections.abc import Callable, Collection
from contextlib import suppress
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from .peers import owner

# Headers that a browser adds to the requests of a page, and a program does not.
BROWSER = ("origin", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
READING = ("GET", "HEAD")
METADATA_HOSTS = ("metadata.google.internal", "metadata", "169.254.169.254")
STORAGE_HOSTS = ("storage.googleapis.com", "www.googleapis.com")
SHOWN = 100


class Gate:
    """Passes allowed requests on; a check returns why one is refused, or nothing."""

    def __init__(self, app: ASGIApp, *checks: Callable[[Scope, Headers], str]) -> None:
        self.app = app
        self.checks = checks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            for check in self.checks:
                why = check(scope, headers)
                if why:
                    await _refusal(why)(scope, receive, send)
                    return
        # A client that leaves before its request is complete gets no answer, and is no error.
        with suppress(ClientDisconnect):
            await self.app(scope, receive, send)


def _refusal(why: str) -> Response:
    error = {"code": 403, "message": f"The local cloud refuses this: {why}"}
    text = json.dumps({"error": {**error, "status": "PERMISSION_DENIED"}}) + "\n"
    # The body was not read, so the connection cannot carry another request.
    return Response(text, 403, {"Content-Type": "application/json", "Connection": "close"})


def no_page(scope: Scope, headers: Headers) -> str:
    """Refuse requests of web pages in a browser."""
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    foreign = origin is not None and origin != f"http://{headers.get('host', '')}"
    if foreign or site not in (None, "none", "same-origin"):
        return (
            f"it comes from a web page (Origin {_shown(origin)}, Sec-Fetch-Site {_shown(site)}). "
            "Ask with a program."
        )
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    browser = any(name in headers for name in BROWSER)
    if browser and scope["method"] not in READING and kind != "application/json":
        return f"a browser sends {_shown(kind)}. Ask with a program, or send application/json."
    return ""


def named_storage(_scope: Scope, headers: Headers) -> str:
    """Refuse requests for other hosts than Cloud Storage's names and this computer."""
    host = _host(headers.get("host", ""))
    if host in STORAGE_HOSTS or host.endswith(f".{STORAGE_HOSTS[0]}") or _is_loopback(host):
        return ""
    return (
        f"it is for the host {_shown(headers.get('host'))}. This server answers as "
        f"{', '.join(STORAGE_HOSTS)} only."
    )


def named(names: Collection[str], loopback: bool) -> Callable[[Scope, Headers], str]:
    """Refuse requests for other hosts, because a foreign name may resolve here (DNS rebinding)."""

    def check(_scope: Scope, headers: Headers) -> str:
        given = headers.get("host", "")
        host = _host(given)
        if host in names or (loopback and _is_loopback(host)):
            return ""
        known = ", ".join([*(["localhost", "127.0.0.1"] if loopback else []), *names])
        return f"it is for the host {_shown(given)}. This server answers as {known} only."

    return check


def owned(uids: Collection[int]) -> Callable[[Scope, Headers], str]:
    """Refuse programs of other users of this computer."""

    def check(scope: Scope, _headers: Headers) -> str:
        client, server = scope.get("client"), scope.get("server")
        uid = owner(tuple(client), tuple(server)) if client and server else None
        if uid == 0 or uid in uids:
            return ""
        who = "an unknown user" if uid is None else f"user {_user(uid)}"
        ours = ", ".join(_user(uid) for uid in sorted(uids))
        return (
            f"it comes from {who}, and the cloud belongs to {ours}. Start one of your own: "
            "tpu-local-cloud up --hosts none --port PORT"
        )

    return check


def _host(given: str) -> str:
    try:
        return (urlsplit(f"//{given}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _shown(text: str | None) -> str:
    return "none" if text is None else ascii(text[:SHOWN])
