"""A lab with a queue in a bucket of the local cloud."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import beside
import pytest
import requests
from emulator import Emulator

harness = beside.load(Path(__file__).with_name("harness.py"), "queue_agent_harness")
beside.load(Path(__file__).with_name("hostility.py"), "queue_agent_hostility")


@pytest.fixture(scope="module")
def _lab() -> Iterator[Any]:
    """A bucket, for all tests of a file."""
    cloud = Emulator()
    bucket = {"name": "lab", "location": "US-CENTRAL2"}
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json=bucket, timeout=30).raise_for_status()
    base = Path(tempfile.mkdtemp(prefix="qa"))
    made = harness.Lab(base, cloud.url.rstrip("/"))
    made.cloud = cloud
    yield made
    shutil.rmtree(base, ignore_errors=True)
    cloud.stop()


@pytest.fixture
def lab(_lab: Any) -> Iterator[Any]:
    """A lab whose slices end with the test; each test has runs of its own."""
    yield _lab
    for worker in _lab.workers:
        worker.clean_up()
    _lab.workers.clear()
