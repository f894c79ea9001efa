"""A session that answers from a script, and a clock that only moves during a sleep."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._wire.transport import RetryPolicy

STEADY = Backoff(first=1.0, factor=2.0, most=8.0, jitter=0.0)


class FakeClock:
    """Time that passes in no time."""

    def __init__(self) -> None:
        self.time = 0.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds


@dataclass
class Answer:
    """What the API says to one request."""

    status_code: int = 200
    body: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


@dataclass(frozen=True)
class Call:
    """What was asked."""

    method: str
    path: str
    params: dict[str, Any]
    body: Any


class FakeSession:
    """Gives the answers of a script in their order, or those of a function."""

    def __init__(self, *script: Any, answer: Callable[[Call], Any] | None = None) -> None:
        self.script = list(script)
        self.answer = answer
        self.auth = None
        self.calls: list[Call] = []

    def request(
        self,
        method: str,
        url: str,
        params: Mapping[str, Any] | None = None,
        json: Any = None,
        **_options: Any,
    ) -> Answer:
        call = Call(method, url.partition("://")[2].partition("/")[2], dict(params or {}), json)
        self.calls.append(call)
        reply = self.answer(call) if self.answer else self.script.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        return reply if isinstance(reply, Answer) else Answer(body=reply)

    @property
    def methods(self) -> list[str]:
        return [call.method for call in self.calls]


def error(status: int, code: str, message: str = "no", *details: dict[str, Any]) -> Answer:
    """Return an error as the API writes it."""
    body: dict[str, Any] = {"code": status, "message": message, "status": code}
    if details:
        body["details"] = list(details)
    return Answer(status, {"error": body})


def node(name: str = "n", state: str = "READY", **rest: Any) -> dict[str, Any]:
    """Return a node as the API writes it."""
    path = f"projects/123/locations/us-central2-b/nodes/{name}"
    return {"name": path, "id": "11", "state": state, **rest}


def operation(done: bool = False, **rest: Any) -> dict[str, Any]:
    """Return an operation as the API writes it."""
    name = "projects/123/locations/us-central2-b/operations/operation-1"
    metadata = {"target": "projects/123/locations/us-central2-b/nodes/n", "verb": "create"}
    return {"name": name, "metadata": metadata, "done": done, **rest}


def client_with(session: FakeSession) -> tuple[Client, FakeClock]:
    """Return a client whose requests go to the session and whose time is fake."""
    clock = FakeClock()
    retry = RetryPolicy(tries=4, backoff=STEADY, busy_seconds=20.0, busy_backoff=STEADY)
    client = Client("p", endpoint="http://127.0.0.1:1", clock=clock, session=session, retry=retry)
    return client, clock


def make(*script: Any) -> tuple[Client, FakeSession]:
    """Return a client whose requests get these answers, and their session."""
    session = FakeSession(*script)
    return client_with(session)[0], session
