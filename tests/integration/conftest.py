"""Fixtures: the emulator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from emulator import Emulator


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    """A fresh local cloud without machines."""
    emulator = Emulator()
    yield emulator
    emulator.stop()
