"""How much of its chips a program uses, for the status: one figure of each kind for this worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .values import is_number, one_line

_KINDS = ("duty_cycle_percent", "memory_used_bytes", "memory_bytes")


def use_of(metrics: Mapping[str, Mapping[int, float]]) -> dict[str, Any] | None:
    """Return the use of a worker's chips, from metrics by chip or core; None without any.

    `count` is the number of chips, `duty_cycle` their mean in percent, `memory_used` and `memory`
    are sums in bytes. What the runtime does not report is None.
    """
    duty, used, whole = (list(metrics.get(kind, {}).values()) for kind in _KINDS)
    if not duty and not whole:
        return None
    return {
        "count": len(duty) or len(whole),
        "duty_cycle": float(round(sum(duty) / len(duty))) if duty else None,
        "memory_used": _sum(used),
        "memory": _sum(whole),
    }


def error_of(cores: Sequence[Mapping[str, Any]]) -> str:
    """Return the error that the first core with one reports; empty without one."""
    for core in cores:
        if core.get("error"):
            return f"core {core.get('core')}: {one_line(str(core['error']), 200)}"
    return ""


def _sum(values: list[float]) -> int | None:
    return int(sum(values)) if values and all(map(is_number, values)) else None
