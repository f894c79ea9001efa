"""Requests whose answers get lost: what is sent again, and when the effect is looked for."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("requests")

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._wire.changes import alter_newest, once
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    FakeSession,
    client_with,
    error,
)

LOST = requests.exceptions.ReadTimeout("read timed out")
EXISTS = error(409, "ALREADY_EXISTS")
MISSING = error(404, "NOT_FOUND")
FINE = {"name": "op"}


@pytest.mark.parametrize(
    ("script", "seen", "has_id", "sent", "looks", "outcome"),
    [
        ([FINE], [], False, 1, 0, "answer"),
        ([EXISTS], [], False, 1, 0, "exists"),
        ([LOST], ["there"], False, 1, 1, "there"),
        ([LOST, FINE], [None], False, 2, 1, "answer"),
        ([LOST, EXISTS], [None, "there"], False, 2, 2, "there"),
        ([LOST, MISSING], [None, None], False, 2, 2, "not_found"),
        ([LOST] * 3, [None] * 3, False, 3, 3, "unavailable"),
        ([LOST] * 3, [None, None, "there"], False, 3, 3, "there"),
        # The API knows its id.
        ([LOST, LOST, FINE], [], True, 3, 0, "answer"),
        ([LOST, EXISTS], ["there"], True, 2, 1, "there"),
        ([LOST] * 3, [None], True, 3, 1, "unavailable"),
        ([LOST] * 3, ["there"], True, 3, 1, "there"),
    ],
)
def test_a_request_is_carried_out_once(
    script: list[Any], seen: list[str | None], has_id: bool, sent: int, looks: int, outcome: str
) -> None:
    session = FakeSession(*script)
    client, clock = client_with(session)
    looked: list[str | None] = []

    def effect(_error: _errors.TpuError) -> str | None:
        looked.append(seen[len(looked)])
        return looked[-1]

    def send() -> str:
        return "answer" if client.transport.send("POST", "x") == FINE else "?"

    try:
        got = once(client.transport, send, effect, has_id=has_id, tries=3)
    except _errors.TpuError as caught:
        got = caught.kind
    assert (got, len(session.calls), len(looked)) == (outcome, sent, looks)
    assert len(clock.sleeps) == min(script.count(LOST), 2), "there is no pause after the last try"


def test_a_change_begins_again_on_the_newest_state() -> None:
    written: list[dict[str, Any]] = []

    def write(wanted: dict[str, Any]) -> dict[str, Any]:
        written.append(wanted)
        if len(written) == 1:
            raise _errors.BadRequest("outdated", http_status=412)
        return {"done": True}

    clock = client_with(FakeSession())[1]
    reads = iter([{"n": 1}, {"n": 2}])
    raw = alter_newest(clock, lambda: next(reads), lambda have: {"n": have["n"] + 1}, write)
    assert (raw, written, len(clock.sleeps)) == ({"done": True}, [{"n": 2}, {"n": 3}], 1)


def test_a_list_of_any_api_ends_when_a_page_token_comes_back() -> None:
    pages = [{"items": [{"n": 1}, "?"], "nextPageToken": "1"}, {"items": [{"n": 2}]}]
    client, _clock = client_with(FakeSession(*pages))
    assert GoogleApis(client).items("storage", "b/x/o", "items") == [{"n": 1}, {"n": 2}]
    again = [{"items": [], "nextPageToken": token} for token in ("1", "2", "1")]
    client, _clock = client_with(FakeSession(*again))
    with pytest.raises(_errors.Unavailable, match="never ends"):
        GoogleApis(client).items("storage", "b/x/o", "items")
