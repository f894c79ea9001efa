"""One local cloud with machines for the stories of Compute Engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compute_fleet import ComputeFleet
from fleet import NOTHING


@pytest.fixture(scope="session")
def _cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ComputeFleet]:
    fleet = ComputeFleet(tmp_path_factory.mktemp("compute"), NOTHING)
    try:
        fleet.begin()
        yield fleet
    finally:
        fleet.down()


@pytest.fixture
def fleet(_cloud: ComputeFleet) -> Iterator[ComputeFleet]:
    """A cloud in which there is nothing and nothing fails."""
    yield _cloud
    _cloud.clear()
