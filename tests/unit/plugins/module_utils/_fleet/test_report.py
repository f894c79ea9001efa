from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import (
    Action,
    Orphan,
    Plan,
    Status,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.report import (
    answer,
    is_settled,
    warnings_of,
)

READY = Status("solo", "ready", "v4-8 in us-central2-b")
ENDED = Status("old", "ended", "its grant is over")
LEFT = Orphan("node", "us-central2-b", "left", "READY")
DELETE = Action("delete_node", "old", "us-central2-b", "old", "its grant is over")


def plan(*statuses: Status, **more: Any) -> Plan:
    return Plan(**{"actions": (), "statuses": statuses, "orphans": (), "warnings": (), **more})


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (plan(), True),
        (plan(READY, ENDED), True),
        (plan(READY, orphans=(LEFT,), warnings=("the grant ends",)), True),
        (plan(READY, orphans=(LEFT,), prunes=True), False),
        (plan(READY, ENDED, actions=(DELETE,)), False),
        # Waiting changes nothing about it, and yet it has to be told as a failure.
        (plan(READY, Status("big", "refused", "the grant holds none")), False),
        (plan(Status("big", "coming", "is being created")), False),
    ],
)
def test_when_all_is_as_it_is_wanted(seen: Plan, expected: bool) -> None:
    assert is_settled(seen) is expected


def test_nothing_done_is_nothing_changed() -> None:
    told = answer(plan(READY), ())
    assert (told["changed"], told["actions"]) == (False, [])
    assert told["plan"] == ["= solo: ready: v4-8 in us-central2-b"]
    assert answer(plan(ENDED), (DELETE,))["changed"]


def test_what_is_left_over_is_told() -> None:
    (text,) = warnings_of(plan(READY, orphans=(LEFT,)))
    assert "left as it is" in text
    assert warnings_of(plan(READY, orphans=(LEFT,), prunes=True)) == []
