"""Fixtures: the emulator."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

# Ansible has to find the collection before Python does, or tests of plugins cannot import it.
if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(Path(__file__).parents[2] / "collections")])
sys.path.insert(0, str(Path(__file__).parent))

from emulator import Emulator


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    """A fresh local cloud without machines."""
    emulator = Emulator()
    yield emulator
    emulator.stop()
