"""The lab of examples/lab/fleet.yml on a local cloud, with a GitHub and a git server of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab import Lab


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The slices, as they come from the cloud: no role has touched them."""
    lab = Lab(tmp_path_factory.mktemp("lab"))
    try:
        lab.begin()
        yield lab
    finally:
        lab.end()
