"""A bucket of the local cloud: as the run agent and `tpu-fleet checkpoints` see it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._core.checkpoints import time_of
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.checkpoints import CheckpointFolder
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import Emulator

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def bucket(cloud: Emulator) -> Emulator:
    made = {"name": "lab", "location": "US-CENTRAL1"}
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json=made, timeout=30).raise_for_status()
    return cloud


def put(cloud: Emulator, name: str, content: bytes = b"0123456789") -> dict[str, Any]:
    asked = f"{cloud.url}upload/storage/v1/b/lab/o"
    query = {"uploadType": "media", "name": name}
    done = requests.post(asked, params=query, data=content, timeout=30)
    done.raise_for_status()
    return dict(done.json())


def step(cloud: Emulator, name: str, whole: bool = True) -> float | None:
    """Write a step as Orbax does; return when it became whole."""
    for part in ("_CHECKPOINT_METADATA", "d/manifest.ocdbt", "d/0"):
        put(cloud, f"{name}/{part}")
    return time_of(put(cloud, f"{name}/commit_success.txt")["updated"]) if whole else None


def look(cloud: Emulator, prefix: str = "digits/") -> dict[str, Any]:
    sys.path.insert(0, str(ROOT / "roles/training_run/files"))
    bucket_look = importlib.import_module("run_agent.act.bucket_look")
    asked = {"storage": cloud.url.rstrip("/"), "metadata": "", "bucket": "lab", "known": {}}
    return dict(bucket_look.look({**asked, "prefix": prefix}))


def test_the_agent_sees_the_marks_time(bucket: Emulator) -> None:
    step(bucket, "digits/100")
    at = step(bucket, "digits/200")
    step(bucket, "digits/300", whole=False)
    found = look(bucket)
    assert (found["error"], found["note"]) == ("", "")
    assert found["saved"] / 1e9 == pytest.approx(at, abs=1e-5)
    assert found["checkpoint"] == {"name": "200", "step": 200, "bytes": 40}
    put(bucket, "digits/300/d/1")
    assert look(bucket)["newest"] != found["newest"]


def test_many_steps_come_in_pages(bucket: Emulator) -> None:
    for number in range(1100):
        put(bucket, f"digits/{number}/commit_success.txt", b"")
    found = look(bucket)
    assert (found["error"], found["checkpoint"]["step"], found["note"]) == ("", 1099, "")
    # Two pages of steps, and the size of the newest.
    assert (found["lists"], found["gets"]) == (3, 16)


def test_the_controller_deletes_what_is_left_over_and_nothing_else(bucket: Emulator) -> None:
    step(bucket, "digits/100", whole=False)
    step(bucket, "digits/200")
    step(bucket, "digits/300", whole=False)
    client = Client(bucket.project, endpoint=bucket.url)
    folder = CheckpointFolder(GoogleApis(client), "lab", "digits/")
    found = folder.contents()
    assert [(one.name, one.state) for one in found.checkpoints] == [
        ("100", "unfinished"), ("200", "whole"), ("300", "unfinished"),
    ]  # fmt: skip
    assert found.usd_per_gb_month == 0.02
    (left,) = found.leftovers
    assert (left.name, folder.delete(left)) == ("100", 3)
    assert [one.name for one in folder.contents().checkpoints] == ["200", "300"]
    put(bucket, "digits/100/d/9")
    with pytest.raises(TpuError, match="written to meanwhile"):
        folder.delete(left)


def test_a_bucket_that_is_not_there(bucket: Emulator) -> None:
    client = Client(bucket.project, endpoint=bucket.url)
    with pytest.raises(TpuError, match="no bucket gone"):
        CheckpointFolder(GoogleApis(client), "gone", "").contents()
