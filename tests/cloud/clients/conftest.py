"""Public programs for TPUs against a local cloud: their own code, unmodified, in their own words.

They run in an environment of their own, which `scripts/test-clients` makes.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from local_cloud import HOME, LocalCloud
from redirect import redirect


@pytest.fixture(scope="session")
def served() -> Iterator[LocalCloud]:
    with pytest.MonkeyPatch.context() as patch:
        redirect(patch)
        cloud = LocalCloud()
        cloud.up()
        yield cloud
        cloud.command("down")
    shutil.rmtree(HOME)


@pytest.fixture
def cloud(served: LocalCloud) -> LocalCloud:
    served.control("reset", {})
    return served
