"""How long a start takes: from the begin of an attempt to its first step. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .durations import long
from .values import is_number

DEFAULT = 180.0
"""Seconds after which a first start is late: JAX gives one up after 300."""
_LEAST = 30.0
_TIMES = 2.0
_OF = 5


def seconds(entry: Mapping[str, Any]) -> float | None:
    """Return how long an attempt of the history took to its first step; None if it had none."""
    start, at = entry.get("start"), entry.get("first_step_at")
    if not (is_number(start) and is_number(at)) or at < start:
        return None
    return float(at - start)


def usual(history: Sequence[Mapping[str, Any]]) -> float | None:
    """Return how long the last starts of a run took; None if none came to a step."""
    known = [took for took in map(seconds, history) if took is not None]
    return statistics.median(known[-_OF:]) if known else None


def late_after(history: Sequence[Mapping[str, Any]]) -> float:
    """Return the seconds without a step after which a start is late."""
    took = usual(history)
    return DEFAULT if took is None else max(_LEAST, _TIMES * took)


def said(age: float, history: Sequence[Mapping[str, Any]]) -> str:
    """Say that a start takes longer than its usual time; empty when it does not.

    Without an earlier start that came to a step this is not known: the program may report none.
    """
    took = usual(history)
    if took is None or age <= late_after(history):
        return ""
    return f"no step for {long(age)} since the start, which usually takes {long(took)}"
