"""Gangs of one and two workers."""

from __future__ import annotations

import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import beside
import pytest

harness = beside.load(Path(__file__).with_name("harness.py"), "run_agent_harness")
# The agent lies in a role, where no import path leads.
sys.path.insert(0, str(harness.SCRIPT.parent))


def free_port() -> int:
    # JAX listens on all addresses, so nobody may have the number on any of them.
    dual = socket.has_dualstack_ipv6()
    with socket.socket(socket.AF_INET6 if dual else socket.AF_INET) as probe:
        if dual:
            probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def gang() -> Iterator[Callable[..., list[Any]]]:
    """Make workers of one run, not started yet."""
    base = Path(tempfile.mkdtemp(prefix="rf"))
    made: list[Any] = []

    def make(command: str, workers: int = 2, folder: str = "", **more: Any) -> list[Any]:
        hosts = list(harness.HOSTS[:workers])
        place = base / folder / more.get("run", "")
        definition = {
            "run": "demo",
            "command": command,
            "hosts": hosts,
            "port": free_port(),
            "peer_port": free_port(),
            "coordinator_port": free_port(),
            "grace_seconds": 5,
            "timing": harness.TIMING,
            **more,
        }
        made.extend(harness.Worker(place, index, definition) for index in range(workers))
        return made

    yield make
    harness.clean_up(made)
    shutil.rmtree(base, ignore_errors=True)
