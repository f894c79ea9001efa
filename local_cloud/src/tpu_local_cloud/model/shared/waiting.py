"""When the cloud checks again whether a request that waits can have its capacity."""

from __future__ import annotations

from .ledger import Ledger

# Seconds between two checks for capacity if no transition takes time.
SHORTEST_PAUSE = 0.1
# Long waiting requests are checked more rarely, so a month takes a thousand checks.
PAUSE_GROWTH = 0.01


def next_look(ledger: Ledger, waits_since: float) -> float:
    """Return the time of the next check of a request, by the cloud's time."""
    now = ledger.clock.now()
    pause = 0.0 if ledger.clock.mode == "immediate" else ledger.delays["queue_look"]
    return now + max(pause, PAUSE_GROWTH * (now - waits_since), SHORTEST_PAUSE)
