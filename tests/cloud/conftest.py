"""Fixtures: the emulator."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

# Ansible has to find the collection before Python does, or tests of plugins cannot import it.
if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(Path(__file__).parents[2] / "collections")])

from emulator import Emulator


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    """A fresh local cloud without machines."""
    emulator = Emulator()
    yield emulator
    emulator.stop()


SEED = "TPU_FLEET_HOSTILE_SEED"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed, so that any run can be repeated; at the end, where -q does not hide it."""
    seed = os.environ.get(SEED, "20261123")
    counts = (
        "420 hostile workers for each of 5 commands, 8 (at night 24) for each question of a play"
    )
    terminalreporter.write_line(f"note: {SEED}={seed}, {counts}")
