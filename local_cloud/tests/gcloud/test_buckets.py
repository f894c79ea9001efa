"""gcloud's own commands for buckets and objects."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest
from program import Run

# In CI local_cloud/tests/api/test_buckets_client.py asks the same by Google's own library.
pytestmark = pytest.mark.night

LIFECYCLE = {
    "rule": [
        {"action": {"type": "Delete"}, "condition": {"age": 7, "matchesPrefix": ["tmp/"]}},
    ]
}


@pytest.fixture
def run(run: Run) -> Run:
    """Run `gcloud storage`; return what it printed."""
    return partial(run, "storage")


def test_a_day_with_buckets(run: Run, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "sub").mkdir(parents=True)
    target.mkdir()
    # More than gcloud sends in one request.
    (source / "big").write_bytes(os.urandom(20_000_000))
    (source / "small").write_text("hi\n")
    (source / "sub/y").write_text("y\n")
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(LIFECYCLE))
    run("buckets", "create", "gs://lab", "--location=us-central2")
    run("cp", str(source / "big"), str(source / "small"), "gs://lab/a/")
    listed = run("ls", "-l", "gs://lab/a/")
    assert "20000000" in listed
    assert "TOTAL: 2 objects" in listed
    run("rsync", "-r", str(source), "gs://lab/sync")
    run("rsync", "-r", "gs://lab/sync", str(target))
    assert (target / "big").read_bytes() == (source / "big").read_bytes()
    assert (target / "sub/y").read_text() == "y\n"
    assert run("cat", "gs://lab/a/small") == "hi\n"
    run("mv", "gs://lab/a/small", "gs://lab/a/moved")
    refused = run("cp", "--if-generation-match=0", str(source / "big"), "gs://lab/a/moved",
                  fails=True)  # fmt: skip
    assert "pre-condition" in refused
    assert run("cat", "gs://lab/a/moved") == "hi\n"
    run("objects", "update", "gs://lab/a/moved", "--custom-metadata=k=v")
    shown = json.loads(run("objects", "describe", "gs://lab/a/moved", "--format=json"))
    assert shown["custom_fields"] == {"k": "v"}
    run("objects", "compose", "gs://lab/a/big", "gs://lab/a/moved", "gs://lab/a/c")
    assert "20000003" in run("du", "-s", "gs://lab/a/c")
    run("buckets", "update", "gs://lab", f"--lifecycle-file={rules}")
    run("buckets", "update", "gs://lab", "--soft-delete-duration=7d")
    bucket = json.loads(run("buckets", "describe", "gs://lab", "--format=json"))
    assert bucket["lifecycle_config"] == LIFECYCLE
    assert bucket["soft_delete_policy"]["retentionDurationSeconds"] == "604800"
    run("rm", "-r", "gs://lab/a/**")
    assert "sync" in run("ls", "gs://lab")
    run("rm", "-r", "gs://lab")
    assert "matched no objects" in run("ls", fails=True)
