"""Requests to an origin: bounded in time, to servers that TLS verifies, a token to one host."""

from __future__ import annotations

import contextlib
import functools
import http.client
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..decide.source import is_loopback

SILENCE = 60.0
_MOST_OF_JSON = 32 << 20
_FINAL = (400, 401, 403, 404, 405, 410, 451)
_WHOLE = re.compile(r"bytes ([0-9]{1,18})-[0-9]{1,18}/")


class CannotGet(Exception):
    """What stands in the way of a download."""


class Refused(CannotGet):
    """The server does not give it; to ask once more does not help."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Reading(NamedTuple):
    """A file that comes in."""

    stream: Any
    """Has `read`."""
    offset: int
    """Where in the file it begins."""


def is_safe(url: str) -> bool:
    """Return whether what an address gives comes from its host: by TLS, or on this computer."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


class _Redirected(urllib.request.HTTPRedirectHandler):
    """Follow to safe addresses; a token goes along to the same host alone."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if not is_safe(newurl):
            raise Refused(code, f"{req.host} redirects to an address without TLS")
        found = super().redirect_request(req, fp, code, msg, headers, newurl)
        token = req.unredirected_hdrs.get("Authorization")
        if found is not None and token and _place(newurl) == _place(req.full_url):
            found.add_unredirected_header("Authorization", token)
        return found


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_words: Any, **_more: Any) -> urllib.request.Request | None:
        return None


def _place(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


class Way(NamedTuple):
    """How a server is asked."""

    follows: bool = True
    """Whether by proxies, and to where it redirects."""
    is_inside: bool = False
    """Whether it is another worker, which has no certificate."""

    @functools.cache  # noqa: B019 - there are three ways; each begins with reading all authorities
    def opener(self) -> urllib.request.OpenerDirector:
        """Return what asks it."""
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])  # as http.client does for its own
        straight = (urllib.request.ProxyHandler({}), _Stay())
        handlers = (_Redirected(),) if self.follows else straight
        secure = urllib.request.HTTPSHandler(context=context)
        return urllib.request.build_opener(secure, *handlers)


FOLLOWS, STAYS, INSIDE = Way(), Way(follows=False), Way(follows=False, is_inside=True)


@contextlib.contextmanager
def opened(
    url: str, headers: Mapping[str, str] | None = None, token: str = "", way: Way = FOLLOWS
) -> Iterator[http.client.HTTPResponse]:
    """Yield the answer of a server; raise CannotGet, or Refused."""
    if not (way.is_inside or is_safe(url)):
        raise Refused(0, f"{url} is an address without TLS")
    told = {"Accept-Encoding": "identity", **(headers or {})}
    request = urllib.request.Request(url, headers=told)  # noqa: S310 - looked at above
    if token:
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    host = urlsplit(url).hostname
    try:
        with way.opener().open(request, timeout=SILENCE) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        said = f"{host} answers {error.code}"
        error.close()
        raise (Refused(error.code, said) if error.code in _FINAL else CannotGet(said)) from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise CannotGet(f"{host} does not answer: {reason or type(error).__name__}") from None


@contextlib.contextmanager
def reading(
    url: str,
    offset: int,
    headers: Mapping[str, str] | None = None,
    token: str = "",
    way: Way = FOLLOWS,
) -> Iterator[Reading]:
    """Yield a file from an offset on, or from its begin where the server gives it only so."""
    asked = {**(headers or {}), **({"Range": f"bytes={offset}-"} if offset else {})}
    with opened(url, asked, token, way) as answer:
        found = _WHOLE.match(answer.headers.get("Content-Range", ""))
        begins = int(found[1]) if answer.status == 206 and found else 0
        if begins not in (0, offset):
            raise CannotGet(f"{urlsplit(url).hostname} gives another part than it was asked for")
        yield Reading(answer, begins)


def json_of(url: str, token: str = "") -> tuple[Any, Mapping[str, str]]:
    """Return the JSON of an address, and its headers; raise CannotGet."""
    with opened(url, {"Accept": "application/json"}, token) as answer:
        text = answer.read(_MOST_OF_JSON + 1)
        headers = dict(answer.headers.items())
    try:
        if len(text) <= _MOST_OF_JSON:
            return json.loads(text), headers
    except (ValueError, RecursionError):
        pass
    raise CannotGet(f"{urlsplit(url).hostname} gives no JSON that can be read")
