"""Keep the garbage collector from the objects of thousands of tests, which live to the end.

What pytest has read would be looked through again and again while it reads and runs them. Where
tests are many and small this is a sixth of their CPU seconds. A conftest.py imports these hooks.
"""

from __future__ import annotations

import gc


def pytest_collection() -> None:
    """Begin to read tests."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Begin to run them."""
    gc.freeze()
    gc.enable()
