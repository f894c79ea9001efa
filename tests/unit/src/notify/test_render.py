"""The forms of a message."""

from __future__ import annotations

import json

from tpu_fleet.notify.message import Message
from tpu_fleet.notify.render import MOST_BYTES, as_json, environment, notice

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


def test_json() -> None:
    assert json.loads(as_json(FAILED, 20)) == {
        "event": "failed",
        "title": "digits failed on pair",
        "text": "Attempt 4, exit code 1.",
        "at": "2026-11-06T21:20:00Z",
        "fleet": "my-project",
        "slice": "pair",
        "run": "digits",
        "log": list(LOG),
    }
    assert json.loads(as_json(FAILED, 1))["log"] == [LOG[-1]]
    assert json.loads(as_json(FAILED, 0))["log"] == []


def test_what_apprise_gets() -> None:
    assert notice(FAILED, 20) == {
        "title": "digits failed on pair",
        "body": "Attempt 4, exit code 1.\n\n" + "\n".join(LOG),
        "kind": "failure",
    }
    assert notice(FAILED, 0)["body"] == FAILED.text
    assert notice(Message("preempted", "t", "x", 0.0), 20)["kind"] == "info"


def test_long_logs_keep_their_end() -> None:
    long = Message(**{**vars(FAILED), "log": tuple(f"line {n} é{'x' * 90}" for n in range(200))})
    text = notice(long, 150)["body"]
    assert len(text.encode()) <= MOST_BYTES
    assert "line 199" in text
    assert "line 1 " not in text


def test_a_long_text_leaves_what_is_allowed() -> None:
    long = Message(**{**vars(FAILED), "text": "é" * 9000})
    assert len(notice(long, 20)["body"].encode()) <= MOST_BYTES


def test_no_header_can_be_broken_out_of() -> None:
    evil = Message(**{**vars(FAILED), "title": "a\r\nBcc: x@y", "fleet": "p\nq"})
    assert notice(evil, 1)["title"] == "a Bcc: x@y"


def test_the_environment_of_a_command() -> None:
    assert environment(FAILED) == {
        "TPU_FLEET_EVENT": "failed",
        "TPU_FLEET_TITLE": "digits failed on pair",
        "TPU_FLEET_TEXT": "Attempt 4, exit code 1.",
        "TPU_FLEET_SLICE": "pair",
        "TPU_FLEET_RUN": "digits",
    }
