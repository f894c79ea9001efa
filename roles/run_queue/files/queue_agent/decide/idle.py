"""Is the slice free for a submitted run?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..shared._host.run_states import ENDED_OR_STOPPED, RESTARTING, RUNNING
from .messages import Report


def in_the_way(
    declared: Iterable[Mapping[str, Any]], declared_first: bool, holding: Iterable[str]
) -> str:
    """Return which declared run has the chips, or precedes; empty if none does.

    Each has its `run`, `state`, and `needs_tpu` of its definition. `holding` names the runs that
    have their turn on the chips.
    """
    holds = set(holding)
    for one in declared:
        if one.get("needs_tpu") == "false" or one["state"] in ENDED_OR_STOPPED:
            continue
        if declared_first or one["state"] in (RUNNING, RESTARTING) or one["run"] in holds:
            return str(one["run"])
    return ""


def among_workers(slice_name: str, count: int, reports: Mapping[int, tuple[Report, float]]) -> str:
    """Return which worker is not there, or has something else; empty if all are free.

    `reports` has the last report of each worker with its age in seconds.
    """
    for worker in range(count):
        host = slice_name if count == 1 else f"{slice_name}-w{worker}"
        report, age = reports.get(worker, (None, 0.0))
        if report is None or age > _AWAY:
            return f"{host} does not answer worker 0"
        if report.run:
            return f"{host} still has {report.run}"
        if report.busy:
            return f"{host}: {report.busy}"
    return ""


_AWAY = 30.0
