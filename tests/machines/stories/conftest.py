"""One local cloud with machines for all stories; each story declares a fleet of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
from fleet import NOTHING, Fleet

# Ten minutes of the cloud's time are one: long enough for Ansible to begin within them.
SPEED = 10


@pytest.fixture(scope="session")
def _cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path_factory.mktemp("stories"), NOTHING)
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
    requests.post(f"http://127.0.0.1:{_cloud.port}/_cloud/reset", timeout=120).raise_for_status()
