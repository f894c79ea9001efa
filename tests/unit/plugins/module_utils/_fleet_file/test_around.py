"""Mistakes in what a fleet file says about what is around the slices."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import (
    check_around,
    disks,
)

ZONE = "us-central2-b"
# One in a zone, one in another, one in either.
IN_TWO = [
    {"name": "s", "zone": ZONE},
    {"name": "t", "zone": "us-east5-a"},
    {"name": "any", "zones": [ZONE, "us-east5-a"]},
]


@pytest.mark.parametrize(
    ("data", "fields"),
    [
        ({}, []),
        ({"fleet_mosh": {"target_tags": ["mosh"]}}, []),
        ({"fleet_mosh": {"state": "absent"}}, []),
        ({"fleet_mosh": {}}, []),
        ({"fleet_mosh": {"source_ranges": ["0.0.0.0/0"], "target_tags": ["m"]}}, ["fleet_mosh"]),
        ({"fleet_mosh": {"source_ranges": [], "target_tags": ["m"]}}, ["fleet_mosh"]),
        ({"fleet_mosh": {"target_tags": ["m"]}, "fleet_slices": [{"name": "s"}]},
         ["fleet_mosh.target_tags"]),
        ({"fleet_mosh": []}, ["fleet_mosh"]),
        ({"fleet_mosh": {"tags": ["m"]}}, ["fleet_mosh.tags"]),
        ({"fleet_disks": [{"name": "d", "zone": ZONE}]}, []),
        ({"fleet_disks": [{"name": "d"}]}, ["fleet_disks[0].zone"]),
        ({"fleet_disks": [{"name": "d", "slices": ["s"]}], "fleet_slices": IN_TWO}, []),
        ({"fleet_disks": [{"name": "d", "slices": ["s", "t"], "read_only": True}],
          "fleet_slices": IN_TWO},
         ["fleet_disks[0].zone"]),
        ({"fleet_disks": [{"name": "d", "slices": ["any"]}], "fleet_slices": IN_TWO},
         ["fleet_disks[0].zone"]),
        ({"fleet_disks": [{"name": "d", "zone": "x"}]}, ["fleet_disks[0].zone"]),
        ({"fleet_disks": [{"name": "d"}, {"name": "d"}], "fleet_zone": ZONE},
         ["fleet_disks[1].name"]),
        ({"fleet_disks": [{"name": "d", "slices": ["s"]}], "fleet_zone": ZONE},
         ["fleet_disks[0].slices[0]"]),
        ({"fleet_disks": [{"name": "d", "size": 20}], "fleet_zone": ZONE},
         ["fleet_disks[0].size"]),
        ({"fleet_disks": [{"name": "D"}], "fleet_zone": ZONE}, ["fleet_disks[0]"]),
        ({"fleet_service_account": {"roles": ["roles/owner"]}}, ["fleet_service_account"]),
        ({"fleet_service_account": {"buckets": [{"name": "b-1", "access": "all"}]}},
         ["fleet_service_account.buckets[0].access"]),
        ({"fleet_project_keys": [{"user": "a", "key": "x"}]}, ["fleet_project_keys[0].key"]),
        ({"fleet_services": "tpu.googleapis.com"}, ["fleet_services"]),
    ],
)  # fmt: skip
def test_mistakes_around_the_slices(data: dict[str, Any], fields: list[str]) -> None:
    assert [problem.field for problem in check_around(data)] == fields


def test_a_disk_is_made_in_the_zone_of_its_slices() -> None:
    disk = {"name": "d", "slices": ["s"]}
    data = {"fleet_disks": [disk], "fleet_slices": IN_TWO, "fleet_zone": "europe-west4-a"}
    ((_module, options),) = disks(data, {(ZONE, "s")})
    assert (options["zone"], options["nodes"]) == (ZONE, ["s"])
