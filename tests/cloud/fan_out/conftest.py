"""Fixtures: 64 real SSH servers' addresses, and what is said of them in an ssh configuration."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from sshd import MOST_ADDRESSES, Farm, Sshd, make_key


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key to log in with."""
    path = tmp_path_factory.mktemp("key") / "id"
    make_key(path)
    return path


@pytest.fixture(scope="session")
def authorized(key: Path) -> str:
    """Its public half."""
    return Path(f"{key}.pub").read_text().strip()


@pytest.fixture(scope="session")
def farm(tmp_path_factory: pytest.TempPathFactory, key: Path, authorized: str) -> Iterator[Farm]:
    """64 hosts that are well."""
    folder = tmp_path_factory.mktemp("farm")
    servers: list[Sshd] = []
    try:
        for net in range(4):
            addresses = [f"127.77.{net}.{host}" for host in range(1, MOST_ADDRESSES + 1)]
            servers.append(Sshd(folder / f"sshd{net}", addresses, authorized))
        yield Farm(folder, key, servers)
    finally:
        for server in servers:
            server.stop()


@pytest.fixture
def ending() -> Iterator[Callable[..., None]]:
    """Remember what must be stopped."""
    stops: list[Callable[[], None]] = []
    yield lambda one: stops.append(one.stop)
    for stop in stops:
        stop()
