"""A run without checkpoints, as the program's parent sees it: nothing shuts it out.

It needs no module, as the start of many short runs waits for what is imported.
"""

from __future__ import annotations

LATE_SECONDS = 10.0
"""Within which an attempt has to begin: less than the agent waits for a first sign of life."""


class NotNamed(Exception):
    """The fence does not name the attempt, which has to begin once more."""


class Unguarded:
    """In place of a guard, where there is nothing to guard."""

    shut_out = ""

    def claim(self) -> str:
        """Say by whom the attempt is shut out; here by none."""
        return ""

    def watch(self, child: int) -> None:
        """Look at nothing."""
