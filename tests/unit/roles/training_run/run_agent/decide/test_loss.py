"""When a loss is in trouble, since which step, and which checkpoint is from before."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import run_status
from run_agent.decide.loss import LEAST, STEPS, Watch, judged, news, with_checkpoint
from run_agent.decide.run_states import loss_said

NAN = {"step": 124, "at": 1000.0, "what": "nan"}


def watched(losses: Iterable[tuple[int, Any]], watch: Watch | None = None) -> Watch:
    watch = watch or Watch()
    for step, loss in losses:
        watch = judged(watch, loss, step, 876.0 + step)
        # It outlives the agent.
        watch = Watch.from_json(json.loads(json.dumps(watch.to_json())))
    return watch


def falling(until: int) -> list[tuple[int, float]]:
    return [(step, 10 * math.exp(-step / 50) + 2) for step in range(0, until, 4)]


def test_a_loss_that_is_no_number_is_trouble_since_its_first_step() -> None:
    watch = watched([*falling(121), (124, "nan"), (128, "nan"), (300, "inf")])
    assert watch.trouble == {**NAN, "what": "inf"}
    assert watch.good_step == 120


def test_a_loss_that_is_a_number_again_is_no_trouble() -> None:
    watch = watched([*falling(121), (124, "nan")])
    # From its last checkpoint on, in another attempt.
    assert watched([(101, 3.0)], watch).trouble is None
    # At the same step it may be the same look.
    assert watched([(124, 3.0)], watch).trouble == NAN


def test_a_loss_that_stays_far_above_its_best_has_exploded() -> None:
    up = [(step, 9.0) for step in range(400, 400 + STEPS, 4)]
    watch = watched([*falling(400), *up])
    assert watch.trouble is None
    watch = watched([(400 + STEPS, 9.0)], watch)
    assert watch.trouble is not None
    assert (watch.trouble["what"], watch.trouble["step"]) == ("exploded", 400)
    assert loss_said(watch.trouble).startswith(
        "loss is more than 3 times its best value, 2.004, since step 400"
    )


@pytest.mark.parametrize(
    "losses",
    [
        # One good step between.
        [*falling(400), *((step, 9.0 if step % 100 else 2.1) for step in range(400, 900, 4))],
        # What a model that fits its data does.
        [(0, 2.3), (1, 1e-7), *((step, 3e-6) for step in range(2, 900))],
        [(0, LEAST / 2), (1, 1e-7), *((step, LEAST * 0.9) for step in range(2, 900))],
        # Less than a tenth of the way back.
        [(0, 100.0), (1, 1.0), *((step, 9.0) for step in range(2, 900))],
        # Below zero there is no ratio.
        [(0, -1.0), *((step, 5.0) for step in range(1, 900))],
        # An attempt that begins anew before the step at which the loss rose.
        [*falling(400), *((s, 9.0) for s in range(400, 490)), *((s, 9.0) for s in range(300, 390))],
    ],
)
def test_a_loss_that_varies_has_not_exploded(losses: list[tuple[int, float]]) -> None:
    assert watched(losses).trouble is None


@pytest.mark.parametrize(
    ("steps", "saved_at", "said"),
    [
        ([(100, 950.0), (50, 900.0)], 950.0, "last checkpoint before it: step 100"),
        # Written since: it has what is no number.
        ([(100, 950.0), (150, 1030.0)], 1030.0, "last checkpoint before it: step 100"),
        ([(122, 999.0)], 999.0, "no checkpoint from before it is known"),
        ([], 986.0, "last checkpoint before it: 14 s earlier"),
        ([], 1030.0, "no checkpoint from before it is known"),
        ([], None, "no checkpoint from before it is known"),
    ],
)
def test_the_last_checkpoint_before_the_trouble(
    steps: list[tuple[int, float]], saved_at: float | None, said: str
) -> None:
    watch = with_checkpoint(watched([(120, 2.0), (124, "nan")]), steps, saved_at)
    assert watch.trouble
    assert loss_said(watch.trouble) == f"loss is NaN since step 124; {said}"
    # A later look that no longer finds it changes nothing.
    later = with_checkpoint(watch, [(900, 5000.0)] if steps else [], 5000.0)
    assert later.trouble == watch.trouble


def test_what_the_agent_writes_is_what_is_read() -> None:
    watch = with_checkpoint(watched([(120, 2.0), (124, "nan")]), [(100, 950.0)], 950.0)
    status = run_status(Words("w", {"run": "digits", "loss_trouble": watch.trouble}))
    assert status.loss_trouble == watch.trouble
    for spoilt in (5, [], {}, {"what": "x" * 99}, {**NAN, "step": "1"}, {**NAN, "at": -1}):
        assert run_status(Words("w", {"run": "a", "loss_trouble": spoilt})).loss_trouble is None


def test_the_event_log_has_the_begin_and_the_end_once() -> None:
    watch = with_checkpoint(watched([(120, 2.0), (124, "nan")]), [(100, 950.0)], 950.0)
    event = {
        "event": "loss-trouble",
        "step": 124,
        "what": "loss is NaN since step 124; last checkpoint before it: step 100",
    }
    assert news(None, watch, is_complete=True) == event
    assert news(None, watch, is_complete=False) is None
    assert news(watch.trouble, watch, is_complete=True) is None
    well = watched([(101, 2.0)], watch)
    assert news(watch.trouble, well, is_complete=True) == {"event": "loss-good", "step": 101}
    assert news(None, well, is_complete=True) is None
