"""What the fleet file's check says about NFS shares."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.nfs_share.rules import (
    check_nfs_share,
)

TEAM = {"name": "team", "path": "/mnt/team", "slice": "solo"}


def fleet(*shares: dict[str, Any]) -> dict[str, Any]:
    return {
        "fleet_slices": [{"name": "solo"}, {"name": "pair"}],
        "fleet_users": [{"name": "alice"}],
        "fleet_shares": list(shares),
    }


@pytest.mark.parametrize(
    ("share", "field"),
    [
        ({"slice": "sole"}, "slice"),
        ({"slices": ["pair", "pear"]}, "slices[1]"),
        ({"user": "alise"}, "user"),
        ({"path": "team"}, "path"),
        ({"server": "10.0.0.1"}, "slice"),
    ],
)
def test_problems_name_their_field(share: dict[str, Any], field: str) -> None:
    found = check_nfs_share(fleet({**TEAM, **share}))
    assert [problem.field for problem in found] == [f"fleet_shares[0].{field}"]
    assert all(problem.remedy for problem in found)


def test_who_exports_to_others_stays() -> None:
    data = fleet(TEAM)
    data["fleet_slices"][0]["on_finish"] = "delete"
    [problem] = check_nfs_share(data)
    assert (problem.field, "away from pair" in problem.message) == (
        "fleet_slices[0].on_finish",
        True,
    )
    data["fleet_shares"] = [{**TEAM, "slices": ["solo"]}]
    assert check_nfs_share(data) == []


def test_two_shares_cannot_have_one_name_or_place() -> None:
    found = check_nfs_share(fleet(TEAM, TEAM))
    assert [problem.field.rpartition(".")[2] for problem in found] == ["name", "path"]


def test_what_is_right_has_no_problem() -> None:
    nas = {"name": "nas", "path": "/mnt/nas", "server": "nas.example", "user": "alice"}
    assert check_nfs_share(fleet(TEAM, nas)) == []
