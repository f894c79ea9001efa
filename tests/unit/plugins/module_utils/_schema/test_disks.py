"""What an entry of fleet_disks is for a slice, and for the role on its machines."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import AROUND
from ansible_collections.tpu.fleet.plugins.module_utils._schema.disks import (
    OF_ROLE,
    disks_of,
    is_attached,
    mounts_of,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._roles.specs import options_of

DISK: dict[str, Any] = {"name": "d", "size": "10GiB", "slices": ["solo", "pair"], "path": "/mnt/d"}


@pytest.mark.parametrize(
    ("more", "attached"),
    [
        ({}, True),
        ({"slices": []}, True),
        ({"slices": None}, False),
        ({"attach": False}, False),
        ({"state": "absent"}, False),
    ],
)
def test_which_disks_are_attached(more: dict[str, Any], attached: bool) -> None:
    assert is_attached({**DISK, **more}) is attached


def test_a_slice_gets_the_disks_that_name_it() -> None:
    read = {**DISK, "name": "r", "slices": ["pair"], "read_only": True, "workers": [1]}
    both = [DISK, read, {**DISK, "name": "own", "attach": False}]
    assert [one["source_disk"] for one in disks_of(both, "solo")] == ["d"]
    assert disks_of(both, "pair")[1] == {"source_disk": "r", "read_only": True, "workers": [1]}
    assert disks_of(both, "other") == []


def test_the_role_mounts_what_has_a_path_on_some_slice() -> None:
    kept = {"name": "d", "slices": ["solo", "pair"], "path": "/mnt/d"}
    assert mounts_of([DISK, {**DISK, "attach": False}]) == [kept, kept]
    for less in ({"path": None}, {"slices": None}, {"slices": []}, {"state": "absent"}):
        assert mounts_of([{**DISK, **less}]) == []
    assert mounts_of("d") == "d"


def test_the_role_has_the_keys_that_it_takes_and_both_read_them_alike() -> None:
    of_role = options_of("data_disk")["data_disk_disks"]["options"]
    assert set(OF_ROLE) == set(of_role)
    keys = AROUND["fleet_disks"].options
    for name, option in of_role.items():
        assert keys[name].type == option["type"], name
        assert list(keys[name].choices) == option.get("choices", []), name
