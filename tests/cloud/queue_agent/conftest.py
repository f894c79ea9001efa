"""A lab with a queue in a bucket of the local cloud."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from emulator import Emulator


def _load_harness() -> Any:
    # importlib mode puts no folder on the path.
    name = "queue_agent_harness"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("harness.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


harness = _load_harness()


@pytest.fixture(scope="module")
def _lab() -> Iterator[Any]:
    """A bucket, for all tests of a file."""
    cloud = Emulator()
    made = {"name": "lab", "location": "US-CENTRAL1"}
    asked = f"{cloud.url}storage/v1/b?project={cloud.project}"
    requests.post(asked, json=made, timeout=30).raise_for_status()
    base = Path(tempfile.mkdtemp(prefix="qa"))
    yield harness.Lab(base, cloud.url.rstrip("/"))
    shutil.rmtree(base, ignore_errors=True)
    cloud.stop()


@pytest.fixture
def lab(_lab: Any) -> Iterator[Any]:
    """A lab whose slices end with the test; each test has runs of its own."""
    yield _lab
    for worker in _lab.workers:
        worker.clean_up()
    _lab.workers.clear()
