"""What holds for every test of the local cloud."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from emulator import Emulator
from garbage import pytest_collection, pytest_collection_finish  # noqa: F401 - hooks

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start:
# the tests that press it would wait forever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def cloud() -> Iterator[Emulator]:
    """A fresh local cloud without machines."""
    with Emulator() as emulator:
        yield emulator
