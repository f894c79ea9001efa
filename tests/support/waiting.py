"""Wait for what processes on this computer bring about."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 180.0
# From one look to the next, so many times as long as the look took.
LOOKS = 4.0


def wait_until(look: Callable[[], Any], what: str, seconds: float = PATIENCE) -> Any:
    """Return the first true answer."""
    deadline = time.monotonic() + seconds
    while (begun := time.monotonic()) < deadline:
        answer = look()
        if answer:
            return answer
        # A look at a whole archive would else keep the core from what it waits for.
        time.sleep(max(0.05, LOOKS * (time.monotonic() - begun)))
    raise AssertionError(f"{what} did not come true within {seconds} s")
