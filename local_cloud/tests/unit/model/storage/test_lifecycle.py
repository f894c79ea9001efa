"""What rules do with which objects, by the cloud's clock."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.shared.clock import seconds_of
from tpu_local_cloud.model.storage import lifecycle
from tpu_local_cloud.model.storage.documents import DAY
from tpu_local_cloud.model.storage.index import Row, State

BORN = "2026-11-01T00:00:00.000Z"
DELETE = {"type": "Delete"}


def row(name: str = "tmp/a", state: State = "live", **more: Any) -> Row:
    document = {"timeCreated": BORN, "storageClass": "STANDARD", **more}
    return Row(name, 1, state, document)


def rules(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
    return {"rule": [{"action": action, "condition": condition} for action, condition in pairs]}


def hit(condition: dict[str, Any], found: Row, days: float = 8, newer: int = 0) -> bool:
    now = seconds_of(BORN) + days * DAY
    return lifecycle.action(rules((DELETE, condition)), found, newer, now) is not None


@pytest.mark.parametrize(
    ("condition", "found", "days", "newer", "expected"),
    [
        ({"age": 7}, row(), 7, 0, True),
        ({"age": 7}, row(), 6.9, 0, False),
        ({"age": 7, "matchesPrefix": ["tmp/"]}, row(), 8, 0, True),
        ({"age": 7, "matchesPrefix": ["log/"]}, row(), 8, 0, False),
        ({"age": 0, "matchesSuffix": [".x", "a"]}, row(), 8, 0, True),
        ({"createdBefore": "2026-11-02"}, row(), 8, 0, True),
        ({"createdBefore": "2026-11-01"}, row(), 8, 0, False),
        ({"isLive": False}, row(), 8, 0, False),
        ({"isLive": False}, row(state="old"), 8, 0, True),
        ({"numNewerVersions": 2}, row(state="old"), 8, 1, False),
        ({"numNewerVersions": 2}, row(state="old"), 8, 2, True),
        ({"daysSinceNoncurrentTime": 1}, row(), 8, 0, False),
        ({"daysSinceNoncurrentTime": 1}, row(timeDeleted=BORN), 8, 0, True),
        ({"matchesStorageClass": ["NEARLINE"]}, row(), 8, 0, False),
    ],
)
def test_conditions(
    condition: dict[str, Any], found: Row, days: float, newer: int, expected: bool
) -> None:
    assert hit(condition, found, days, newer) is expected


def test_deletion_wins() -> None:
    colder = {"type": "SetStorageClass", "storageClass": "COLDLINE"}
    both = rules((colder, {"age": 1}), (DELETE, {"age": 5}))
    at = seconds_of(BORN)
    assert lifecycle.action(both, row(), 0, at + 2 * DAY) == colder
    assert lifecycle.action(both, row(), 0, at + 6 * DAY) == DELETE


@pytest.mark.parametrize(
    ("action", "condition", "text"),
    [
        ({"type": "Burn"}, {"age": 1}, "action.type 'Burn'"),
        (DELETE, {"newest": 3}, "condition 'newest'"),
        (DELETE, {}, "condition ''"),
        ({"type": "SetStorageClass", "storageClass": "WARM"}, {"age": 1}, "storageClass 'WARM'"),
    ],
)
def test_what_is_no_rule_is_refused(
    action: dict[str, Any], condition: dict[str, Any], text: str
) -> None:
    with pytest.raises(ComputeError, match=text):
        lifecycle.check({"lifecycle": rules((action, condition))})
