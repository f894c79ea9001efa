"""A watcher creates a slice for a run that waits in the queue, and no other."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import ROOT, Emulator
from json_forms import conforms

from tpu_fleet.queue.bucket import FleetBucket

BURST = {"zone": Emulator.zone, "on_queue": True, "on_finish": "delete", "idle_after": "30m"}
SLICES = [
    {"name": "burst-1", "accelerator_type": "v4-8", **BURST},
    {"name": "burst-2", "accelerator_type": "v4-8", **BURST},
    {"name": "big", "accelerator_type": "v4-16", **BURST},
]

SLICES_ACCOUNT = "serviceAccount:123456789012-compute@developer.gserviceaccount.com"


def planned(watched: Any) -> tuple[dict[str, tuple[bool, str]], list[str]]:
    """Return what a plan shows of the queue, and the slices that an apply would create."""
    done = subprocess.run(
        [sys.executable, "-m", "tpu_fleet", "plan", "--json"],
        cwd=ROOT, env=watched.env(), capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = conforms(["plan"], done.stdout)
    rows = {one["slice"]: (one["comes"], one["why"]) for one in told["slices_on_queue"]}
    return rows, [one["slice"] for one in told["slices"]]


@pytest.mark.night
def test_a_run_that_waits_brings_one_slice_that_fits(cloud: Emulator, watched: Any) -> None:
    body = {"name": "lab", "location": "US-CENTRAL2"}
    made = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(made, json=body, timeout=30).raise_for_status()
    # As tpu-fleet apply leaves it, so that a plan has nothing to do.
    roles = ("roles/storage.objectUser", "roles/storage.legacyBucketReader")
    policy = {"bindings": [{"role": role, "members": [SLICES_ACCOUNT]} for role in roles]}
    given = requests.put(f"{cloud.url}storage/v1/b/lab/iam", json=policy, timeout=30)
    given.raise_for_status()
    watched.declare(fleet_slices=SLICES, fleet_queue={"bucket": "gs://lab/queue"})
    nothing = (False, "nothing waits in the queue for it")
    assert planned(watched) == (dict.fromkeys(("burst-1", "burst-2", "big"), nothing), [])

    queue = Queue(FleetBucket(Client(cloud.project, endpoint=cloud.url), "lab", "queue/"))
    definition = objects.Definition(
        "lr", "alice", "alice", ("true",), "", 1.7e9, types=("v4-8",)
    )  # fmt: skip
    signed = objects.Signed(objects.definition_text(definition), "signature")
    queue.submit(definition, signed, 0)
    rows, changes = planned(watched)
    assert (rows["burst-1"], changes) == ((True, "1 submitted run waits for v4-8"), [])
    assert (rows["burst-2"], rows["big"]) == (nothing, nothing)

    watched.start()
    watched.wait_for("burst-1 comes: 1 submitted run waits for v4-8")
    watched.until(lambda: watched.node("burst-1").get("state") == "READY")
    assert (watched.node("burst-2"), watched.node("big")) == ({}, {})
