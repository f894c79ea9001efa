"""Warnings about fleet files that are right: what they are given for, and what they spare."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.notices import notices

NOW = datetime(2026, 6, 1, 12, tzinfo=timezone.utc)
GRANT = {"zone": "us-central2-b", "generation": "v4", "tier": "on_demand", "chips": 8}
SPOT = {"name": "a", "accelerator_type": "v4-8", "zone": "us-central2-b", "tier": "spot"}
STEADY = {**SPOT, "name": "b", "tier": "on_demand"}
RUN = {"name": "lr3", "command": "python train.py", "slices": ["a"]}
ALICE, BOB = {"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}


def told(**data: Any) -> list[str]:
    return [str(notice) for notice in notices(data, NOW)]


def test_an_entry_of_the_grant_that_is_over() -> None:
    entries = [{**GRANT, "ends": end} for end in ("2026-05-31", "2026-06-01")]
    (line,) = told(fleet_allocations=entries)
    assert "fleet_allocations[0]: 8 v4 chips on demand" in line
    assert "until 2026-05-31" in line
    assert told() == []


@pytest.mark.parametrize("wrong", [7, "all", [{"zone": 3}], [None]])
def test_a_wrong_grant_is_left_to_the_check(wrong: Any) -> None:
    assert told(fleet_allocations=wrong, fleet_slices=[SPOT]) == []


@pytest.mark.parametrize("tier", ["spot", "best_effort"])
@pytest.mark.parametrize("folder", [{}, {"checkpoint_dir": "/home/matt/ck"}])
def test_checkpoints_that_a_preemption_deletes(tier: str, folder: dict[str, str]) -> None:
    (line,) = told(fleet_slices=[{**SPOT, "tier": tier}], fleet_runs=[{**RUN, **folder}])
    assert line.startswith("fleet_runs[0].checkpoint_dir: run lr3 keeps its checkpoints in")
    assert folder.get("checkpoint_dir", "/var/lib/tpu-fleet/checkpoints/lr3") in line
    assert f"on the boot disk of a ({tier})" in line
    assert "gs://BUCKET/FOLDER" in line


DISK = {"name": "d", "path": "/mnt/d"}
BUCKET = {"bucket": "lab", "path": "/mnt/lab"}


@pytest.mark.parametrize(
    ("run", "more"),
    [
        ({"checkpoint_dir": "gs://lab/lr3"}, {}),
        ({"checkpoint_dir": None}, {}),  # says that there are none
        ({"slices": ["b"]}, {}),
        ({"checkpoint_dir": "/mnt/d/lr3"}, {"fleet_disks": [DISK]}),
        ({"checkpoint_dir": "/mnt/d"}, {"fleet_disks": [{**DISK, "slices": ["a"]}]}),
        ({}, {"fleet_disks": [{**DISK, "path": "/var/lib/tpu-fleet"}]}),
        ({"checkpoint_dir": "/mnt/lab/lr3"}, {"fleet_buckets": [BUCKET]}),
        (
            {"checkpoint_dir": "/share/lr3"},
            {"fleet_shares": [{"name": "s", "path": "/share", "server": "10.0.0.9"}]},
        ),
        (
            {"checkpoint_dir": "/share/lr3"},
            {"fleet_shares": [{"name": "s", "path": "/share", "slice": "b"}]},
        ),
        (
            {"checkpoint_dir": "/share/lr3"},
            {
                "fleet_shares": [
                    {"name": "s", "path": "/share", "export_path": "/mnt/d/s", "slice": "a"}
                ],
                "fleet_disks": [DISK],
            },
        ),
    ],
)
def test_checkpoints_that_stay(run: dict[str, Any], more: dict[str, Any]) -> None:
    assert told(fleet_slices=[SPOT, STEADY], fleet_runs=[{**RUN, **run}], **more) == []


@pytest.mark.parametrize(
    ("run", "more"),
    [
        # A disk of another slice, a folder beside the mount, a share on a spot slice's boot disk.
        ({"checkpoint_dir": "/mnt/d/x"}, {"fleet_disks": [{**DISK, "slices": ["b"]}]}),
        ({"checkpoint_dir": "/mnt/data"}, {"fleet_disks": [DISK]}),
        # What the machine has by itself, and a disk that is nowhere at present.
        ({"checkpoint_dir": "/mnt/d/x"}, {"fleet_disks": [{**DISK, "attach": False}]}),
        ({"checkpoint_dir": "/mnt/d/x"}, {"fleet_disks": [{**DISK, "slices": []}]}),
        (
            {"checkpoint_dir": "/share/x", "slices": ["b"]},
            {"fleet_shares": [{"name": "s", "path": "/share", "slice": "a"}]},
        ),
        ({"slices": []}, {}),
    ],
)
def test_checkpoints_that_only_seem_to_stay(run: dict[str, Any], more: dict[str, Any]) -> None:
    found = told(fleet_slices=[SPOT, STEADY], fleet_runs=[{**RUN, **run}], **more)
    assert len(found) == 1
    assert "on the boot disk of a (spot)" in found[0]


DEFAULT = "1234567-compute@developer.gserviceaccount.com"
OWN = "tpu-fleet@p.iam.gserviceaccount.com"
COMPUTE = {"name": "c", "machine_type": "ct6e-standard-8t", "zone": "us-central2-b"}


@pytest.mark.parametrize(
    ("slices", "users", "fields"),
    [
        ([STEADY], [ALICE, BOB], ["fleet_slices[0].service_account"]),
        ([STEADY], [ALICE, {**BOB, "sudo": ["/bin/ls"]}], ["fleet_slices[0].service_account"]),
        ([{**STEADY, "service_account": DEFAULT}], [ALICE, BOB], ["fleet_slices[0]."]),
        (
            [COMPUTE, {**COMPUTE, "name": "d", "service_account": DEFAULT}],
            [ALICE, BOB],
            ["fleet_slices[1]."],
        ),
        ([STEADY, {**SPOT, "name": "z"}], [ALICE, {**BOB, "slices": ["z"]}], ["fleet_slices[1]."]),
        # One person alone, administrators, an account of one's own, and none at all.
        ([STEADY], [ALICE], []),
        ([STEADY], [ALICE, {**BOB, "sudo": "all"}], []),
        ([STEADY], [ALICE, {**BOB, "state": "absent"}], []),
        ([{**STEADY, "service_account": OWN}], [ALICE, BOB], []),
        ([COMPUTE], [ALICE, BOB], []),
    ],
)
def test_people_beside_the_default_account(
    slices: list[dict[str, Any]], users: list[dict[str, Any]], fields: list[str]
) -> None:
    found = told(fleet_slices=slices, fleet_users=users)
    assert [line for line in found if not line.startswith(tuple(fields) or "-")] == []
    assert len(found) == len(fields)
    assert all("alice" in line and "fleet_service_account" in line for line in found)


def test_a_bucket_for_which_a_machine_gets_no_token() -> None:
    run = {**RUN, "slices": ["c"], "checkpoint_dir": "gs://lab/x"}
    (line,) = told(fleet_slices=[COMPUTE], fleet_runs=[run])
    assert line.startswith("fleet_runs[0].checkpoint_dir: run lr3 keeps its checkpoints in")
    assert "c has no service account on Compute Engine" in line
    assert told(fleet_slices=[{**COMPUTE, "service_account": OWN}], fleet_runs=[run]) == []
    assert told(fleet_slices=[STEADY], fleet_runs=[{**run, "slices": ["b"]}]) == []


def test_a_run_that_moves_to_another_region_begins_there() -> None:
    two = {**STEADY, "zone": None, "zones": ["us-east1-d", "europe-west4-a"]}
    run = {**RUN, "slices": ["b"], "checkpoint_dir": "gs://lab-{region}/lr3"}
    (line,) = told(fleet_slices=[two], fleet_runs=[run])
    assert line.startswith("fleet_runs[0].checkpoint_dir: run lr3 has a bucket in each region of b")
    assert "from step 0" in line
    near = {**two, "zones": ["us-east1-d", "us-east1-c"]}
    assert told(fleet_slices=[near], fleet_runs=[run]) == []
    assert told(fleet_slices=[two], fleet_runs=[{**run, "checkpoint_dir": "gs://lab/lr3"}]) == []


def test_a_file_of_the_web_whose_checksum_is_not_known() -> None:
    web = {"name": "words", "from": "https://example.org/words"}
    sets = [web, {**web, "sha256": "0" * 64}, {"name": "c4", "from": "gs://lab/c4"}]
    (line,) = told(fleet_datasets=sets)
    assert line.startswith("fleet_datasets[0].sha256: data set words has no sha256, so a changed")


def test_a_release_that_is_newer_than_the_table_is_a_warning() -> None:
    jax = {"name": "jax", "path": "/opt/venvs/jax", "framework": "jax"}
    (line,) = told(fleet_venvs=[{**jax, "framework_version": "0.99.0"}])
    assert line.startswith("fleet_venvs[0].framework_version: 0.99.0 is newer than")
    (line,) = told(fleet_venvs=[jax], fleet_jax_version="0.99.0")
    assert line.startswith("fleet_jax_version: 0.99.0 is newer than")
    assert told(fleet_venvs=[jax, {**jax, "framework_version": "0.11.2"}]) == []
    assert told(fleet_venvs=[{"name": "tools", "path": "/opt/venvs/tools"}]) == []
