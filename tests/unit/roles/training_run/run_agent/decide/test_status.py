"""What a worker remembers of its program and shows."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import worker_words
from run_agent.decide import config, program_words, status
from run_agent.decide.member import Order
from run_definition import PUBLIC

STARTED = status.begun(status.Memory(), Order("running", 2, "def", "id"), boot_id="here", now=100.0)


RECORD = {"attempt": 2, "pid": 12, "parent": 11, "parent_started": 555}


@pytest.mark.parametrize(
    ("record", "result", "boot", "age", "alive", "code", "cause"),
    [
        (None, None, "here", 1, True, None, ""),  # tmux has not come to it yet
        # Its parent never came, as where the machine stood still.
        (None, None, "here", 99, False, None, "could not be started"),
        (None, None, "after", 1, False, None, "rebooted"),
        (RECORD, None, "here", 99, True, None, ""),
        (
            {**RECORD, "parent_started": 5},
            None,
            "here",
            99,
            False,
            None,
            "",
        ),  # the pid is another's
        ({**RECORD, "parent": "x"}, None, "here", 99, False, None, ""),
        ({**RECORD, "attempt": 1}, None, "here", 99, False, None, "could not be started"),
        (RECORD, {"attempt": 2, "exit_code": 3}, "here", 99, False, 3, ""),
        (RECORD, {"attempt": 1, "exit_code": 3}, "here", 99, True, None, ""),
        (RECORD, {"attempt": 2, "exit_code": "3"}, "here", 99, False, None, ""),
        (RECORD, {"attempt": 2, "adrift": True}, "here", 99, False, None, "lost its terminal"),
    ],
)
def test_what_became_of_a_program(
    record: Any, result: Any, boot: str, age: float, alive: bool, code: int | None, cause: str
) -> None:
    seen = status.look(STARTED, record, result, boot, {11: 555}.get, age)
    assert (seen.alive, seen.memory.exit_code, seen.memory.cause) == (alive, code, cause)


def test_a_program_without_a_terminal_is_seen_while_it_lives() -> None:
    seen = status.look(STARTED, {**RECORD, "adrift": True}, None, "here", {11: 555}.get, 99)
    assert (seen.alive, seen.adrift) == (True, True)
    assert not status.look(STARTED, RECORD, None, "here", {11: 555}.get, 99).adrift


EXTREME = [
    -1, -5, 0, True, 2**22 + 1, 2**31, -(2**31), 2**53 + 1, 10**30, 1e308, -1e308, float("nan"),
    float("inf"), "x", "\ud800", "x" * 10**5, [], [[]], {}, None,
]  # fmt: skip

SEEN: dict[str, Any] = {"reason": "", "problems": [], "agent_pid": 7, "log_dropped_bytes": 0}


@pytest.mark.parametrize("value", EXTREME, ids=range(len(EXTREME)))
def test_whatever_a_user_writes_the_controller_accepts_the_status(value: Any) -> None:
    """The agent bounds what it takes from files of the run's user."""
    record = {**RECORD, "pid": value}
    seen = status.look(STARTED, record, None, "here", {11: 555}.get, 99)
    assert seen.memory.pid is None
    record = {**RECORD, "parent": value}
    assert status.look(STARTED, record, None, "here", {11: 555}.get, 99).memory.parent is None
    result = dict.fromkeys(("exit_code", "signal", "end", "adrift", "fenced"), value)
    seen = status.look(STARTED, RECORD, {"attempt": 2, **result}, "here", {11: 555}.get, 99)
    keys = ("step", "loss", "numbers", *program_words.FIGURES)
    written = json.dumps(dict.fromkeys(keys, value)).encode()
    memory = replace(
        status.reached(seen.memory, program_words.said(written), 200.0),
        loss=program_words.said_loss(written),
        saved_at=program_words.saved_at(value),
        tokens_per_second=program_words.said_figure(written, "tokens_per_second"),
        mfu=program_words.said_figure(written, "mfu"),
    )
    composed = status.compose(config.parse(PUBLIC, {}), memory, **SEEN)
    (run,) = worker_words.runs_of("w", json.dumps([json.loads(json.dumps(composed))]))
    assert run.state != worker_words.REFUSED, run.reason


def test_the_end_is_remembered_for_this_definition_only() -> None:
    memory = status.remember(STARTED, Order("succeeded", 2, "def", "id"), "def")
    assert memory.ended == "succeeded"
    shown = status.compose(config.parse(PUBLIC, {}), memory, **SEEN)
    definition = shown["definition"]
    assert status.Memory.from_json(shown, definition) == memory
    assert status.Memory.from_json(shown, "another").ended == ""


def test_a_run_of_the_same_definition_keeps_its_code() -> None:
    told = {"definition": "d", "workdir": "/code/.releases/one", "attempt": 2}
    assert status.Memory.from_json(told, "d").workdir == "/code/.releases/one"
    assert status.Memory.from_json(told, "another").workdir == ""


def test_where_an_attempt_went_on_is_remembered() -> None:
    memory = status.reached(status.Memory(attempt=1, start=100.0), 9, 150.0, 7)
    memory = status.reached(memory, 12, 160.0, 7)
    assert (memory.first_step, memory.first_step_at, memory.step) == (7, 150.0, 12)
    past = status.ended(memory, "", 170.0).history[-1]
    assert (past["first_step"], past["step"]) == (7, 12)
    order = Order("running", 2, "d", "r")
    begun = status.begun(memory, order, "boot", 180.0)
    assert (begun.first_step, begun.first_step_at, begun.step) == (None, None, 12)


def test_a_step_belongs_to_its_attempt() -> None:
    memory = status.reached(status.Memory(start=100.0), 7, 150.0)
    assert status.step_of_attempt(memory) == 7
    assert status.reached(memory, 7, 160.0) == memory
    assert status.step_of_attempt(replace(memory, start=200.0)) is None
    # An attempt that goes on where the one before was: its step is its own all the same.
    again = replace(memory, start=200.0, first_step=None)
    assert status.step_of_attempt(status.reached(again, 7, 210.0)) == 7
    running = status.in_state(memory, "running", 300.0)
    assert status.in_state(running, "running", 400.0).since == 300.0


def test_another_definition_may_have_another_checkpoint_folder() -> None:
    kept = {"definition": "a", "saved_at": 5.0, "step": 3}
    assert status.Memory.from_json(kept, "a").saved_at == 5.0
    assert status.Memory.from_json(kept, "b").saved_at is None
