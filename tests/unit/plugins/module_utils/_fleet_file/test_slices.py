"""Which of the two APIs has a slice, and what the fleet file may ask of each."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet, Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import (
    Grant,
    Holding,
    Place,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.slices import check_slices

ZONE = "us-east5-a"
NOW = datetime(2026, 11, 25, tzinfo=timezone.utc)


def granted(*apis: str, generation: str = "v6e", tier: str = "spot") -> list[dict[str, Any]]:
    return [
        {"zone": ZONE, "generation": generation, "tier": tier, "chips": 64, "api": api}
        for api in apis
    ]


def problems(slice_: dict[str, Any], allocations: Any = "unrestricted") -> list[str]:
    entry = {"name": "one", "zone": ZONE, **slice_}
    return [
        str(found)
        for found in check_slices({"fleet_slices": [entry], "fleet_allocations": allocations})
    ]


def api_of(slice_: dict[str, Any], allocations: Any = "unrestricted") -> str:
    entry = {"name": "one", "zone": ZONE, **slice_}
    return Slice.read(entry, None, grant=Grant.read(allocations)).api


@pytest.mark.parametrize(
    ("slice_", "allocations", "api"),
    [
        ({"accelerator_type": "v4-8"}, "unrestricted", "tpu"),
        ({"accelerator_type": "v5litepod-8"}, "unrestricted", "tpu"),
        ({"accelerator_type": "v7x-16"}, "unrestricted", "compute"),
        ({"machine_type": "ct6e-standard-4t", "topology": "4x4"}, "unrestricted", "compute"),
        ({"accelerator_type": "v6e-8", "api": "compute"}, "unrestricted", "compute"),
        ({"accelerator_type": "v6e-8", "tier": "best_effort"}, "unrestricted", "tpu"),
        ({"accelerator_type": "v6e-8", "queued": True}, "unrestricted", "tpu"),
        ({"accelerator_type": "v6e-8", "tier": "calendar"}, "unrestricted", "compute"),
        ({"accelerator_type": "v6e-8", "tier": "spot"}, granted("compute"), "compute"),
        ({"accelerator_type": "v6e-8", "tier": "spot"}, granted("tpu"), "tpu"),
        # It leaves the grant, whichever API it is meant for.
        ({"accelerator_type": "v6e-8"}, granted("compute"), "tpu"),
        ({"accelerator_type": "v6e-8", "tier": "spot"}, granted("tpu", "compute"), ""),
        ({"accelerator_type": "v6e-8"}, "unrestricted", ""),
    ],
)
def test_type_tier_and_grant_say_which_api_has_a_slice(
    slice_: dict[str, Any], allocations: Any, api: str
) -> None:
    assert api_of(slice_, allocations) == api


def test_what_is_left_open_is_an_error() -> None:
    (told,) = problems({"accelerator_type": "v6e-8"})
    assert told.startswith("fleet_slices[0].api: is missing: the Cloud TPU API and Compute Engine")
    assert "Set api: tpu or api: compute" in told


def test_an_entry_of_the_grant_is_for_the_tpu_api_unless_only_compute_has_it() -> None:
    entry = {"zone": ZONE, "generation": "v6e", "tier": "spot", "chips": 8}
    grant = Grant.read([entry, {**entry, "generation": "tpu7x"}])
    assert [one.api for one in grant.allocations] == ["tpu", "compute"]
    assert str(grant.allocations[1]) == f"8 tpu7x chips as spot in {ZONE} on Compute Engine"


def test_the_grants_of_the_two_apis_are_apart() -> None:
    grant = Grant.read(granted("compute"))
    held = [Holding.at(Place(ZONE, "v6e-64", "tpu"), "spot", "node a")]
    assert grant.refusal(Place(ZONE, "v6e-64", "compute"), "spot", held, NOW) is None
    assert grant.outside(held, NOW) == [64]
    refused = grant.refusal(Place(ZONE, "v6e-8", "tpu"), "spot", [], NOW) or ""
    assert refused.startswith(f"the grant does not hold v6e-8 as spot in {ZONE}: it holds 64 v6e")


@pytest.mark.parametrize(
    ("slice_", "told"),
    [
        ({"accelerator_type": "v4-8", "api": "compute"}, "does not have v4-8"),
        ({"accelerator_type": "v7x-8", "api": "tpu"}, "does not have v7x-8"),
        ({"machine_type": "ct6e-standard-5t"}, "is not a machine type with TPUs"),
        ({"machine_type": "ct5lp-hightpu-4t"}, "is not a machine type with TPUs"),
        (
            {"machine_type": "ct6e-standard-4t", "accelerator_type": "v6e-16"},
            "stands beside accelerator_type",
        ),
        (
            {"machine_type": "tpu7x-standard-4t", "topology": "4x4"},
            "cannot be formed of tpu7x-standard-4t",
        ),
        (
            {"accelerator_type": "v6e-8", "api": "compute", "tier": "best_effort"},
            "is a tier of the Cloud TPU API only",
        ),
        ({"accelerator_type": "v7x-8", "queued": True}, "is of the Cloud TPU API only"),
        (
            {"accelerator_type": "v7x-8", "runtime_version": "v2-alpha-tpuv6e"},
            "is of the Cloud TPU API only",
        ),
        ({"accelerator_type": "v4-8", "topology": "2x2x1"}, "is Compute Engine's"),
        (
            {"accelerator_type": "v7x-8", "tier": "flex_start"},
            "is missing, which flex-start needs",
        ),
        (
            {"accelerator_type": "v7x-8", "tier": "flex_start", "max_run_duration": "8d"},
            "is not what flex-start allows",
        ),
        (
            {"accelerator_type": "v5litepod-8", "tier": "calendar", "reservation": "r"},
            "is a tier of Compute Engine only",
        ),
        (
            {"accelerator_type": "v7x-8", "tier": "calendar"},
            "reservation: is missing, which tier: calendar needs",
        ),
        ({"accelerator_type": "v7x-8", "reservation": "r"}, "does not go with tier: on_demand"),
        ({"accelerator_type": "v7x-8", "valid_for": "2h"}, "this one does not wait"),
        (
            {"machine_type": "ct6e-standard-4t", "topology": "2x4", "on_finish": "stop"},
            "stops no slice of several workers, and v6e-8 has 2",
        ),
    ],
)
def test_what_an_api_does_not_have_is_refused(slice_: dict[str, Any], told: str) -> None:
    assert any(told in one for one in problems(slice_)), problems(slice_)


@pytest.mark.parametrize(
    "slice_",
    [
        {"accelerator_type": "v6e-1", "api": "compute", "tier": "spot"},
        {"machine_type": "ct6e-standard-4t", "topology": "2x4"},
        {"machine_type": "tpu7x-standard-4t", "topology": "2x2x2"},
        {"machine_type": "ct6e-standard-1t"},
        {"machine_type": "ct6e-standard-8t", "on_finish": "stop"},
        {
            "accelerator_type": "v6e-1",
            "api": "compute",
            "tier": "flex_start",
            "max_run_duration": "4h",
            "valid_for": "2h",
        },
        {"accelerator_type": "v6e-8", "tier": "calendar", "reservation": "week"},
    ],
)
def test_slices_of_compute_engine(slice_: dict[str, Any]) -> None:
    assert problems(slice_) == []


def test_the_grant_says_when_a_reservation_of_the_calendar_ends() -> None:
    slice_ = {"accelerator_type": "v6e-8", "tier": "calendar", "reservation": "week"}
    (entry,) = granted("compute", tier="reserved")
    (told,) = problems(slice_, [entry])
    assert told.startswith(f"fleet_slices[0].tier = 'calendar': has no end in {ZONE}")
    until = [{**entry, "ends": "2026-12-08T00:00:00Z"}]
    assert problems(slice_, until) == []
    grant = Grant.read(until)
    place = Place(ZONE, "v6e-8", "compute")
    held = [Holding(Place(ZONE, "v6e-64", "compute"), "reserved", 64, "node a")]
    assert "64 are in use" in str(grant.refusal(place, "calendar", held, NOW))
    after = datetime(2026, 12, 8, tzinfo=timezone.utc)
    assert "is over" in str(grant.refusal(place, "calendar", [], after))


def test_a_machine_of_the_calendar_shows_as_reserved() -> None:
    """So that it is not recreated because of its tier."""
    entry = {"name": "one", "zone": ZONE, "accelerator_type": "v6e-8", "tier": "calendar"}
    one = Slice.read({**entry, "reservation": "week"}, None)
    assert (one.asked_tier, one.node_tier, one.waits) == ("reserved", "reserved", False)


def test_a_machine_type_and_its_topology_are_an_accelerator_type() -> None:
    fleet = Fleet.from_params(
        {
            "allocations": "unrestricted",
            "slices": [
                {
                    "name": "one",
                    "zone": ZONE,
                    "machine_type": "tpu7x-standard-4t",
                    "topology": "2x2x2",
                }
            ],
        },
        "project",
    )
    (place,) = fleet.slices[0].candidates
    assert str(place) == f"v7x-16 in {ZONE} on Compute Engine"
    assert not fleet.slices[0].queued


SELF = {"fleet_self_setup": {"bucket": "lab/fleet"}}
SHARE = {"fleet_self_setup": {"server": "10.0.0.9", "export_path": "/x", "local_path": "/mnt/x"}}
SECRETS = {"fleet_secrets": [{"name": "s", "google_secrets": {"A": "a"}}]}
BUCKETS = {"fleet_buckets": [{"bucket": "lab", "path": "/mnt/lab"}]}
PUBLIC = {"bucket": "lab", "path": "/mnt/lab", "options": {"anonymous-access": True}}


@pytest.mark.parametrize(
    ("slice_", "more", "named"),
    [
        ({"self_setup": True}, SELF, "self_setup"),
        ({}, SECRETS, "fleet_secrets[0].google_secrets"),
        ({}, BUCKETS, "fleet_buckets[0]"),
        # Nothing there reads as the account.
        ({}, SELF, ""),
        ({"self_setup": True}, SHARE, ""),
        ({}, {"fleet_buckets": [PUBLIC]}, ""),
        (
            {},
            {"fleet_buckets": [{**BUCKETS["fleet_buckets"][0], "slices": ["x"]}]},
            "",
        ),
        ({}, {"fleet_secrets": [{"name": "s", "env": {"A": "a"}}]}, ""),
        # There is one.
        ({"service_account": "me@p.iam.gserviceaccount.com"}, SECRETS, ""),
        ({"api": "tpu"}, SECRETS, ""),
        ({}, {"fleet_self_setup": 7, "fleet_secrets": "x"}, ""),
    ],
)
def test_what_reads_as_an_account_needs_one(
    slice_: dict[str, Any], more: dict[str, Any], named: str
) -> None:
    entry = {"name": "one", "zone": ZONE, "accelerator_type": "v6e-8", "api": "compute", **slice_}
    data = {"fleet_slices": [entry], "fleet_allocations": "unrestricted", **more}
    found = [str(one) for one in check_slices(data) if one.field.endswith("service_account")]
    assert len(found) == bool(named)
    assert all(named in line and "fleet_slices[0].service_account" in line for line in found)
