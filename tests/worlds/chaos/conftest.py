"""A fleet of five machines that trains, and a plan of what shall happen to it."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest

from chaos.field import Field


@pytest.fixture(scope="session")
def minutes() -> float:
    """Return for how long faults come."""
    return float(os.environ.get("TPU_FLEET_CHAOS_MINUTES", "20"))


@pytest.fixture(scope="session")
def seed() -> int:
    """Return the seed: another one each time, unless one is given."""
    given = os.environ.get("TPU_FLEET_CHAOS_SEED")
    return int(given) if given else random.SystemRandom().randrange(10**6)


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    """The fleet, which trains."""
    fleet = Field(tmp_path_factory.mktemp("chaos"))
    try:
        fleet.begin()
        yield fleet
    finally:
        fleet.down()
