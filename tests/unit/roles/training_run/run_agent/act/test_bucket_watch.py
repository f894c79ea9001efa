"""The agent's side of the looks at a bucket; the looks themselves are processes, as in an agent."""

from __future__ import annotations

import getpass
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from object_server import Objects
from run_agent.act import bucket_watch, installed
from run_agent.act.bucket_watch import BucketWatch, typed
from run_agent.decide import bucket_budget
from run_agent.decide.config import Config, Timing, parse
from run_definition import PUBLIC

AT = 1_700_000_000.0
Make = Callable[..., BucketWatch]


def config_of(**more: Any) -> Config:
    config = parse({**PUBLIC, "user": getpass.getuser(), "worker": 0, "metadata": ""}, {})
    return replace(config, checkpoint_dir="gs://lab/digits", **more)


def looked(watch: BucketWatch, now: float, running: bool = True) -> None:
    """Look once, and take in what is found."""
    watch.look(now, running)
    assert watch._helper._thread is not None
    watch._helper._thread.join(30)
    watch.look(now, running)


def test_a_look_is_taken_in_and_the_next_comes_when_it_is_paid(lab: Objects) -> None:
    lab.step("digits/100", AT)
    watch = BucketWatch(config_of(storage=lab.url))
    assert watch.found == {}
    looked(watch, 1000.0)
    assert (watch.error, watch.found["saved"]) == ("", int(AT) * 10**9)
    shown = watch.shown() or {}
    assert (shown["name"], shown["step"], shown["bytes"]) == ("100", 100, 310)
    assert (shown["lists"], shown["gets"]) == (2, 1)
    asked = len(lab.requests)
    watch.look(1000.0 + shown["every_seconds"] - 2, running=True)
    assert (watch._helper.is_busy, len(lab.requests)) == (False, asked)
    looked(watch, 1000.0 + shown["every_seconds"] + 2)
    assert len(lab.requests) == asked + 2


def test_a_program_that_begins_is_looked_at_soon_and_the_next_looks_pay_for_it(
    lab: Objects,
) -> None:
    watch = BucketWatch(config_of(storage=lab.url))
    looked(watch, 1000.0, running=False)
    pause = (watch.shown() or {})["every_seconds"]
    lab.step("digits/100", AT)
    watch.look(1001.0, running=True)
    watch.look(1020.0, running=True)
    assert (watch._helper.is_busy, watch.found["saved"]) == (False, 0)
    looked(watch, 1021.0)
    assert watch.found["saved"] == int(AT) * 10**9
    shown = watch.shown() or {}
    usual = bucket_budget.pause(bucket_budget.dollars(2, 1), 0.13, 60.0)
    assert shown["every_seconds"] == pytest.approx(
        usual + (pause - 21) / bucket_budget.PARTS, abs=2
    )
    # Another begin is not looked at early before that is paid.
    watch.look(1022.0, running=False)
    watch.look(1023.0, running=True)
    watch.look(1060.0, running=True)
    assert not watch._helper.is_busy


def test_an_agent_that_finds_a_program_at_work_looks_as_usual(lab: Objects) -> None:
    watch = BucketWatch(config_of(storage=lab.url))
    looked(watch, 1000.0)
    watch.look(1050.0, running=True)
    assert not watch._helper.is_busy


def test_after_the_programs_end_one_look_is_the_last(lab: Objects) -> None:
    watch = BucketWatch(config_of(storage=lab.url))
    looked(watch, 1000.0, running=True)
    lab.step("digits/100", AT)
    looked(watch, 2000.0, running=False)
    assert watch.found["saved"] == int(AT) * 10**9
    watch.look(9000.0, running=False)
    assert not watch._helper.is_busy


def test_a_program_that_ends_between_two_looks_has_its_last_look_too(lab: Objects) -> None:
    watch = BucketWatch(config_of(storage=lab.url))
    looked(watch, 1000.0, running=False)
    # It runs and ends before the next look is due.
    watch.look(1001.0, running=True)
    lab.step("digits/100", AT)
    watch.look(1002.0, running=False)
    assert watch.found["saved"] == 0
    looked(watch, 2000.0, running=False)
    assert watch.found["saved"] == int(AT) * 10**9
    watch.look(9000.0, running=False)
    assert not watch._helper.is_busy


def test_a_slow_bucket_delays_nothing(lab: Objects) -> None:
    lab.delay = 2.0
    watch = BucketWatch(config_of(storage=lab.url))
    begun = time.monotonic()
    for now in range(50):
        watch.look(1000.0 + now, running=True)
    assert time.monotonic() - begun < 1.0
    assert watch._helper._thread is not None
    watch._helper._thread.join(30)


def test_a_refusal_is_said_keeps_what_was_known_and_is_asked_less(lab: Objects) -> None:
    lab.step("digits/100", AT)
    watch = BucketWatch(config_of(storage=lab.url))
    looked(watch, 1000.0)
    lab.refusal = (403, "no")
    pauses = []
    for number in range(1, 4):
        looked(watch, 1000.0 * (number + 1))
        pauses.append((watch.shown() or {})["every_seconds"])
    assert "roles/storage.objectViewer" in watch.error
    assert watch.found["saved"] == int(AT) * 10**9
    assert pauses == [120, 240, 480]
    lab.refusal = None
    looked(watch, 9000.0)
    assert watch.error == ""


def test_silence_lasts_until_the_last_look(lab: Objects) -> None:
    watch = BucketWatch(config_of(storage=lab.url))
    assert watch.quiet(1050.0, 100.0) == 100.0  # nothing is known of the bucket
    looked(watch, 1000.0)
    assert watch.quiet(1050.0, 100.0) == 50.0
    assert watch.quiet(1050.0, 10.0) == 0.0
    # It stopped answering: what the log shows counts again.
    assert watch.quiet(9000.0, 500.0) == 500.0


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"worker": 1}, ""),  # one worker looks for all
        ({"checkpoint_dir": "/mnt/ckpt"}, ""),
        ({"checkpoint_dir": ""}, ""),
        ({"checkpoint_dir": "gs://Bad_/x"}, "gs://Bad_/x is no bucket: write gs://BUCKET/FOLDER"),
    ],
)
def test_who_does_not_look(more: dict[str, Any], error: str) -> None:
    watch = BucketWatch(replace(config_of(), **more))
    watch.look(1000.0, running=True)
    assert (watch._helper.is_busy, watch.shown(), watch.error) == (False, None, error)
    assert watch.seconds == 0.0


@pytest.mark.parametrize(
    "answer",
    [
        {}, {"saved": "x", "steps": 5, "known": [], "checkpoint": 7, "lists": "many"},
        {"saved": True, "lists": -5, "gets": 10**30, "error": ["\x1b[31m"] * 10**4},
        {"known": {str(n): [1.0, 2] for n in range(10**4)}, "note": "x" * 10**6},
        {"checkpoint": {"name": "\x1b" * 10**4, "step": -1, "bytes": 10**40}},
    ],
)  # fmt: skip
def test_what_a_users_process_says_is_bounded(answer: dict[str, Any]) -> None:
    found = typed(answer)
    assert found["saved"] is None
    assert 0 <= found["lists"] <= 1000
    assert 0 <= found["gets"] <= 1000
    assert len(json.dumps(found)) < 5000
    assert "\x1b" not in found["error"] + str((found["checkpoint"] or {}).get("name"))


@pytest.mark.parametrize("words", [["echo", "[]"], ["false"], ["/no/such/program"]])
def test_a_helper_that_fails(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed, "command", lambda *_words: words)
    watch = BucketWatch(config_of(storage="http://127.0.0.1:9"))
    looked(watch, 1000.0)
    assert watch.error
    assert watch.found == {}


def test_the_pause_follows_the_declared_price() -> None:
    watch = BucketWatch(config_of(timing=Timing(lost=30, bucket=0.1, bucket_dollars=1e6)))
    watch._take(5.0, {"lists": 1000, "gets": 1000})
    assert watch.seconds == pytest.approx(0.1 + bucket_watch._SECONDS)
