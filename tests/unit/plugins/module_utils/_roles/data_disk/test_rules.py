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
    ("entry", "words"),
    [
        ({"path": "mnt"}, ".path = 'mnt': is not the whole path"),
        ({"path": "/mnt/"}, ".path = '/mnt/': is not the whole path"),
        ({"path": "/mnt/../etc"}, ".path = '/mnt/../etc': is not the whole path"),
        ({"path": "/etc"}, ".path = '/etc': is a folder of the system"),
        ({"path": "/var"}, ".path = '/var': is a folder of the system"),
        ({"name": "a b"}, ".name = 'a b': is not a name"),
        ({"permissions": "u=rwx"}, ".permissions = 'u=rwx': are not permissions"),
        ({"options": ["ro,nodev"]}, ".options[0] = 'ro,nodev': is not a mount option"),
        ({"options": ["x-tpu-fleet.disk=data"]}, ".options[0] = 'x-tpu-fleet.disk=data': is not"),
        ({"options": ["noatime", "suid"]}, ".options[1] = 'suid': would let what another machine"),
        ({"device": "/mnt/disk"}, ".device = '/mnt/disk': is not a device"),
        ({"user": "nobody-known"}, ".user = 'nobody-known': is not a user"),
    ],
)
def test_bad_ones(entry: dict[str, Any], words: str) -> None:
    (problem,) = check_data_disk({"fleet_slices": SLICES, "fleet_disks": [{**GOOD, **entry}]})
    assert f"fleet_disks[0]{words}" in str(problem)


def test_two_of_one_name_or_at_one_place_of_one_slice() -> None:
    assert fields(GOOD, GOOD) == ["[1].name", "[1].path"]
    assert fields(GOOD, {**GOOD, "path": "/mnt/other"}) == ["[1].name"]
    assert fields(GOOD, {**GOOD, "name": "other"}) == ["[1].path"]
    assert fields(GOOD, {**GOOD, "name": "other", "slices": []}) == []
