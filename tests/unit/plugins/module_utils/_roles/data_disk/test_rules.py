"""The rules of the data disks in a fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk.rules import (
    check_data_disk,
)

SLICES = [{"name": "solo"}, {"name": "pair"}]
GOOD = {"name": "data", "path": "/mnt/data", "slices": ["solo"]}


def fields(*disks: dict[str, Any], **more: Any) -> list[str]:
    data = {"fleet_slices": SLICES, "fleet_disks": list(disks), **more}
    return [problem.field.replace("fleet_disks", "") for problem in check_data_disk(data)]


def test_a_good_one() -> None:
    assert fields(GOOD, {**GOOD, "slices": ["pair"]}) == []
    # Each worker of a slice may have one of its own.
    first, second = {**GOOD, "workers": [0]}, {**GOOD, "name": "other", "workers": [1]}
    assert fields(first, second) == []
    assert fields(first, {**second, "workers": [0, 1]}) == ["[1].path"]
    assert fields(first, {**second, "workers": []}) == ["[1].path"]


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"path": "mnt"}, "[0].path"),
        ({"path": "/mnt/"}, "[0].path"),
        ({"path": "/etc"}, "[0].path"),
        ({"permissions": "u=rwx"}, "[0].permissions"),
        ({"options": ["ro,nodev"]}, "[0].options[0]"),
        ({"options": ["noatime", "dev"]}, "[0].options[1]"),
        ({"device": "/mnt/disk"}, "[0].device"),
        ({"user": "nobody-known"}, "[0].user"),
    ],
)
def test_bad_ones(entry: dict[str, Any], field: str) -> None:
    assert fields({**GOOD, **entry}) == [field]


def test_two_at_one_place_of_one_slice() -> None:
    assert fields(GOOD, {**GOOD, "name": "other"}) == ["[1].path"]
    assert fields(GOOD, {**GOOD, "name": "other", "slices": []}) == []
