"""Which runs an apply starts, restarts or stops, and what it says about them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_definition import NOT_DEFINITION
from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run.changes import (
    Change,
    change_of,
    gone,
)

BEFORE = {
    "run": "lr3",
    "command": "python train.py",
    "code": {"tree": "toy", "version": "aaa"},
    "checkpoint_dir": "/data/lr3",
    "coordinator_port": 2001,
}
RUNS = {"state": "running", "step": 21920, "saved_at": 1.0}


def change(
    after: dict[str, Any],
    status: dict[str, Any] | None = None,
    enabled: bool = True,
    env: bool = False,
) -> Change | None:
    return change_of(
        "lr3", enabled, BEFORE, {**BEFORE, **after}, env, RUNS if status is None else status
    )


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ({"code": {"tree": "toy", "version": "bbb"}}, ("code",)),
        ({"code": {"tree": "other", "version": "aaa"}}, ("code",)),
        ({"venv": "/opt/venvs/b"}, ("venv",)),
        ({"coordinator_port": 2003}, ("port",)),
        ({"command": "python other.py", "user": "bob"}, ("command", "user")),
    ],
)
def test_a_run_restarts_because_of_each_key(after: dict[str, Any], why: tuple[str, ...]) -> None:
    found = change(after)
    assert found
    assert (found.does, found.why) == ("restarted", why)


@pytest.mark.parametrize("key", NOT_DEFINITION)
def test_what_concerns_the_agent_alone_restarts_nothing(key: str) -> None:
    assert change({key: "another"}) is None


def test_the_environment_is_named_without_a_value() -> None:
    found = change({}, env=True)
    assert found
    assert (found.does, found.why) == ("restarted", ("env",))


@pytest.mark.parametrize(
    ("enabled", "status", "after", "found"),
    [
        (True, {"state": "failed"}, {}, None),
        (True, {"state": "stopped"}, {}, Change("lr3", "started", ("it was stopped",))),
        (
            True,
            {"state": "failed"},
            {"command": "x"},
            Change("lr3", "started", ("command", "it had failed")),
        ),
        (False, {"state": "running"}, {}, Change("lr3", "stopped", ("enabled is false",))),
        (False, {"state": "succeeded"}, {"command": "x"}, None),
        (False, {}, {}, None),
    ],
)
def test_what_becomes_of_a_run_that_does_not_run(
    enabled: bool, status: dict[str, Any], after: dict[str, Any], found: Change | None
) -> None:
    assert change(after, status, enabled) == found


def test_a_new_run_starts_and_one_that_is_gone_stops() -> None:
    assert change_of("lr3", True, {}, BEFORE, True, {}) == Change("lr3", "started", ("it is new",))
    assert change_of("lr3", False, {}, BEFORE, True, {}) is None
    assert gone("lr3", {}, BEFORE, {}).line() == "stopped: lr3: it is no longer declared"


@pytest.mark.parametrize(
    ("after", "status", "told"),
    [
        ({"command": "python train.py --learning-rate 3"}, RUNS, True),
        # Its checkpoint is the reason for such an edit, or has nothing to do with it.
        ({"code": {"tree": "toy", "version": "bbb"}}, RUNS, False),
        ({"command": "x", "checkpoint_dir": "/data/other"}, RUNS, False),
        ({"command": "x"}, {"state": "running", "step": 3, "saved_at": None}, False),
        ({"command": "x"}, {"state": "running", "step": 3, "saved_at": 0}, False),
    ],
)
def test_a_changed_command_that_continues_from_an_old_checkpoint_is_named(
    after: dict[str, Any], status: dict[str, Any], told: bool
) -> None:
    found = change(after, status)
    assert found
    assert ("step 21,920 in /data/lr3, written with the earlier command" in found.note) is told


@pytest.mark.parametrize(
    ("status", "new", "note"),
    [
        (
            RUNS,
            {},
            "Its checkpoints at about step 21,920 stay in /data/lr3. With "
            "checkpoint_dir: /data/lr3 a run continues from them",
        ),
        # Renamed: the new name has a folder of its own.
        (
            RUNS,
            {"lr3b": {**BEFORE, "checkpoint_dir": "/data/lr3b"}, "other": {"command": "x"}},
            "Its checkpoints at about step 21,920 stay in /data/lr3; lr3b begins at step 0. "
            "With checkpoint_dir: /data/lr3 a run continues from them",
        ),
        (
            {**RUNS, "step": None},
            {"lr3b": BEFORE},
            "Its checkpoints stay in /data/lr3, and lr3b continues from them",
        ),
        ({**RUNS, "saved_at": 0}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_a_run_that_is_gone_says_where_its_checkpoints_stay(
    status: dict[str, Any], new: dict[str, dict[str, Any]], note: str
) -> None:
    assert gone("lr3", status, BEFORE, new).note == note


def test_a_run_that_is_gone_had_no_folder() -> None:
    assert gone("lr3", RUNS, {**BEFORE, "checkpoint_dir": ""}, {}).note == ""


@pytest.mark.parametrize(
    ("state", "command", "line"),
    [
        # Its agent has not started; the end of an apply names it with the others that do not run.
        ("stopped", "python other.py", None),
        ("pending", "python train.py", "stopped: lr3: eve@x stopped it"),
        # What had ended would begin again with another command.
        ("failed", "python train.py", None),
        (
            "failed",
            "python other.py",
            "not started: lr3: eve@x stopped it. To start it: tpu-fleet start lr3",
        ),
    ],
)
def test_a_run_that_a_person_keeps_stopped_is_not_started(
    state: str, command: str, line: str | None
) -> None:
    after = {**BEFORE, "command": command}
    found = change_of("lr3", True, BEFORE, after, False, {**RUNS, "state": state}, "eve@x")
    assert (found.line() if found else None) == line
