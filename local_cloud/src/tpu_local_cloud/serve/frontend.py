"""The front end of the local cloud: answers every request, with faults like those of a network."""

from __future__ import annotations

import functools
import html
import json
import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Any, Literal

from .. import compute_errors, errors, payload
from ..compute_api import api as compute
from ..compute_api import batch
from ..errors import ApiError
from ..github import keys as github
from ..google import api as google
from ..model.cloud import Cloud
from ..model.shared import known_methods
from ..model.shared.faults import Fault
from ..model.shared.store import is_full
from ..storage_api import api as storage
from ..storage_api.call import Content, Request
from ..tpu_api import discovery
from ..tpu_api.call import Asked
from ..tpu_api.methods import Api
from . import control

JSON = "application/json; charset=UTF-8"
# Headers of a batch that apply to each of its calls.
_OF_ALL = ("Authorization", "X-Goog-User-Project", "Host")
# Number of tokens whose first use is remembered.
TOKENS = 1000


# Where `tpu-local-cloud env` leads gcloud for a service that only Google has.
_ABSENT = re.compile(r"/_absent/([^/]+)")


Cut = Literal["", "drop", "reset"]


@dataclass
class Reply:
    """One HTTP answer."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    pause: float = 0.0
    """Real seconds of delay before the answer."""
    again: Callable[[], Reply] | None = None
    """Returns the answer again, while it is not the one that the client waits for."""
    content: Content | None = None
    """What is sent in place of the body, while it is read."""
    cut: Cut = ""
    """drop: nothing is sent. reset: half of it is sent, then the connection breaks."""


class FrontEnd:
    """Handles requests for the TPU API, Google's other APIs, and the owner's control interface."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self.api = Api(cloud)
        self._seen: OrderedDict[str, float] = OrderedDict()

    def reply(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes,
    ) -> Reply:
        """Answer one request; the path is the one that was sent, still encoded."""
        # First run everything that was due before the request.
        self.cloud.advance()
        if path.startswith("/_cloud/"):
            tail = path.removeprefix("/_cloud/")
            return self._attempt(
                method, path, lambda: control.answer(self.cloud, method, tail, body)
            )
        if absent := _ABSENT.match(path):
            return self._refuse(errors.not_emulated(f"{absent[1]}.googleapis.com"))
        if method == "POST" and batch.PATH.fullmatch(path):
            return self._batch(headers, body, self._part)
        hub = github.answer(self.cloud, method, path, query, headers, body)
        if hub is not None:
            return Reply(hub.status, hub.body(), {**self._headers(JSON), **hub.headers})
        token = _token(headers)
        where = self._where(method, path, query, body) if len(self.cloud.faults) else {}

        def answered() -> Reply:
            unpaid = _is_unpaid(token, headers)
            asked = Asked(method, path, dict(query), body, bool(token), unpaid)
            host = headers.get("Host", "")
            return self._attempt(method, path, lambda: self._answer(asked, host), query)

        return self._disturbed(where, token, answered)

    def storage(self, request: Request) -> Reply:
        """Answer one request for Cloud Storage, whose body is read meanwhile."""
        self.cloud.advance()
        if request.method == "POST" and storage.BATCH.fullmatch(request.path):
            return self._batch_of_storage(request)
        token = _token(request.headers)
        where = storage.where(self.cloud, request) if len(self.cloud.faults) else {}
        unpaid = _is_unpaid(token, request.headers)

        def answered() -> Reply:
            found = storage.answer(self.cloud, request, bool(token), unpaid)
            headers = {**self._headers(""), **found.headers}
            kept = {key: value for key, value in headers.items() if value}
            return Reply(found.status, found.body, kept, content=found.content)

        return self._disturbed(where, token, answered)

    def _batch_of_storage(self, request: Request) -> Reply:
        """Answer each call of a batch as if it came alone; it may bring no content."""

        def of_part(part: batch.Part, headers: Mapping[str, str]) -> Reply:
            lower = {key.lower(): value for key, value in headers.items()}
            reply = self.storage(
                replace(
                    request,
                    method=part.method,
                    path=part.path,
                    query=part.query,
                    headers=lower,
                    body=[part.body],
                    pairs=tuple(part.query.items()),
                )
            )
            if reply.content is None:
                return reply
            reply.content.file.close()
            return self._refuse(errors.not_emulated("download in a batch"))

        given = {key.title(): value for key, value in request.headers.items()}
        return self._batch(given, b"".join(request.body), of_part)

    def _disturbed(self, where: dict[str, Any], token: str, answered: Callable[[], Reply]) -> Reply:
        """Return an answer, or what a network or its proxies make of it."""
        faults, now = self.cloud.faults, self.cloud.clock.now()
        begun = self._first_seen(token, now)
        drop = faults.hit("drop", now, **where) if where else None
        if drop and not _after_the_work(drop):
            return Reply(0, b"", cut="drop")
        gateway = faults.hit("bad_gateway", now, **where) if where else None
        if gateway and not _after_the_work(gateway):
            return self._bad_gateway()
        if where and token and self._expired(token, now - begun, where):
            return self._refuse(errors.unauthenticated())
        reset = faults.hit("reset", now, **where) if where else None
        slow = faults.hit("slow", now, **where) if where else None
        reply = answered()
        if gateway:
            if reply.content is not None:
                reply.content.file.close()
            reply = self._bad_gateway()
        if slow:
            reply.pause = self.cloud.clock.real_seconds(float(slow.options.get("seconds", 10)))
        reply.cut = "drop" if drop else "reset" if reset else ""
        if reply.cut:
            reply.again = None
        return reply

    def _bad_gateway(self) -> Reply:
        page = errors.BAD_GATEWAY.encode()
        return Reply(502, page, self._headers("text/html; charset=UTF-8"))

    def too_large(self) -> Reply:
        """Answer a request whose body is too large to be read."""
        return self._refuse(errors.too_large(payload.LARGEST))

    def _attempt(
        self,
        method: str,
        path: str,
        work: Callable[[], dict[str, Any]],
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return what is answered by some work for a request, or its refusal.

        An operation of Compute Engine for which the client waits is looked at again.
        """
        try:
            shown = work()
        except ApiError as error:
            missing = isinstance(error, errors.NoSuchMethod) and not path.startswith("/_cloud/")
            return self._missing(method, path, query) if missing else self._refuse(error, query)
        except Exception as error:
            logging.getLogger(__name__).exception("%s %s", method, path)
            return self._refuse(errors.disk_full() if is_full(error) else errors.internal(), query)
        reply = self._say(200, shown, {}, query)
        if path.endswith("/wait") and _is_unfinished(shown):
            again = functools.partial(compute.awaited, self.cloud, path)
            reply.again = functools.partial(self._attempt, method, path, again, query)
        return reply

    def _missing(self, method: str, path: str, query: Mapping[str, str] | None) -> Reply:
        """Answer a request for what the local cloud does not have: in JSON if Google has it."""
        name = known_methods.name_of(method, path)
        if not name:
            page = errors.NOT_THERE.format(html.escape(path)).encode()
            return Reply(404, page, self._headers("text/html; charset=UTF-8"))
        refused = errors.not_emulated(name)
        is_compute = name.startswith("compute.")
        return self._refuse(compute_errors.as_compute(refused) if is_compute else refused, query)

    def _refuse(self, error: ApiError, query: Mapping[str, str] | None = None) -> Reply:
        return self._say(error.http, error.body(), error.headers, query)

    def _batch(
        self,
        headers: Mapping[str, str],
        body: bytes,
        answer: Callable[[batch.Part, Mapping[str, str]], Reply],
    ) -> Reply:
        """Answer each call of a batch as if it came alone; what cuts one off cuts off all."""
        try:
            calls = batch.parts(headers.get("Content-Type", ""), body)
        except ApiError as error:
            return self._refuse(error)
        # Each call may have a token of its own.
        common = {key: headers[key] for key in _OF_ALL if key in headers}
        replies = [(c, answer(c, {**common, **c.headers})) for c in calls]
        kind, content = batch.answer(
            (c, r.status, r.headers, r.body) for c, r in replies if not r.cut
        )
        cut: Cut = next((reply.cut for _, reply in replies if reply.cut), "")
        pause = max((reply.pause for _, reply in replies), default=0.0)
        return Reply(200, content, self._headers(kind), pause=pause, cut=cut)

    def _part(self, part: batch.Part, headers: Mapping[str, str]) -> Reply:
        return self.reply(part.method, part.path, part.query, headers, part.body)

    def _where(
        self, method: str, path: str, query: Mapping[str, str], body: bytes
    ) -> dict[str, Any]:
        known = compute.where(method, path, body)
        if known is not None:
            return known
        found = self.api.find(method, path)
        return self.api.where(found, dict(query), body) if found else {"method": method}

    def _first_seen(self, token: str, now: float) -> float:
        """Return when a token was first seen; those unused for longest are forgotten."""
        if not token:
            return now
        begun = self._seen.setdefault(token, now)
        self._seen.move_to_end(token)
        if len(self._seen) > TOKENS:
            self._seen.popitem(last=False)
        return begun

    def _expired(self, token: str, age: float, where: dict[str, Any]) -> bool:
        def concerned(fault: Fault) -> bool:
            named, oldest = fault.options.get("token"), fault.options.get("older_than")
            if named is not None:
                return token == str(named)
            return oldest is None or age > float(oldest)

        faults = self.cloud.faults
        return bool(faults.hit("token_expired", self.cloud.clock.now(), concerned, **where))

    def _answer(self, asked: Asked, host: str) -> dict[str, Any]:
        _check_alt(asked.query)
        found = discovery.answer(asked.path, asked.query, f"http://{host}/")
        if found is None:
            found = compute.answer(self.cloud, asked)
        if found is None:
            found = google.answer(self.cloud, asked)
        return self.api.answer(asked) if found is None else found

    def _say(
        self,
        status: int,
        answer: dict[str, Any],
        headers: dict[str, str],
        query: Mapping[str, str] | None = None,
    ) -> Reply:
        compact = (query or {}).get("prettyPrint") == "false"
        text = json.dumps(answer, indent=None if compact else 2, ensure_ascii=False) + "\n"
        # One bad character must not cost the whole answer.
        return Reply(status, text.encode(errors="replace"), {**self._headers(JSON), **headers})

    def _headers(self, kind: str) -> dict[str, str]:
        # The Date header has the cloud's time, because clients may use it.
        return {"Content-Type": kind, "Date": formatdate(self.cloud.clock.now(), usegmt=True)}


def _token(headers: Mapping[str, str]) -> str:
    """Return the bearer token of a request, by its headers as a batch or HTTP has them."""
    given = headers.get("Authorization") or headers.get("authorization", "")
    scheme, _, token = given.partition(" ")
    return token.strip() if scheme == "Bearer" else ""


def _is_unpaid(token: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a person and names no quota project.

    Google's tokens of service accounts begin like this; their project is the quota project.
    """
    person = bool(token) and not token.startswith("ya29.c.")
    return person and not headers.get("x-goog-user-project")


def _is_unfinished(shown: dict[str, Any]) -> bool:
    """Return whether an answer is an operation of Compute Engine that is not done."""
    return shown.get("kind") == "compute#operation" and shown.get("status") != "DONE"


def _check_alt(query: Mapping[str, str]) -> None:
    """Raise for a form of answers that Google does not have, or the local cloud does not."""
    for name in ("alt", "$alt"):
        # Clients over REST add how enums are spelled.
        form = query.get(name, "").partition(";")[0]
        if form == "proto":
            raise errors.not_emulated("answer in alt=proto")
        if form not in ("", "json", "media"):
            raise errors.invalid_alt(form)


def _after_the_work(lost: Fault) -> bool:
    """Return whether an answer is lost only after the work is done."""
    return bool(lost.options.get("when") == "after")
