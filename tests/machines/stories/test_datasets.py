"""Data sets of a slice of four: one download of each file from the bucket, counted by the cloud.

`.venv/bin/pytest tests/machines/stories/test_datasets.py`
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import pytest
import requests
from fleet import NOTHING, Fleet, wait_until

# In CI tests/unit/roles/dataset has a slice of four as threads, and tests/cloud/run_agent the wait.
pytestmark = pytest.mark.night

HOSTS = [f"quad-w{number}" for number in range(4)]
BUCKET = "lab-sets"
FILES = {f"words/part-{number}.bin": os.urandom(3_000_000) for number in range(3)}
WORDS = {"name": "words", "from": f"gs://{BUCKET}/words", "size": "20MiB"}
MEMORY = {**WORDS, "name": "in-memory", "path": "/dev/shm/words", "user": "alice"}  # noqa: S108
RUN = {
    "name": "reads",
    "slices": ["quad"],
    "user": "alice",
    "checkpoint_dir": None,
    "datasets": ["words", "in-memory"],
    "command": 'cat "$TPU_FLEET_DATASET_WORDS"/* | sha256sum; cmp -b '
    '"$TPU_FLEET_DATASET_WORDS/part-0.bin" "$TPU_FLEET_DATASET_IN_MEMORY/part-0.bin" '
    "&& sleep 100000",
}
FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_slices": [{"name": "quad", "accelerator_type": "v4-32", "zone": "us-central2-b"}],
    "fleet_base_packages": ["sudo", "tmux", "tzdata", "rsync"],
    "fleet_users": [{"name": "alice", "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
    "fleet_checkpoint_buckets": [{"name": BUCKET}],
}


def upload(fleet: Fleet) -> None:
    place = f"http://127.0.0.1:{fleet.port}/upload/storage/v1/b/{BUCKET}/o"
    for name, data in FILES.items():
        query = {"uploadType": "media", "name": name}
        requests.post(place, params=query, data=data, timeout=60).raise_for_status()


def counted(fleet: Fleet) -> dict[str, int]:
    """Return how often objects were listed and given since the last time."""
    found = fleet.report("tpu-fleet", "cloud", "requests", "--reset")
    return {name: found.get(f"storage.objects.{name}", 0) for name in ("list", "get")}


def test_a_slice_of_four_downloads_each_file_once(fleet: Fleet) -> None:
    fleet.declare(FLEET)
    fleet.play("site.yml")
    upload(fleet)
    fleet.declare({**FLEET, "fleet_datasets": [WORDS, MEMORY], "fleet_runs": [RUN]})
    counted(fleet)
    fleet.play("site.yml")
    for host in HOSTS:
        wait_until(
            f"the run on {host}", lambda h=host: fleet.status(h, "reads")["state"] == "running", 120
        )
    # Two data sets of the same three files.
    assert counted(fleet) == {"list": 2, "get": 6}
    digest = hashlib.sha256(b"".join(FILES[name] for name in sorted(FILES))).hexdigest()
    for host in HOSTS:
        wait_until("its checksum", lambda h=host: digest in fleet.log(h, "reads"), 60)
        assert "tpu-fleet-data" in fleet.ssh(host, "stat -Lc %U /opt/tpu-fleet/datasets/words")
    rows = fleet.report("tpu-fleet", "doctor", "--json", codes=(0, 1, 2))["rows"]
    assert {row["status"] for row in rows if row["check"] == "datasets"} == {"ok"}
    # Nothing is changed, downloaded or restarted by another apply.
    fleet.play("site.yml")
    assert counted(fleet)["get"] == 0

    # What was in memory comes from worker 0 after a reboot, and the run waits for it.
    fleet.run("tpu-fleet", "cloud", "reboot", "quad", "--worker", "2")
    wait_until("the next attempt", lambda: fleet.status("quad-w2", "reads")["attempt"] >= 2, 300)
    wait_until("the run again", lambda: fleet.status("quad-w2", "reads")["state"] == "running", 180)
    assert counted(fleet)["get"] == 0
    assert "part-2.bin" in fleet.ssh("quad-w2", "sudo ls /dev/shm/words/")

    fleet.declare({**FLEET, "fleet_datasets": [WORDS], "fleet_runs": []})
    fleet.play("site.yml")
    for host in HOSTS:
        assert fleet.ssh(host, "ls -A /dev/shm; ls /opt/tpu-fleet/datasets").split() == ["words"]


def test_what_does_not_fit_is_refused_before_anything_is_changed(fleet: Fleet) -> None:
    fleet.declare(FLEET)
    fleet.play("site.yml")
    fleet.declare({**FLEET, "fleet_datasets": [{**WORDS, "size": "900TiB"}]})
    told = fleet.play("site.yml", ok=False)
    assert "words size = 921600.0 GiB" in told
    assert "Make room, lower size, or give another path" in told
    assert "datasets.json" not in fleet.ssh("quad-w0", "ls /etc/tpu-fleet")
