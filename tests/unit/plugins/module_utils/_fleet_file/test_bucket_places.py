from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.bucket_places import (
    Places,
    bucket_places,
    zones_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import UNREADABLE

SLICES = [
    {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"},
    {"name": "two", "accelerator_type": "v5litepod-8", "zones": ["us-east1-c", "europe-west4-b"]},
    {"name": "setup", "accelerator_type": "v4-8", "self_setup": True},
]
RUN = {
    "name": "lm",
    "slices": ["two"],
    "checkpoint_dir": "gs://lab-{region}/lm",
    "command": "python train.py --data 'gs://data/c4' --cache=/gs://x",
    "env": {"TB": "gs://logs-{zone}", "PLAIN": "x", "NUMBER": 3},
}
DATA: dict[str, Any] = {
    "fleet_zone": "us-central2-b",
    "fleet_slices": SLICES,
    "fleet_runs": [RUN, {"name": "here", "slices": ["solo"], "checkpoint_dir": "/mnt/x"}],
    "fleet_buckets": [{"bucket": "mounted", "path": "/mnt/m", "cross_region": "allow"}],
    "fleet_boards": [{"logs": {"lm": "gs://logs/lm", "own": "/var/log"}, "slices": ["solo"]}],
    "fleet_self_setup": {"bucket": "gs://setup/fleet"},
    "fleet_datasets": [
        {"name": "a", "from": "gs://sets-{region}/a", "slices": ["solo"]},
        {"name": "b", "from": "hf://lab/b"},
    ],
    "fleet_queue": {"bucket": "gs://queue/q", "slices": ["solo"]},
}


def test_all_places_of_a_fleet_file() -> None:
    found = {one.field: one for one in bucket_places(DATA)}
    assert {name: one.address for name, one in found.items()} == {
        "fleet_runs[0].checkpoint_dir": "gs://lab-{region}/lm",
        "fleet_runs[0].command": "gs://data/c4",
        "fleet_runs[0].env.TB": "gs://logs-{zone}",
        "fleet_buckets[0].bucket": "gs://mounted",
        "fleet_boards[0].logs.lm": "gs://logs/lm",
        "fleet_self_setup.bucket": "gs://setup/fleet",
        "fleet_datasets[0].from": "gs://sets-{region}/a",
        "fleet_queue.bucket": "gs://queue/q",
    }
    assert found["fleet_runs[0].command"].slices == ("two",)
    assert found["fleet_self_setup.bucket"].slices == ("setup",)
    assert [name for name, one in found.items() if one.allows] == ["fleet_buckets[0].bucket"]


def test_what_cannot_be_read_or_is_no_bucket_is_left_out() -> None:
    runs = [{"name": "a", "slices": ["solo"], "checkpoint_dir": UNREADABLE, "env": UNREADABLE}]
    runs.append({"name": "b", "slices": ["solo"], "command": "x gs://$BUCKET/y gs://A/b"})
    assert bucket_places({"fleet_slices": SLICES, "fleet_runs": runs}) == []
    assert bucket_places({}) == []


def test_a_slice_may_be_in_all_its_zones() -> None:
    assert zones_of(DATA) == {
        "solo": ("us-central2-b",),
        "two": ("us-east1-c", "europe-west4-b"),
        "setup": ("us-central2-b",),
    }


def test_the_buckets_are_those_of_the_zones() -> None:
    assert Places.declared(DATA).buckets() == [
        *("data", "lab-europe-west4", "lab-us-east1", "logs", "logs-europe-west4-b"),
        *("logs-us-east1-c", "mounted", "queue", "sets-us-central2", "setup"),
    ]


def run(**keys: Any) -> dict[str, Any]:
    return {"fleet_slices": SLICES, "fleet_runs": [{"name": "lm", "slices": ["two"], **keys}]}


def test_the_queue_is_one_bucket_near_the_slices_that_serve_it() -> None:
    queue = {"bucket": "gs://lab/queue", "slices": ["two"]}
    places = Places.declared({"fleet_slices": SLICES, "fleet_queue": queue})
    [problem] = places.judged({"lab": {"location": "US-EAST1"}}).problems
    assert problem.field == "fleet_queue.bucket"
    assert "slice two may be in europe-west4-b" in problem.message
    assert problem.remedy == (
        "Let only slices of the bucket's region serve the queue, by fleet_queue.slices, or accept "
        "the price with cross_region: allow in fleet_queue"
    )
    allowed = {"fleet_slices": SLICES, "fleet_queue": {**queue, "cross_region": "allow"}}
    assert Places.declared(allowed).judged({"lab": {"location": "US-EAST1"}}).problems == []


def test_one_zone_of_several_is_refused_with_the_price() -> None:
    places = Places.declared(run(checkpoint_dir="gs://lab/lm"))
    verdict = places.judged({"lab": {"location": "US-EAST1"}})
    [problem] = verdict.problems
    assert str(problem) == (
        "fleet_runs[0].checkpoint_dir = 'gs://lab/lm': bucket lab is in us-east1, and slice two "
        "may be in europe-west4-b: what goes between them costs $50 a terabyte (list price of "
        "2026-09-20). Use a bucket in europe-west4, name one for each region, as "
        "gs://NAME-{region}, or accept the price with cross_region: allow in fleet_runs[0]."
    )


def test_the_other_text_around_an_address_is_not_shown() -> None:
    places = Places.declared(run(command="train --token=hush gs://lab/x"))
    [problem] = places.judged({"lab": {"location": "ASIA-EAST1"}}).problems
    assert "hush" not in str(problem)


@pytest.mark.parametrize("location", ["US-EAST1", "EUROPE-WEST4"])
def test_each_region_has_its_bucket(location: str) -> None:
    places = Places.declared(run(checkpoint_dir="gs://lab-{region}/lm"))
    here = {"lab-us-east1": {"location": "US-EAST1"}, "lab-europe-west4": {"location": location}}
    problems = places.judged(here).problems
    assert bool(problems) == (location == "US-EAST1")
    assert all("bucket lab-europe-west4 is in us-east1" in str(one) for one in problems)


def test_what_is_declared_is_allowed_and_told() -> None:
    places = Places.declared(run(checkpoint_dir="gs://lab/lm", cross_region="allow"))
    verdict = places.judged({"lab": {"location": "ASIA-EAST1"}})
    assert (verdict.problems, verdict.warnings) == ([], [])
    assert "$80 a terabyte" in verdict.allowed[0]


def test_multi_and_dual_regions() -> None:
    places = Places.declared(run(checkpoint_dir="gs://lab/lm"))
    verdict = places.judged({"lab": {"location": "US"}})
    assert [one.field for one in verdict.problems] == ["fleet_runs[0].checkpoint_dir"]
    assert "may be in europe-west4-b" in str(verdict.problems[0])
    assert "us-east1-c: reads cost $20 a terabyte" in verdict.warnings[0]
    verdict = places.judged({"lab": {"location": "NAM4"}})
    assert "is in us-central1 and us-east1, and slice two may be in europe-west4-b" in (
        verdict.problems[0].message
    )
    assert verdict.warnings == []


def test_what_is_unknown_is_warned_of_with_a_remedy() -> None:
    places = Places.declared(run(checkpoint_dir="gs://lab-{region}/lm"))
    assert places.judged({"lab-us-east1": None}).problems == []
    assert "create gs://lab-us-east1 --location=us-east1" in places.missing("lab-us-east1")
    assert places.missing("lab-us-east1").startswith("fleet_runs[0].checkpoint_dir: ")
    said = places.hidden("lab-us-east1", "Permission denied.")
    assert "(Permission denied)" in said
    assert "storage.buckets.get" in said


def test_what_the_doctor_asks_for() -> None:
    runs = [
        {"name": "lm", "slices": ["two"], "checkpoint_dir": "gs://lab/lm", "cross_region": "allow"},
        {"name": "x", "slices": ["solo"], "checkpoint_dir": "gs://lab", "command": "a gs://data/x"},
    ]
    assert Places.declared({**DATA, "fleet_runs": runs}).asked()[:2] == [
        {"name": "data", "zones": ["us-central2-b"], "folders": []},
        {"name": "lab", "zones": ["us-central2-b"], "folders": ["lm/", ""]},
    ]
