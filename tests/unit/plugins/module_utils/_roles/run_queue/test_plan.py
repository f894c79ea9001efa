"""What a slice that serves the queue gets, and whose signatures it takes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.run_queue.plan import (
    FOLDER,
    UNIT,
    allowed_signers,
    plan,
)

DEFAULTS = {"training_run_runs": {"retries": 3}}
KEY = "ssh-ed25519 AAAAC3Nz alice@laptop"


def variables(**queue: Any) -> dict[str, Any]:
    named = {
        **{"queue": {"bucket": "gs://lab/queue", **queue}, "slice": "pair", "zone": "z", "key": ""},
        **{"runs": [], "venvs": [], "users": [{"name": "alice", "keys": [KEY]}], "node": "7"},
        **{"accelerator_type": "v4-16", "slice_hosts": ["10.0.0.2"], "worker_index": 0},
        **{"peer_port_base": 288, "port_base": 21000, "lost_after": 30, "log_size": 1},
        **{"log_files": 5, "metadata_url": None},
    }
    return {f"run_queue_{name}": value for name, value in named.items()}


def test_a_slice_that_serves_it() -> None:
    found = plan(variables(slices=["pair"]), DEFAULTS)
    assert found["serves"]
    paths = [file["path"] for file in found["secret_files"] + found["files"]]
    assert {f"{FOLDER}/settings.json", f"{FOLDER}/allowed_signers", UNIT} <= set(paths)
    modes = {file["path"]: file.get("mode") for file in found["secret_files"] + found["files"]}
    assert modes[f"{FOLDER}/settings.json"] == modes[f"{FOLDER}/allowed_signers"] == "0600"


@pytest.mark.parametrize("queue", [{"slices": ["solo"]}, {"bucket": None}])
def test_a_slice_that_does_not(queue: dict[str, Any]) -> None:
    found = plan(variables(**queue), DEFAULTS)
    assert not found["serves"]
    assert found["secret_files"] == []
    assert {file["state"] for file in found["files"]} == {"absent"}


def test_on_a_reserved_slice_no_one_elses_signature_counts() -> None:
    users = [{"name": one, "keys": [KEY]} for one in ("alice", "bob")]
    for reserved, signers in (({"pair": ["bob"]}, ["bob"]), ({"solo": ["bob"]}, ["alice", "bob"])):
        given = {**variables(reserved=reserved), "run_queue_users": users}
        found = plan(given, DEFAULTS)
        files = {file["path"]: file.get("content", "") for file in found["files"]}
        lines = files[f"{FOLDER}/allowed_signers"].splitlines()
        assert [line.split()[0] for line in lines] == signers
        only = json.loads(found["settings"])["reserved"]
        assert only == (["bob"] if "pair" in reserved else None)


def test_limits_are_given_to_the_machine() -> None:
    found = json.loads(plan(variables(limits={"chip_hours": 9}), DEFAULTS)["settings"])
    assert found["limits"] == {"chips": None, "runs": None, "chip_hours": 9}


def test_a_time_is_seconds_or_none() -> None:
    assert '"take_after": 3600' in plan(variables(take_after="1h"), DEFAULTS)["settings"]
    assert '"take_after": null' in plan(variables(take_after=None), DEFAULTS)["settings"]


def test_which_venvs_are_built_when_a_run_needs_them() -> None:
    venvs = [{"name": "jax"}, {"name": "new", "on_need": True}]
    venvs.append({"name": "other", "on_need": True, "slices": ["solo"]})
    found = json.loads(plan({**variables(), "run_queue_venvs": venvs}, DEFAULTS)["settings"])
    assert (found["venvs"], found["venvs_on_need"]) == (["jax", "new"], ["new"])


def test_the_key_is_a_file_of_its_own() -> None:
    given = {**variables(), "run_queue_key": "ab" * 32}
    (_settings, key) = plan(given, DEFAULTS)["secret_files"]
    assert (key["path"], key["mode"]) == (f"{FOLDER}/key", "0600")
    assert "ab" * 32 not in plan(given, DEFAULTS)["settings"]


def test_whose_signatures_are_taken() -> None:
    users = [
        {"name": "alice", "keys": [KEY, 'from="10.0.0.0/8,::1",no-pty ssh-rsa AAAAB3Nz== home']},
        {"name": "bob"},
        {"name": "carol", "keys": ["cert-authority ssh-ed25519 AAAACA ca", "not a key"]},
        {"name": "dave", "keys": ["sk-ssh-ed25519@openssh.com AAAAG token"]},
    ]
    assert allowed_signers(users).splitlines() == [
        'alice namespaces="tpu-fleet-queue" ssh-ed25519 AAAAC3Nz',
        'alice namespaces="tpu-fleet-queue" ssh-rsa AAAAB3Nz==',
        'dave namespaces="tpu-fleet-queue" sk-ssh-ed25519@openssh.com AAAAG',
    ]


def test_people_of_other_slices_sign_nothing_here() -> None:
    given = variables()
    given["run_queue_users"] = [
        {"name": "alice", "keys": [KEY], "slices": ["solo"]},
        {"name": "gone", "keys": [KEY], "state": "absent"},
    ]
    (signers,) = [
        file for file in plan(given, DEFAULTS)["files"] if file["path"].endswith("allowed_signers")
    ]
    assert signers["content"] == ""
