"""Poll conditions that have no event."""

from __future__ import annotations

import time
from collections.abc import Callable


def wait_for(condition: Callable[[], bool], limit: float) -> bool:
    """Poll until the condition holds; return whether it did within the time limit."""
    deadline = time.monotonic() + limit
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True
