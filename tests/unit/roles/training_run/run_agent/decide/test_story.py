"""The events of a change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from run_agent.decide import story
from run_agent.decide.gang_state import FAILED, RUNNING, STOPPING, SUCCEEDED, Gang


@pytest.mark.parametrize(
    ("before", "ahead", "seconds"),
    [(None, 1e9, None), (1e9, 1e9 + 4, None), (1e9, 1e9 + 3600, 3600), (1e9, 1e9 - 60, -60)],
)
def test_a_clock_that_is_set_is_told(
    before: float | None, ahead: float, seconds: float | None
) -> None:
    told = story.of_clock(before, ahead)
    assert [event["seconds"] for event in told] == ([] if seconds is None else [seconds])


BEFORE = Gang("def", "id", phase=RUNNING, attempt=3, owner="me")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({}, []),
        ({"phase": STOPPING}, []),
        ({"phase": SUCCEEDED}, ["run-succeeded"]),
        ({"phase": FAILED}, ["run-failed"]),
        ({"definition": "other", "phase": STOPPING}, ["definition-changed"]),
    ],
)
def test_what_is_told_of_a_gang(change: dict[str, Any], names: list[str]) -> None:
    assert [e["event"] for e in story.of_gang(BEFORE, replace(BEFORE, **change))] == names


@pytest.mark.parametrize(
    ("began", "version", "told"),
    [
        ({"code": "3fa81b2c00000000"}, "9d0e7a11" * 8, {"version": "9d0e7a11" * 8}),
        ({"code": "3fa81b2c00000000"}, "3fa81b2c" + "0" * 56, None),  # another command, say
        ({"code": "3fa81b2c00000000"}, "", None),  # other code would not restart it
        ({}, "9d0e7a11" * 8, None),  # with what it began is not known
    ],
)
def test_the_version_of_other_code_is_told(
    began: dict[str, str], version: str, told: dict[str, str] | None
) -> None:
    before = replace(BEFORE, builds=began)
    after = replace(before, definition="other", phase=STOPPING)
    name = "definition-changed" if told is None else "code-changed"
    assert story.of_gang(before, after, version) == [{"event": name, **(told or {})}]


def test_a_failure_has_last_lines_in_any_case() -> None:
    crashed, hung = ({"event": "run-failed", "tail": lines} for lines in (["KeyError: 1"], []))
    assert story.with_tail([crashed, hung], lambda: ["step 7"]) == [
        crashed,
        {"event": "run-failed", "tail": ["step 7"]},
    ]


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        ({}, {1: True}, []),  # who comes for the first time is not back
        ({}, {1: False}, []),
        ({1: True}, {1: False}, ["peer-lost"]),
        ({1: False}, {1: False}, []),
        ({1: False}, {1: True}, ["peer-back"]),
        ({1: True, 2: True}, {1: False, 2: False}, ["peer-lost", "peer-lost"]),
    ],
)
def test_what_is_told_of_peers(
    before: dict[int, bool], after: dict[int, bool], names: list[str]
) -> None:
    assert [event["event"] for event in story.of_peers(before, after)] == names


FIRST, SECOND = {"behind": "a", "user": "x", "since": 1}, {"behind": "b", "user": "x", "since": 1}


@pytest.mark.parametrize(
    ("before", "after", "names"),
    [
        (None, None, []),
        (None, FIRST, ["queued"]),
        (FIRST, {**FIRST, "since": 2}, []),
        (FIRST, SECOND, ["queued"]),
        (SECOND, None, ["queue-left"]),
    ],
)
def test_what_is_told_of_the_queue(before: Any, after: Any, names: list[str]) -> None:
    assert [event["event"] for event in story.of_queue(before, after)] == names
