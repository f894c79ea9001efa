"""What a message looks like in each form."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tpu_fleet.notify.message import Message
from tpu_fleet.notify.render import NTFY_BYTES, SLACK_CHARACTERS, environment, mail, post

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


def body(form: str, message: Message = FAILED, lines: int = 20) -> Any:
    return json.loads(post(message, form, lines).body)


def test_json() -> None:
    assert body("json") == {
        "event": "failed",
        "title": "digits failed on pair",
        "text": "Attempt 4, exit code 1.",
        "at": "2026-11-06T21:20:00Z",
        "fleet": "my-project",
        "slice": "pair",
        "run": "digits",
        "log": list(LOG),
    }
    assert body("json", lines=1)["log"] == [LOG[-1]]
    assert body("json", lines=0)["log"] == []


def test_slack() -> None:
    assert body("slack") == {
        "text": "*digits failed on pair*\nAttempt 4, exit code 1.\n"
        "```step 1\nTraceback (most recent call last):\nValueError: &lt;nan&gt; &amp; more```"
    }
    assert "```" not in body("slack", lines=0)["text"]


def test_ntfy() -> None:
    written = post(FAILED, "ntfy", 20)
    assert written.body.decode() == "Attempt 4, exit code 1.\n\n" + "\n".join(LOG)
    assert written.headers == {"Title": FAILED.title, "Priority": "high", "Tags": "x"}


@pytest.mark.parametrize(("form", "most"), [("slack", SLACK_CHARACTERS + 40), ("ntfy", NTFY_BYTES)])
def test_long_logs_keep_their_end(form: str, most: int) -> None:
    long = Message(**{**vars(FAILED), "log": tuple(f"line {n} é{'x' * 90}" for n in range(200))})
    written = post(long, form, 150).body
    text = json.loads(written)["text"] if form == "slack" else written.decode()
    assert len(text if form == "slack" else written) <= most
    assert "line 199" in text
    assert "line 1 " not in text


def test_a_long_text_leaves_what_is_allowed() -> None:
    long = Message(**{**vars(FAILED), "text": "é" * 9000})
    assert len(post(long, "ntfy", 20).body) <= NTFY_BYTES
    assert len(json.loads(post(long, "slack", 20).body)["text"]) <= SLACK_CHARACTERS + 40


def test_no_header_can_be_broken_out_of() -> None:
    evil = Message(**{**vars(FAILED), "title": "a\r\nBcc: x@y", "fleet": "p\nq"})
    assert post(evil, "ntfy", 1).headers["Title"] == "a Bcc: x@y"
    assert mail(evil, "a@b", ["c@d"], 1)["Subject"] == "[p q] a Bcc: x@y"


def test_mail() -> None:
    letter = mail(FAILED, "fleet@example.org", ["a@example.org", "b@example.org"], 2)
    assert letter["Subject"] == "[my-project] digits failed on pair"
    assert letter["To"] == "a@example.org, b@example.org"
    assert letter["Auto-Submitted"] == "auto-generated"
    text = letter.get_content()
    assert text.startswith("Attempt 4, exit code 1.\n\nThe last lines of its log:\n\n  Traceback")
    assert "step 1" not in text


def test_the_environment_of_a_command() -> None:
    assert environment(FAILED) == {
        "TPU_FLEET_EVENT": "failed",
        "TPU_FLEET_TITLE": "digits failed on pair",
        "TPU_FLEET_TEXT": "Attempt 4, exit code 1.",
        "TPU_FLEET_SLICE": "pair",
        "TPU_FLEET_RUN": "digits",
    }
