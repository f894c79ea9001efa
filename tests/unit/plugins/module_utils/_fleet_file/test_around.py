"""Mistakes in what a fleet file says about what is around the slices."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.around import (
    buckets,
    check_around,
    disks,
    services,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import UNREADABLE

ZONE = "us-central2-b"
# One in a zone, one in another, one in either.
IN_TWO = [
    {"name": "s", "zone": ZONE},
    {"name": "t", "zone": "us-east5-a"},
    {"name": "any", "zones": [ZONE, "us-east5-a"]},
]
PAIR = [{"name": "pair", "zone": ZONE, "accelerator_type": "v4-16"}]


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
        # Another zone than the slice's, or than one of them.
        ({"fleet_disks": [{"name": "d", "slices": ["t"], "zone": ZONE}], "fleet_slices": IN_TWO},
         ["fleet_disks[0].slices[0]"]),
        ({"fleet_disks": [{"name": "d", "slices": ["any"], "zone": ZONE}], "fleet_slices": IN_TWO},
         ["fleet_disks[0].slices[0]"]),
        ({"fleet_disks": [{"name": "d", "slices": ["t"], "zone": ZONE, "attach": False}],
          "fleet_slices": IN_TWO}, []),
        # Workers that there are, and one of them that writes.
        ({"fleet_disks": [{"name": "d", "slices": ["pair"]}], "fleet_slices": PAIR},
         ["fleet_disks[0].read_only"]),
        ({"fleet_disks": [{"name": "d", "slices": ["pair"], "workers": [1]}], "fleet_slices": PAIR},
         []),
        ({"fleet_disks": [{"name": "d", "slices": ["pair"], "workers": [2]}], "fleet_slices": PAIR},
         ["fleet_disks[0].workers[0]"]),
        ({"fleet_disks": [{"name": "d", "slices": ["pair"], "read_only": True}],
          "fleet_slices": PAIR}, []),
        # A path without machines, also of what the machines have by themselves.
        ({"fleet_disks": [{"name": "d", "zone": ZONE, "path": "/d"}]}, ["fleet_disks[0].slices"]),
        ({"fleet_disks": [{"name": "d", "path": "/d", "attach": False}]},
         ["fleet_disks[0].slices"]),
        ({"fleet_disks": [{"name": "d", "zone": ZONE, "path": "/d", "slices": []}]}, []),
        ({"fleet_disks": [{"name": "d", "zone": ZONE, "path": "/d", "state": "absent"}]}, []),
        ({"fleet_disks": [{"name": "d", "slices": ["s"], "state": "absent"}],
          "fleet_slices": IN_TWO}, ["fleet_disks[0].slices"]),
        ({"fleet_service_account": {"roles": ["roles/owner"]}}, ["fleet_service_account"]),
        ({"fleet_service_account": {"buckets": [{"name": "b-1", "access": "all"}]}},
         ["fleet_service_account.buckets[0].access"]),
        ({"fleet_project_keys": [{"user": "a", "key": "x"}]}, ["fleet_project_keys[0].key"]),
        ({"fleet_services": "tpu.googleapis.com"}, ["fleet_services"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}], "fleet_zone": ZONE}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}], "fleet_slices": IN_TWO[:1]}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}]}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}], "fleet_slices": [{"name": "s"}]},
         ["fleet_checkpoint_buckets[0].region"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c", "state": "absent"}]}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}], "fleet_slices": IN_TWO},
         ["fleet_checkpoint_buckets[0].region"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}], "fleet_slices": UNREADABLE}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c", "region": "us-east5"}],
          "fleet_slices": IN_TWO}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c", "slices": ["t"]},
                                       {"name": "lab-d", "slices": ["s"]}],
          "fleet_slices": IN_TWO}, []),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c", "slices": ["x"], "region": "us-east5"}],
          "fleet_slices": IN_TWO}, ["fleet_checkpoint_buckets[0].slices[0]"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}, {"name": "lab-c"}], "fleet_zone": ZONE},
         ["fleet_checkpoint_buckets[1].name"]),
        ({"fleet_checkpoint_buckets": [{"name": "gs://lab-c"}], "fleet_zone": ZONE},
         ["fleet_checkpoint_buckets[0]"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c", "soft_delete_duration": "1d"}],
          "fleet_zone": ZONE}, ["fleet_checkpoint_buckets[0]"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c", "region": "us central2"}]},
         ["fleet_checkpoint_buckets[0]"]),
        ({"fleet_checkpoint_buckets": [{"name": "lab-c"}], "fleet_zone": ZONE,
          "fleet_service_account": {"buckets": [{"name": "lab-c", "access": "write"}]}},
         ["fleet_service_account.buckets[0].name"]),
    ],
)  # fmt: skip
def test_mistakes_around_the_slices(data: dict[str, Any], fields: list[str]) -> None:
    assert [problem.field for problem in check_around(data)] == fields


def test_a_disk_is_made_in_the_zone_of_its_slices() -> None:
    disk = {"name": "d", "slices": ["s"]}
    data = {"fleet_disks": [disk], "fleet_slices": IN_TWO, "fleet_zone": "europe-west4-a"}
    ((_module, options),) = disks(data, {(ZONE, "s")})
    assert (options["zone"], options["nodes"]) == (ZONE, ["s"])


def test_the_module_gets_what_is_at_google() -> None:
    mount = {"path": "/d", "user": "alice", "device": "x", "adopt": True, "slices": ["s"]}
    whole = {"name": "d", "size": "10GiB", "workers": [0], "read_only": True, **mount}
    (_one, made), (_two, there), (_three, own) = disks(
        {
            "fleet_disks": [
                whole,
                {"name": "e", **mount},
                {"name": "f", "size": "10GiB", "attach": False, **mount},
                {"name": "g", "attach": False, **mount},
            ],
            "fleet_slices": IN_TWO,
            "fleet_owner": "lab",
        },
        set(),
    )
    about = {"zone": ZONE, "owner": "lab"}
    one = {"name": "d", "size": "10GiB", "workers": [0], "read_only": True, "adopt": True}
    assert made == {**one, "nodes": [], **about}
    # Of what others made, only a file system is taken over.
    assert there == {"name": "e", "nodes": [], **about}
    assert own == {"name": "f", "size": "10GiB", "adopt": True, **about}


def test_a_bucket_is_made_in_the_region_of_its_slices_with_access_for_their_accounts() -> None:
    own = "tpu@lab.iam.gserviceaccount.com"
    data = {
        "fleet_owner": "vision",
        "fleet_zone": ZONE,
        "fleet_slices": [
            {"name": "plain", "accelerator_type": "v4-8"},
            {"name": "own", "accelerator_type": "v4-8", "service_account": own},
            {"name": "none", "machine_type": "ct6e-standard-4t", "api": "compute"},
            {"name": "far", "accelerator_type": "v4-8", "zone": "us-east5-a"},
        ],
        "fleet_checkpoint_buckets": [
            {"name": "lab-near", "slices": ["plain", "own", "none"], "soft_delete_duration": "7d"},
            {"name": "lab-all", "region": "us-east5", "adopt": True},
            {"name": "lab-old", "state": "absent"},
        ],
    }
    assert buckets(data) == [
        ("bucket", {
            "name": "lab-near", "soft_delete_duration": "7d", "location": "us-central2",
            "accounts": ["default", own], "owner": "vision",
        }),
        ("bucket", {
            "name": "lab-all", "adopt": True, "location": "us-east5",
            "accounts": ["default", own], "owner": "vision",
        }),
        ("bucket", {"name": "lab-old", "state": "absent", "owner": "vision"}),
    ]  # fmt: skip
    assert buckets({}) == []


FLEET_WITH_QUEUE: dict[str, Any] = {
    "fleet_owner": "vision",
    "fleet_zone": ZONE,
    "fleet_slices": [
        {"name": "plain", "accelerator_type": "v4-8"},
        {"name": "own", "accelerator_type": "v4-8", "service_account": "tpu@lab.example"},
        {"name": "far", "accelerator_type": "v4-8", "zone": "us-east5-a"},
    ],
    "fleet_queue": {
        "bucket": "gs://lab-q/queue",
        "slices": ["plain", "own"],
        "writers": ["user:a@lab.example"],
        "readers": ["user:b@lab.example"],
    },
}


def test_the_queues_bucket_gives_access_to_its_slices_and_people() -> None:
    people = {"writers": ["user:a@lab.example"], "readers": ["user:b@lab.example"]}
    own = {"name": "lab-q", "accounts": ["default", "tpu@lab.example"], "owner": "vision", **people}
    (call,) = buckets(FLEET_WITH_QUEUE)
    assert call == ("bucket", {**own, "location": "us-central2", "state": "used"})
    declared = {"name": "lab-q", "slices": ["far"], "adopt": True}
    (call,) = buckets({**FLEET_WITH_QUEUE, "fleet_checkpoint_buckets": [declared]})
    assert call == ("bucket", {**own, "location": "us-east5", "adopt": True})


def test_the_queues_bucket_has_a_region_only_if_its_slices_are_in_one() -> None:
    everywhere = {"bucket": "gs://lab-q/queue", "cross_region": "allow"}
    ((_module, options),) = buckets({**FLEET_WITH_QUEUE, "fleet_queue": everywhere})
    assert "location" not in options
    assert buckets({"fleet_queue": everywhere}) == []


def test_the_queues_bucket_is_named_once() -> None:
    wrong = {
        "fleet_checkpoint_buckets": [{"name": "lab-q", "state": "absent"}],
        "fleet_service_account": {"buckets": [{"name": "lab-q"}]},
    }
    assert [problem.field for problem in check_around({**FLEET_WITH_QUEUE, **wrong})] == [
        "fleet_checkpoint_buckets[0].state",
        "fleet_service_account.buckets[0].name",
    ]


def test_buckets_need_the_storage_api() -> None:
    ((_module, options),) = services({"fleet_checkpoint_buckets": [{"name": "lab-c"}]})
    assert options["names"] == ["tpu.googleapis.com", "storage.googleapis.com"]
