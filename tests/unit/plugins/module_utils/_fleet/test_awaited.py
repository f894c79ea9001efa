"""What `fleet_wait` says, and when the wait is over."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import BadRequest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.awaited import Awaited, awaited_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Plan, Status

DECLARED = ("solo", "sweep")


@pytest.mark.parametrize(
    ("said", "waits", "strict", "named"),
    [
        ("all", True, True, set()),
        ("any", True, False, set()),
        ("next", True, False, set()),
        ("none", False, False, set()),
        ("sweep", True, True, {"sweep"}),
        ("sweep,solo", True, True, {"solo", "sweep"}),
        (["solo"], True, True, {"solo"}),
    ],
)
def test_words_and_names(said: Any, waits: bool, strict: bool, named: set[str]) -> None:
    found = awaited_of(said, DECLARED)
    assert (found.waits, found.strict, found.names) == (waits, strict, named)
    assert [name for name in DECLARED if found.waits_for(name)] == sorted(named or DECLARED)


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        (True, "Write all."),
        (False, "Write none."),
        ("nxt", "Did you mean next?"),
        ("swep", "Did you mean sweep?"),
        (["solo", "other"], "Write all, any, next, none, or names of: solo, sweep."),
        ([], "Write all, any, next, none, or names of slices."),
        (7, "Write all, any, next, none, or names of slices."),
    ],
)
def test_anything_else_is_refused(said: Any, remedy: str) -> None:
    with pytest.raises(BadRequest) as told:
        awaited_of(said, DECLARED)
    assert told.value.message.startswith("fleet_wait = ")
    assert told.value.remedy == remedy


@pytest.mark.parametrize(
    ("said", "phases", "one_more", "enough"),
    [
        ("all", ("ready", "ready"), False, True),
        ("all", ("ready", "waiting"), True, False),
        ("any", ("ready", "waiting"), True, False),
        ("next", ("ready", "waiting"), True, True),
        ("next", ("ready", "waiting"), False, False),
        ("solo", ("ready", "waiting"), False, True),
        ("sweep", ("ready", "waiting"), True, False),
    ],
)
def test_when_it_is_enough(
    said: str, phases: tuple[str, str], one_more: bool, enough: bool
) -> None:
    statuses = tuple(Status(n, phase, "") for n, phase in zip(DECLARED, phases, strict=True))
    assert awaited_of(said, DECLARED).enough(Plan((), statuses, (), ()), one_more) is enough


def test_all_is_the_default() -> None:
    assert awaited_of("all", ()) == Awaited()
