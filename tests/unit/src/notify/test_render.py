"""What a message looks like in each form."""

from __future__ import annotations

import json
from typing import Any

from tpu_fleet.notify.message import Message
from tpu_fleet.notify.render import as_json, environment, notice

LOG = ("step 1", "Traceback (most recent call last):", "ValueError: <nan> & more")
FAILED = Message(
    event="failed",
    title="digits failed on pair",
    text="Attempt 4, exit code 1.",
    at=1_794_000_000.0,
    fleet="my-project",
    slice="pair",
    run="digits",
    log=LOG,
)


def body(lines: int = 20) -> Any:
    return json.loads(as_json(FAILED, lines))


def test_json() -> None:
    assert body() == {
        "event": "failed",
        "title": "digits failed on pair",
        "text": "Attempt 4, exit code 1.",
        "at": "2026-11-06T21:20:00Z",
        "fleet": "my-project",
        "slice": "pair",
        "run": "digits",
        "log": list(LOG),
    }
    assert body(lines=1)["log"] == [LOG[-1]]
    assert body(lines=0)["log"] == []


def test_the_environment_of_a_command() -> None:
    assert environment(FAILED) == {
        "TPU_FLEET_EVENT": "failed",
        "TPU_FLEET_TITLE": "digits failed on pair",
        "TPU_FLEET_TEXT": "Attempt 4, exit code 1.",
        "TPU_FLEET_SLICE": "pair",
        "TPU_FLEET_RUN": "digits",
    }


def test_what_apprise_gets() -> None:
    evil = Message(**{**vars(FAILED), "title": "a\r\nBcc: x@y"})
    text = f"Attempt 4, exit code 1.\n{LOG[-1]}"
    assert notice(evil, 1) == {"title": "a Bcc: x@y", "body": text, "kind": "failure"}
