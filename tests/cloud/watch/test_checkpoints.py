"""`tpu-fleet checkpoints` for a bucket, in a fleet that has no slice."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import requests
from emulator import ROOT, Emulator
from json_forms import conforms

RUN = {
    "name": "digits",
    "slices": ["solo"],
    "user": "alice",
    "command": "python train.py",
    "checkpoint_dir": "gs://lab/digits",
}


def put(cloud: Emulator, *names: str) -> None:
    """Write objects, one after the other."""
    for name in names:
        asked, query = f"{cloud.url}upload/storage/v1/b/lab/o", {"uploadType": "media"}
        done = requests.post(asked, params={**query, "name": name}, data=b"12345", timeout=30)
        done.raise_for_status()


def run(watched: Any, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tpu_fleet", "checkpoints", *words],
        cwd=ROOT, env=watched.env(), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_checkpoints_are_known_without_a_slice(cloud: Emulator, watched: Any) -> None:
    body = {"name": "lab", "location": "US-CENTRAL1"}
    made = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(made, json=body, timeout=30).raise_for_status()
    watched.declare(fleet_runs=[RUN])
    put(cloud, "digits/100/d/0", "digits/200/d/0", "digits/200/commit_success.txt")
    put(cloud, "digits/300/d/0", "other/100/d/0")
    done = run(watched, "--json")
    assert done.returncode == 0, done.stderr
    (found,) = conforms(["checkpoints"], done.stdout)["runs"]
    states = {one["step"]: (one["state"], one["leftover"]) for one in found["checkpoints"]}
    assert states == {
        100: ("unfinished", True), 200: ("whole", False), 300: ("unfinished", False),
    }  # fmt: skip
    assert found["usd_per_month"] > 0
    done = run(watched, "digits", "--delete-leftovers", "--yes")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "Deleted 1 leftover.")
    listed = requests.get(f"{cloud.url}storage/v1/b/lab/o", timeout=30).json()["items"]
    assert [one["name"] for one in listed] == [
        "digits/200/commit_success.txt", "digits/200/d/0", "digits/300/d/0", "other/100/d/0",
    ]  # fmt: skip
