"""What queue agents send each other is read into typed values, or refused."""

from __future__ import annotations

import json

import pytest
from queue_agent.decide.messages import BUILDING, INSTALLED, RUN, Order, Report
from queue_agent.talk.words import QUEUE
from run_agent.talk.messages import Refused, write

ORDER = Order(RUN, "one", "a" * 64, 3, 2, "jax")
REPORT = Report(
    *(1, "one", 3, INSTALLED, "no user", True, "one", 3, "held"), "jax", BUILDING, "no index"
)


def test_both_are_read_as_they_were_written() -> None:
    assert QUEUE.read_order(write(ORDER)) == ORDER
    assert QUEUE.read_report(write(REPORT)) == REPORT
    assert QUEUE.refuse(REPORT) == ""


def test_a_problem_counts_for_the_run_that_it_is_about() -> None:
    assert REPORT.about("one", 3) == REPORT
    for run, claim in (("one", 4), ("two", 3)):
        other = REPORT.about(run, claim)
        assert (other.problem, other.final, other.busy) == ("", False, "held")


@pytest.mark.parametrize(
    "wrong",
    [
        {"phase": "burn"}, {"definition": "../../etc"}, {"definition": "a" * 63}, {"claim": -1},
        {"claim": True}, {"run": "a\n"}, {"run": 7}, {"run": "a" * 101}, {"venv": 1},
    ],
)  # fmt: skip
def test_an_odd_order_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Refused):
        QUEUE.read_order(json.dumps({**json.loads(write(ORDER)), **wrong}).encode())


@pytest.mark.parametrize(
    "wrong", [{"worker": "1"}, {"state": "up"}, {"final": 1}, {"problem": "x" * 501}, {"build": 1}]
)
def test_an_odd_report_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(Refused):
        QUEUE.read_report(json.dumps({**json.loads(write(REPORT)), **wrong}).encode())
