"""The lease in the project's metadata that decides which of several watchers works.

A change of the metadata names the fingerprint of the old content, and Compute refuses it if that
has changed meanwhile. That is a compare-and-set between all computers, without a server. The time
is taken from Compute's answers, so no watcher's clock matters.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.tpu.fleet.plugins.module_utils._compute.client import Compute

KEY = "tpu-fleet-watch"


@dataclass(frozen=True)
class Held:
    """The watcher that holds the lease, and when it ends at the latest."""

    holder: str
    until: float

    def __str__(self) -> str:
        return f"{self.holder} {self.until:.0f}"


def read(text: str) -> Held | None:
    """Parse the stored text; an invalid text is no lease."""
    match = re.fullmatch(r"(\S{1,80}) (\d{1,11})", text.strip())
    return Held(match[1], float(match[2])) if match else None


def claim(text: str, holder: str, now: float, seconds: float) -> Held | None:
    """Return the lease to store, or None if another watcher holds it."""
    held = read(text)
    if held is not None and held.holder != holder and held.until > now:
        return None
    return Held(holder, now + seconds)


class ProjectLease:
    """The lease of one fleet."""

    def __init__(
        self,
        compute: Compute,
        server_time: Callable[[], float],
        owner: str,
        holder: str,
        seconds: float,
        until: float = 0.0,
    ) -> None:
        self._compute = compute
        self._server_time = server_time
        self._key = KEY if owner == "managed" else f"{KEY}-{owner}"
        self._holder = holder
        self._seconds = seconds
        self.until = until
        """The end of this watcher's lease, by its own clock."""
        self.other: Held | None = None
        """The holder, if it is another watcher."""

    def holds(self, now: float) -> bool:
        """Return whether this watcher holds it, without a request."""
        return now < self.until

    def is_fresh(self, now: float) -> bool:
        """Return whether it need not be renewed yet."""
        return self.until - now > self._seconds / 2

    def take(self, now: float) -> bool:
        """Take or renew it; return whether this watcher holds it. TpuError: no answer.

        Its end is counted from before the request, so it never ends later here than for others.
        """
        outcome: list[Held | None] = []

        def alter(values: dict[str, str]) -> dict[str, str] | None:
            text = values.get(self._key, "")
            wanted = claim(text, self._holder, self._server_time(), self._seconds)
            outcome.append(wanted)
            if wanted is None:
                self.other = read(text)
                return None
            if text == str(wanted):
                return None  # The last try succeeded, but its answer was lost.
            return {**values, self._key: str(wanted)}

        self._compute.change_metadata(alter)
        if outcome[-1] is None:
            self.until = 0.0
            return False
        self.other = None
        self.until = now + self._seconds
        return True

    def give_back(self) -> None:
        """Release it immediately."""
        self.until = 0.0

        def alter(values: dict[str, str]) -> dict[str, str] | None:
            held = read(values.get(self._key, ""))
            if held is None or held.holder != self._holder:
                return None
            return {key: value for key, value in values.items() if key != self._key}

        self._compute.change_metadata(alter)
