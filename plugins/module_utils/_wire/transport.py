# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""HTTP requests to an API, and the rule by which they are repeated."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit

from .._core.errors import Busy, CredentialsError, RateLimited, TpuError, Unavailable, from_response
from .._core.wait import Backoff, Clock
from .auth import HAS_REQUESTS, TokenAuth, destination

if HAS_REQUESTS or TYPE_CHECKING:
    import requests

T = TypeVar("T")


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long requests are repeated."""

    tries: int = 6
    backoff: Backoff = field(default_factory=lambda: Backoff(first=0.5, factor=2.0, most=20.0))
    busy_seconds: float = 180.0
    busy_backoff: Backoff = field(default_factory=lambda: Backoff(first=2.0, most=15.0))
    # A longer pause that the server requests is reported instead of waited for.
    longest_pause: float = 120.0


# A server on this computer answers immediately, so a local cloud that does not answer is not up.
LOCAL_RETRY = RetryPolicy(tries=4, backoff=Backoff(first=0.4, factor=2.0))


def retry_of(endpoint: str) -> RetryPolicy:
    """Return the rule for requests to an endpoint."""
    return LOCAL_RETRY if destination(endpoint) == "loopback" else RetryPolicy()


class Quoted(str):
    """A path that is sent unchanged, because a part of it contains slashes."""

    __slots__ = ()


class Transport:
    """Sends requests to one endpoint, from any number of threads."""

    def __init__(
        self,
        endpoint: str,
        open_session: Callable[[], requests.Session],
        clock: Clock,
        retry: RetryPolicy,
        timeout: tuple[float, float] = (10.0, 60.0),
    ) -> None:
        self.endpoint = endpoint.rstrip("/") + "/"
        self.clock = clock
        self.retry = retry
        self._open_session = open_session
        # One for all threads, so that they share connections and the token.
        self._session: requests.Session | None = None
        self._lock = threading.Lock()
        self._timeout = timeout
        self._date: tuple[datetime, float] | None = None

    def server_time(self) -> datetime:
        """Return the time of day by the API's last answer; a laptop's clock may be wrong."""
        if self._date is None:
            return datetime.now(timezone.utc)
        date, seen_at = self._date
        return date + timedelta(seconds=self.clock.now() - seen_at)

    def read(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Send a GET request; it changes nothing, so failures are retried."""
        return self.repeat(lambda: self.send("GET", path, query))

    def pages(self, path: str, query: Mapping[str, Any] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the pages of a list; an empty page does not end it."""
        token, seen = "", set()
        while True:
            page = self.read(path, {**(query or {}), "pageToken": token or None})
            yield page
            token = str(page.get("nextPageToken") or "")
            if not token:
                return
            if token in seen:
                raise Unavailable(f"The list {path} never ends: a page token came back.")
            seen.add(token)

    def repeat(self, call: Callable[[], T]) -> T:
        """Send an idempotent request; retry until it is answered."""
        delays = self.retry.backoff.delays()
        busy_delays = self.retry.busy_backoff.delays()
        busy_until = self.clock.now() + self.retry.busy_seconds
        tries = 0
        while True:
            try:
                return call()
            except Busy:
                if self.clock.now() >= busy_until:
                    raise
                self.clock.sleep(next(busy_delays))
            except (RateLimited, Unavailable) as error:
                tries += 1
                if tries >= self.retry.tries:
                    raise
                self.pause(error, next(delays))

    def accept(self, call: Callable[[], T]) -> T:
        """Send a request that must not be done twice; retry only if it surely had no effect."""

        def once() -> T | Unavailable:
            try:
                return call()
            except Unavailable as error:
                return error

        result = self.repeat(once)
        if isinstance(result, Unavailable):
            raise result
        return result

    def pause(self, error: RateLimited | Unavailable, delay: float) -> None:
        """Wait for the time that the error requests, or the delay."""
        asked = error.retry_after or 0.0
        if asked > self.retry.longest_pause:
            raise error
        self.clock.sleep(max(asked, delay))

    def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        content: bytes | None = None,
    ) -> dict[str, Any]:
        """Send one request; return the answered object, or raise the error.

        What goes with it is an object, or content as it is.
        """
        quoted = path if isinstance(path, Quoted) else quote(path, safe="/:-_.~")
        params = {name: value for name, value in (query or {}).items() if value is not None}
        address = self.endpoint + quoted
        answer = self._answered(method, address, path, params=params, json=body, data=content)
        return _object_of(answer.content, path)

    def exchange(self, path: str, kind: str, content: bytes) -> tuple[str, bytes]:
        """Post content of a kind to a path of the same host; return kind and content of the answer.

        The answer is not read any further.
        """
        address, sent = urljoin(self.endpoint, path), {"Content-Type": kind}
        answer = self._answered("POST", address, path, data=content, headers=sent)
        return answer.headers.get("Content-Type", ""), answer.content

    def content(self, path: str, query: Mapping[str, Any], most: int) -> Iterator[bytes]:
        """Yield what a GET request is answered, at most so many bytes, as it comes."""
        quoted = path if isinstance(path, Quoted) else quote(path, safe="/:-_.~")
        address = self.endpoint + quoted
        answer = self.repeat(
            lambda: self._answered("GET", address, path, params=dict(query), stream=True)
        )
        with answer:
            try:
                for piece in answer.iter_content(1 << 18):
                    yield piece[:most]
                    most -= len(piece)
                    if most <= 0:
                        return
            except requests.exceptions.RequestException as error:
                raise Unavailable(
                    f"{self.endpoint} ended its answer: {_reason(error)}", resource=path
                ) from error

    def _answered(self, method: str, address: str, path: str, **what: Any) -> requests.Response:
        session = self._ready_session()
        answer = self._send(session, method, address, path, what)
        auth = session.auth
        # A token may expire between two requests, so one try with a new one follows.
        if answer.status_code == 401 and isinstance(auth, TokenAuth) and auth.renew():
            answer = self._send(session, method, address, path, what)
        self._note_date(answer.headers)
        if not 200 <= answer.status_code < 300:
            raise from_response(answer.status_code, answer.content, answer.headers, path)
        return answer

    def _send(
        self,
        session: requests.Session,
        method: str,
        address: str,
        path: str,
        what: Mapping[str, Any],
    ) -> requests.Response:
        try:
            return session.request(
                method,
                address,
                **what,
                timeout=self._timeout,
                # The API never redirects, and a token must not follow a redirection.
                allow_redirects=False,
            )
        except TpuError:
            raise
        except requests.exceptions.SSLError as error:
            raise CredentialsError(
                f"The certificate of {self.endpoint} is not trusted: {error}",
                remedy="Check api_endpoint, the system's certificates and its clock.",
            ) from error
        except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema) as error:
            raise TpuError(
                f"{self.endpoint} is no usable endpoint: {error}", remedy="Correct api_endpoint."
            ) from error
        except requests.exceptions.RequestException as error:
            raise Unavailable(
                f"{self.endpoint} does not answer: {_reason(error)}",
                remedy=_remedy(self.endpoint),
                resource=path,
            ) from error

    def _ready_session(self) -> requests.Session:
        with self._lock:
            if self._session is None:
                self._session = self._open_session()
            return self._session

    def _note_date(self, headers: Mapping[str, str]) -> None:
        try:
            date = parsedate_to_datetime(headers.get("Date", ""))
        except (TypeError, ValueError):
            return
        if date.tzinfo is not None:
            self._date = (date, self.clock.now())


def _remedy(endpoint: str) -> str | None:
    """Return the command that starts the local cloud at an endpoint of this computer."""
    if destination(endpoint) != "loopback":
        return None
    port = urlsplit(endpoint).port
    return f"Start the local cloud: tpu-fleet cloud up{f' --port {port}' if port else ''}"


def _object_of(content: bytes, path: str) -> dict[str, Any]:
    if not content:
        return {}
    try:
        data = json.loads(content)
    except ValueError as error:
        raise Unavailable(f"The answer to {path} is not JSON.", resource=path) from error
    if not isinstance(data, dict):
        raise Unavailable(f"The answer to {path} is not an object.", resource=path)
    return data


def _reason(error: BaseException) -> str:
    """Return the innermost message of an error, which requests wraps three times."""
    inner: Any = error
    while inner.args and isinstance(inner.args[-1], BaseException):
        inner = inner.args[-1]
    text = str(getattr(inner, "reason", None) or inner)
    # "HTTPConnection(host=..., port=...): what happened"
    return text.partition("): ")[2] or text or type(error).__name__
