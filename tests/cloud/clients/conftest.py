"""Public programs for TPUs against a local cloud: their own code, unmodified, in their own words.

They run in an environment of their own, which `scripts/test-clients` makes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from local_cloud import LocalCloud, serving
from redirect import redirect


@pytest.fixture(scope="session")
def served() -> Iterator[LocalCloud]:
    with serving(redirect) as cloud:
        yield cloud


@pytest.fixture
def cloud(served: LocalCloud) -> LocalCloud:
    served.control("reset", {})
    return served
