"""One local cloud whose machines have kernels of their own, for all tests of NFS."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fleet import NOTHING, Fleet


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A cloud that is up for the whole session."""
    fleet = Fleet(tmp_path_factory.mktemp("nfs"), NOTHING)
    fleet.up("--clock", "immediate")
    try:
        yield fleet
    finally:
        fleet.down()
