"""One local cloud with machines for all stories; each story declares a fleet of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import requests
from fleet import NOTHING, Fleet

# Another port is another cloud, for those who work on a story while others run.
PORT = int(os.environ.get("TPU_FLEET_STORIES_PORT", "8474"))
# Ten minutes of the cloud's time are one: long enough for Ansible to begin within them.
SPEED = 10


@pytest.fixture(scope="session")
def _cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("stories"), PORT, NOTHING)
    fleet.up("--speed", str(SPEED))
    try:
        yield fleet
    finally:
        fleet.down()


@pytest.fixture
def fleet(_cloud: Fleet) -> Iterator[Fleet]:
    """A cloud in which there is nothing and nothing fails."""
    yield _cloud
    _cloud.run("tpu-fleet", "cloud", "fault", "clear")
    requests.post(f"http://127.0.0.1:{PORT}/_cloud/reset", timeout=120).raise_for_status()
