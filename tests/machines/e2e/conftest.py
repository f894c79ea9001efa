"""One fleet for all stories: a single-host slice and a two-worker slice, as in the demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet import Fleet
from story import FLEET, write_count


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The fleet, which site.yml has brought to training."""
    fleet = Fleet(tmp_path_factory.mktemp("story"), FLEET)
    write_count(fleet.folder, "version 1")
    fleet.up()
    try:
        fleet.first_site = fleet.play("site.yml")
        yield fleet
    finally:
        fleet.down()
