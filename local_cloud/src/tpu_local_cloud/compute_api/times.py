"""Times as Compute Engine writes them: of its head office, with the distance to UTC."""

from __future__ import annotations

from ..google.operations import written
from ..model.shared.clock import seconds_of


def shown(moment: float) -> str:
    """Return a moment in seconds since 1970 as Compute Engine writes it."""
    return written(moment)


def of_stamp(stamp: str) -> str:
    """Return a time of the cloud's records; empty for none."""
    return shown(seconds_of(stamp)) if stamp else ""
