"""How the run of a slice ends, and when that may be written."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from queue_agent.decide import duty as duties
from queue_agent.decide.duty import Duty, Ending, Facts, ending_of, is_still
from queue_agent.decide.messages import HOLD, INSTALLED, RUN, STARTED, STOP, Report

DUTY = Duty("one", "a" * 64, 3, "alice", grace=30.0, max_hours=2, attempt=4)
FACTS = Facts(status={"state": "running", "program": "running"}, reports={}, workers=2)


@pytest.mark.parametrize(
    ("facts", "state", "reason"),
    [
        ({"status": {"state": "succeeded"}}, "done", ""),
        ({"status": {"state": "failed", "reason": "exit 3", "exit_code": 3}}, "failed", "exit 3"),
        ({"status": {"state": "failed", "reason": "a", "last_words": "b"}}, "failed", "a: b"),
        ({"wish": "stopped by bob"}, "stopped", "stopped by bob"),
        ({"stopped_by": "carol"}, "stopped", "stopped by carol"),
        ({"hours": 2.0}, "failed", "it ran for 2 h, which is its max_hours"),
        ({"leaving": "pair was preempted"}, "", "pair was preempted"),
        ({"reports": {1: Report(1, problem="no user", final=True)}}, "failed", "no user"),
        ({"reports": {1: Report(1, problem="no answer")}, "hindered": 121.0}, "", "worker 1: no"),
    ],
)
def test_the_ends_of_a_run(facts: dict[str, Any], state: str, reason: str) -> None:
    ending = ending_of(DUTY, replace(FACTS, **facts))
    assert ending is not None
    assert (ending.state, ending.reason[: len(reason)]) == (state, reason)
    assert ending.is_over == ("status" in facts)


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"hours": 1.9},
        {"status": {}},
        {"status": {"state": "stopped"}},  # by hand, or by a shutdown: it is still this slice's
        {"reports": {1: Report(1, problem="no answer")}, "hindered": 60.0},
    ],
)
def test_a_run_goes_on(facts: dict[str, Any]) -> None:
    assert ending_of(DUTY, replace(FACTS, **facts)) is None


def test_what_was_done_counts_before_the_wish_to_stop() -> None:
    facts = replace(
        FACTS, status={"state": "succeeded"}, wish="stopped by bob", leaving="preempted"
    )
    ending = ending_of(DUTY, facts)
    assert ending is not None
    assert ending.outcome(7, 2).state == "done"
    assert ending.outcome(7, 2).attempt == 7


def test_an_end_is_written_once_no_program_is_alive() -> None:
    ends = replace(DUTY, ending=Ending("stopped"))
    still = replace(FACTS, status={"program": "exited"})
    other = Report(1, "one", 3, STARTED)
    assert not is_still(ends, FACTS, 0.0)
    assert not is_still(ends, replace(still, reports={1: other}), 0.0)
    assert is_still(ends, replace(still, reports={1: replace(other, state=INSTALLED)}), 0.0)
    assert is_still(ends, replace(still, reports={1: replace(other, claim=2)}), 0.0)
    # A program that cannot be ended, such as one that waits for a disk, is not waited for for ever.
    assert not is_still(ends, FACTS, 89.0)
    assert is_still(ends, FACTS, 91.0)
    assert is_still(replace(DUTY, ending=Ending("done", is_over=True)), FACTS, 0.0)


def test_the_order_of_a_duty() -> None:
    assert DUTY.order(is_sure=False, may_run=True).phase == HOLD
    assert DUTY.order(is_sure=True, may_run=True).phase == RUN
    assert DUTY.order(is_sure=True, may_run=False).phase == STOP
    assert replace(DUTY, ending=Ending("done")).order(True, True).phase == STOP


def test_a_duty_outlives_a_restart() -> None:
    kept = replace(DUTY, ending=Ending("failed", "why", 3))
    assert Duty.from_json(json.loads(json.dumps(kept.to_json()))) == kept
    assert Duty.from_json({**DUTY.to_json(), "of another version": 1, "serial": 2}) == DUTY
    assert Duty.from_json({}) is None


def test_the_last_attempt_that_was_seen() -> None:
    assert duties.seen(DUTY, replace(FACTS, status={"attempt": 9})).attempt == 9
    assert duties.seen(DUTY, replace(FACTS, status={"attempt": 1})).attempt == 4
    assert duties.seen(DUTY, replace(FACTS, status={"attempt": True})).attempt == 4


def test_failures_of_other_slices_go_to_the_workers_and_those_here_to_the_bucket() -> None:
    duty = replace(DUTY, failures_before=1, failures=1)
    assert duty.order(True, True).failures == 1
    seen = duties.seen(duty, replace(FACTS, status={"attempt": 6, "failures": 2}))
    assert (seen.attempt, seen.failures, seen.order(True, True).failures) == (6, 2, 1)
    # Of a status that does not say it nothing is taken.
    for odd in (None, True, -1, "3"):
        assert duties.seen(duty, replace(FACTS, status={"failures": odd})).failures == 1
    assert Duty.from_json(json.loads(json.dumps(seen.to_json()))) == seen
