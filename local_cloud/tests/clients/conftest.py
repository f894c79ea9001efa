"""Public programs for TPUs against a local cloud: their own code, unmodified, in their own words.

They run in an environment of their own, which `scripts/test-clients` makes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cloud_of_clients import Redirect, cloud, served
from redirect import redirect

__all__ = ["cloud", "redirection", "served"]


@pytest.fixture(scope="session")
def redirection() -> Redirect:
    return redirect
