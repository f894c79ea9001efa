"""The steps of a run's state, and by what an owner is judged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import claims, objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import PAUSE, TRIES
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node, Outcome

OWNER = objects.Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")
WAITS = objects.Submitted("lr", "0" * 64, "alice", 0, 1.0, 1.0, nonce="0" * 32)
NONCE = "1" * 32
RUNS = claims.claimed(WAITS, OWNER, NONCE, 2.0)
DONE = claims.finished(RUNS, Outcome(objects.DONE), NONCE, 3.0)
FAILED = claims.finished(RUNS, Outcome(objects.FAILED, "exit 1", 1, 2, 4), NONCE, 3.0)
STOPPED = claims.stopped(WAITS, "bob", NONCE, 3.0)
STEPS: dict[str, Any] = {
    "claimed": lambda run: claims.claimed(run, OWNER, NONCE, 9.0),
    "adopted": lambda run: claims.adopted(run, replace(OWNER, boot="b-2"), NONCE, 9.0),
    "given_back": lambda run: claims.given_back(run, "preempted", NONCE, 9.0),
    "finished": lambda run: claims.finished(run, Outcome(objects.DONE), NONCE, 9.0),
    "stopped": lambda run: claims.stopped(run, "bob", NONCE, 9.0),
    "retried": lambda run: claims.retried(run, "bob", 5, NONCE, 9.0),
    "submitted_again": lambda run: claims.submitted_again(run, WAITS),
}
POSSIBLE = {
    "waiting": {"claimed", "stopped"},
    "running": {"adopted", "given_back", "finished"},
    "done": {"submitted_again"},
    "failed": {"retried", "submitted_again"},
    "stopped": {"retried", "submitted_again"},
}


@pytest.mark.parametrize("run", [WAITS, RUNS, DONE, FAILED, STOPPED], ids=lambda run: run.state)
def test_only_some_steps_are_possible_and_each_is_a_state_that_can_be_written(run: Any) -> None:
    after = {name: step(run) for name, step in STEPS.items()}
    assert {name for name, found in after.items() if found} == POSSIBLE[run.state]
    for found in filter(None, after.values()):
        assert objects.run_of(objects.run_text(found).encode()) == found


def test_a_retry_begins_a_round_and_goes_on_with_attempts() -> None:
    again = claims.retried(FAILED, "bob", 5, NONCE, 9.0)
    assert (again.round, again.failures, again.attempt, again.turn) == (2, 0, 2, 5)


def test_what_is_given_back_keeps_its_turn_and_its_failures() -> None:
    back = claims.given_back(replace(RUNS, turn=4, failures=1), "preempted", NONCE, 9.0)
    assert (back.turn, back.failures, back.claims, back.owner) == (4, 1, 1, None)


@pytest.mark.parametrize(
    ("node", "gone"),
    [
        (Node("READY", "n-1"), False),
        (Node("READY", ""), False),
        (Node("CREATING", "n-1"), False),
        (Node("PREEMPTED", "n-1"), True),
        (Node("STOPPED", ""), True),
        (Node("READY", "n-2"), True),
        (Node("", ""), True),
    ],
)
def test_what_the_api_has_is_evidence(node: Node, gone: bool) -> None:
    assert bool(claims.gone_by_api(OWNER, node)) == gone


def test_a_lease_counts_from_when_it_was_asked_for() -> None:
    lease = claims.Lease(100.0, take_after=600.0)
    lease.renewed(150.0)
    lease.renewed(140.0)
    assert lease.left(150.0 + claims.OWN - 1) == 1.0
    assert lease.left(150.0 + claims.OWN + 1) == 0.0
    assert claims.Lease(100.0, take_after=None).left(1e9) > 0


def test_silence_counts_from_an_answer_to_a_question() -> None:
    silence = claims.Silence()
    assert silence.of("lr", 5, 1, sent=10.0, got=40.0) == 0.0
    assert silence.of("lr", 5, 1, sent=100.0, got=500.0) == 60.0
    assert silence.of("lr", 5, 2, sent=510.0, got=511.0) == 0.0
    assert silence.of("lr", 5, 2, sent=521.0, got=522.0) == 10.0
    silence.keep(set())
    assert silence.of("lr", 5, 2, sent=600.0, got=601.0) == 0.0


def test_an_owner_has_ended_before_others_take_its_run() -> None:
    """By time alone: requests without an answer, the grace, what systemd kills, and two minutes."""
    waits = TRIES * 20.0 + PAUSE * 1.5 * (2**TRIES - 1)
    assert claims.OWN + waits + objects.MOST_GRACE + 90.0 + 120.0 <= claims.LOST
    assert claims.silent(OWNER, claims.LOST, 60.0)
    assert not claims.silent(OWNER, claims.LOST - 1, 60.0)
    assert not claims.silent(OWNER, 1e9, None)
