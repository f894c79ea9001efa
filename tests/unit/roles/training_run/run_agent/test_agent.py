"""When the agent looks again: soon while its gang goes on, at once after a signal."""

from __future__ import annotations

import os
import subprocess
import time
from types import SimpleNamespace
from typing import Any

import pytest
from run_agent.act.processes import End
from run_agent.agent import _FIRST_FOR, _SEEN, _SOON, _SOON_FOR, _SOON_TIMES, Agent
from run_agent.decide.gang_state import GATHERING, STOPPING
from run_agent.decide.run_states import FAILED, RUNNING

TICK = 1.0


def agent(phase: str | None, definition: str, gone_on: float, begins: bool = False) -> Any:
    order = SimpleNamespace(phase=phase, definition=definition) if phase else None
    return SimpleNamespace(
        config=SimpleNamespace(
            timing=SimpleNamespace(tick=TICK), definition="own", grace_seconds=30.0
        ),
        signalled=None,
        parents_end=SimpleNamespace(of=lambda parent: [parent] if parent else []),
        order=order,
        gone_on=time.monotonic() - gone_on,
        memory=SimpleNamespace(program="running", parent=None if begins else 2),
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


def test_it_looks_soon_until_it_has_seen_the_program() -> None:
    assert Agent._pause(agent(RUNNING, "own", 0.0, begins=True), False, 0.0) == _SEEN
    assert Agent._pause(agent(RUNNING, "own", _SOON_FOR, begins=True), False, 0.0) == TICK


def test_while_its_program_ends_it_waits_for_that() -> None:
    one = agent(STOPPING, "own", 0.0)
    one.signalled = time.monotonic()
    assert Agent._pause(one, True, 0.0) == TICK
    one.config.grace_seconds = 0.5
    assert 0.4 < Agent._pause(one, False, 0.0) <= 0.5
    one.signalled -= 1.0
    assert Agent._pause(one, False, 0.0) == _SOON
    one.memory.parent = None  # or the kernel gives no handle of it
    assert Agent._pause(one, False, 0.0) == _SOON


def test_a_busy_worker_looks_less_often() -> None:
    pause = Agent._pause(agent(GATHERING, "own", 2 * _FIRST_FOR), False, 0.1)
    assert pause == pytest.approx(_SOON_TIMES * 0.1)
    assert Agent._pause(agent(GATHERING, "own", 0.0), False, 0.1) == pytest.approx(0.1)
    assert Agent._pause(agent(GATHERING, "own", 0.0), False, 10.0) == TICK


def test_news_is_looked_at_once_more_and_begins_the_time_anew() -> None:
    one = agent(RUNNING, "own", _SOON_FOR)
    before = one.gone_on
    assert Agent._pause(one, True, 0.0) == _SOON
    assert one.gone_on > before


def waiting(reading: int, parent: int | None) -> Any:
    return SimpleNamespace(_woken=reading, parents_end=End(), memory=SimpleNamespace(parent=parent))


def test_a_signal_ends_the_wait() -> None:
    reading, writing = os.pipe()
    try:
        os.write(writing, b"\x01")
        # Would take an hour.
        Agent._wait(waiting(reading, None), 3600.0)
        os.set_blocking(reading, False)
        with pytest.raises(BlockingIOError):
            os.read(reading, 1)
    finally:
        os.close(reading)
        os.close(writing)


def test_the_end_of_the_program_ends_the_wait_once() -> None:
    reading, writing = os.pipe()
    try:
        with subprocess.Popen(["/bin/true"]) as child:
            one = waiting(reading, child.pid)
            Agent._wait(one, 3600.0)
            begun = time.monotonic()
            Agent._wait(one, 0.05)
            assert time.monotonic() - begun >= 0.05
        # There is no such process any more.
        Agent._wait(waiting(reading, child.pid), 0.01)
    finally:
        os.close(reading)
        os.close(writing)
