"""The seed of the property tests: one for all, printed, and given to repeat a run."""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

# Ansible has to find the collection before Python does, or tests of plugins cannot import it.
if AnsibleCollectionConfig.collection_finder is None:
    init_plugin_loader([str(Path(__file__).parents[3] / "collections")])

SEED = "TPU_FLEET_PROPERTY_SEED"
# How many lives there are in all: more than each broken planner of test_rules_can_fail.py needs to
# be found. The stage lives has a hundred and fifty times as many, of other seeds each time.
RUNS = os.environ.setdefault("TPU_FLEET_PROPERTY_RUNS", "64")

# A change is judged by the same lives as its parent; "random" looks for others.
# Set before xdist starts its workers, which inherit it.
if os.environ.setdefault(SEED, "78") == "random":
    os.environ[SEED] = str(secrets.randbits(32))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the seed, so that any run can be repeated; at the end, where -q does not hide it."""
    terminalreporter.write_line(f"note: {SEED}={os.environ[SEED]}, {RUNS} lives")


@pytest.fixture
def server() -> Iterator[Any]:
    """A local cloud on a port of its own, whose work takes real moments."""
    from tpu_local_cloud.serve.server import Server

    delays = {"all": 0.2, "create": 0.3, "queue_look": 0.1}
    config = {"hosts": "none", "clock": "real", "port": 0, "delays": delays}
    server = Server(config)
    thread = threading.Thread(target=asyncio.run, args=(server.serve(),), daemon=True)
    thread.start()
    assert server.ready.wait(20)
    yield server
    server.stop()
    thread.join(20)
