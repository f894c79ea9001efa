"""Format durations for people, and times for programs."""

from __future__ import annotations

from datetime import UTC, datetime

from ansible_collections.tpu.fleet.plugins.module_utils._core.durations import long

__all__ = ["iso", "long"]


def iso(at: float) -> str:
    """Format a time for programs, as in a run's log."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
