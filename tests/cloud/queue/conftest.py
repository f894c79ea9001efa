"""Fixtures: a fleet with a queue."""

from __future__ import annotations

from pathlib import Path

import pytest
from emulator import Emulator
from queue_lab import Lab


@pytest.fixture
def lab(cloud: Emulator, tmp_path: Path) -> Lab:
    """A lab with an empty queue."""
    return Lab(cloud, tmp_path)
