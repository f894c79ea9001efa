"""When the agent looks again: soon while its gang goes on, at once after a signal."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from run_agent.agent import _SOON, _SOON_FOR, _SOON_TIMES, Agent
from run_agent.decide.gang_state import GATHERING, STOPPING
from run_agent.decide.run_states import FAILED, RUNNING

TICK = 1.0


def agent(phase: str | None, definition: str, gone_on: float) -> Any:
    order = SimpleNamespace(phase=phase, definition=definition) if phase else None
    return SimpleNamespace(
        config=SimpleNamespace(timing=SimpleNamespace(tick=TICK), definition="own"),
        order=order,
        gone_on=time.monotonic() - gone_on,
    )


@pytest.mark.parametrize(
    ("phase", "definition", "gone_on", "seconds"),
    [
        (GATHERING, "own", 0.0, _SOON),
        (STOPPING, "own", 0.0, _SOON),
        # The leader has not answered yet, or has another definition.
        (None, "own", 0.0, _SOON),
        (RUNNING, "another", 0.0, _SOON),
        (RUNNING, "own", 0.0, TICK),
        (FAILED, "own", 0.0, TICK),
        # What takes long is looked at as always.
        (GATHERING, "own", _SOON_FOR, TICK),
        (None, "own", _SOON_FOR, TICK),
    ],
)
def test_it_looks_soon_while_its_gang_goes_on(
    phase: str | None, definition: str, gone_on: float, seconds: float
) -> None:
    assert Agent._pause(agent(phase, definition, gone_on), False, 0.0) == seconds


def test_a_busy_worker_looks_less_often() -> None:
    pause = Agent._pause(agent(GATHERING, "own", 0.0), False, 0.1)
    assert pause == pytest.approx(_SOON_TIMES * 0.1)
    assert Agent._pause(agent(GATHERING, "own", 0.0), False, 10.0) == TICK


def test_news_is_looked_at_once_more_and_begins_the_time_anew() -> None:
    one = agent(RUNNING, "own", _SOON_FOR)
    before = one.gone_on
    assert Agent._pause(one, True, 0.0) == _SOON
    assert one.gone_on > before


def test_a_signal_ends_the_wait() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"\x01")
        # Would take an hour.
        Agent._wait(SimpleNamespace(_woken=reading), 3600.0)  # type: ignore[arg-type]
        os.set_blocking(reading, False)
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
    finally:
        os.close(reading)
        os.close(writing)
