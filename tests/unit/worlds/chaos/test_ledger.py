"""What the checker says of what the processes wrote down."""

from __future__ import annotations

import json
from dataclasses import replace

from chaos import ledger
from chaos.ledger import Life


def life(
    attempt: int, first: int, last: int, begun: float, worker: int = 0, error: float = 0.0
) -> Life:
    """Make a process that did a step a second."""
    steps = tuple((step, begun + 1 + step - first) for step in range(first, last + 1))
    return Life(attempt, worker, begun, begun + 2 + last - first, error, steps)


GOOD = [life(1, 1, 30, 100), life(2, 21, 50, 140), life(3, 41, 60, 180)]


def test_a_run_that_is_as_it_should_be() -> None:
    assert not any(ledger.judge(GOOD, 20, 2, 1).values())
    assert ledger.lost(GOOD) == {1: 0, 2: 10, 3: 10}
    assert ledger.pace(GOOD) == 1.0
    assert ledger.reached(GOOD, 150) == 30


def test_goodput_is_of_the_steps_that_count() -> None:
    # From 110 to 170 there could have been 60 steps: it was at the 10th, and came to the 50th.
    assert ledger.goodput(GOOD, 110, 170, 1.0) == 40 / 60


def test_attempts_that_live_at_once_are_found() -> None:
    late = [life(1, 1, 30, 100), life(2, 21, 50, 130)]
    (said,) = ledger.overlaps(late)
    assert "lived together for 1.00 s" in said
    # Of what is that near, nobody can tell.
    assert not ledger.overlaps([life(1, 1, 30, 100, error=0.6), life(2, 21, 50, 130, error=0.6)])


def test_the_workers_of_an_attempt_live_at_once_and_its_doubles_do_not() -> None:
    assert not ledger.overlaps([life(1, 1, 9, 100, worker=w) for w in range(4)])
    assert ledger.overlaps([life(1, 1, 9, 100), life(1, 1, 9, 105)])


def test_more_than_a_checkpoint_lost_is_found() -> None:
    (said,) = ledger.judge([life(1, 1, 30, 100), life(2, 1, 5, 140)], 20, 1, 1)[
        "more lost than a checkpoint"
    ][:1]
    assert "30 steps again" in said


def test_only_workers_that_wait_for_a_save_are_one_step_further() -> None:
    def broken(steps: int, workers: int) -> bool:
        lives = [life(1, 1, steps, 100), life(2, 1, 5, 140)]
        return bool(ledger.judge(lives, 20, 2, workers)["more lost than a checkpoint"])

    assert not broken(20, 1)
    assert broken(21, 1)
    assert not broken(21, 4)
    assert broken(22, 4)


def test_many_small_losses_for_few_faults_are_found() -> None:
    lives = [life(n, 1, 20, 100.0 * n) for n in range(1, 5)]
    assert ledger.judge(lives, 20, 3, 1)["more lost than a checkpoint"] == []
    assert ledger.judge(lives, 20, 2, 1)["more lost than a checkpoint"]


def test_steps_that_nobody_did_are_found() -> None:
    assert ledger.gaps([life(1, 1, 30, 100), life(2, 41, 50, 140)])


def test_a_whole_step_that_is_lost_is_found() -> None:
    def judged(saved: int, first: int) -> list[str]:
        lives = [replace(life(1, 1, 30, 100), saved=(10, saved)), life(2, first, 50, 140)]
        return list(ledger.judge(lives, 20, 1, 1)["whole steps that were lost"])

    assert judged(20, 21) == []
    # It was whole, and its process ended before it knew.
    assert judged(20, 31) == []
    (said,) = judged(20, 20)
    assert said == "attempt 2 begins at step 20, and 20 was saved"
    assert judged(20, 1)


def test_half_a_line_is_passed_over() -> None:
    lines = [
        {"attempt": 2, "worker": 1, "error": 0.01, "t": 10.0},
        {"step": 7, "t": 11.0},
        {"alive": True, "t": 12.0},
        {"saved": 7, "t": 12.0},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"step": 8, "t'
    assert ledger.read([text, "", "\0\0"]) == [Life(2, 1, 10.0, 12.0, 0.01, ((7, 11.0),), (7,))]
