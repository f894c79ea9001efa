"""Clouds with machines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from container_cloud import ContainerCloud


@pytest.fixture(scope="session")
def container_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContainerCloud]:
    """A cloud that is up for the whole session; tests name their nodes apart."""
    cloud = ContainerCloud(tmp_path_factory.mktemp("container"))
    cloud.up()
    try:
        yield cloud
    finally:
        cloud.down()


@pytest.fixture
def own_cloud(tmp_path: Path) -> Iterator[ContainerCloud]:
    """A cloud that is not up yet, for tests that end it themselves."""
    cloud = ContainerCloud(tmp_path)
    try:
        yield cloud
    finally:
        cloud.down()
