"""What exists at the end of an apply: slices, machines, runs, failures, cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from textwrap import indent, wrap

from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import visible

from ..workers.ask.run_view import RunView
from ..workers.inventory.fleet_facts import FleetView
from ..workers.inventory.hosts import fold
from ..workers.report import Failure, Report, grouped
from .cost import total
from .plan import run_rows

WIDTH = 80
INDENT = 10
CHANGES, FAILED_RUNS = 6, 6


def counted(words: Iterable[str]) -> str:
    """Return how often each word occurs, the most frequent first."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).most_common())


def failure_lines(failures: Sequence[Failure], hosts: int) -> list[str]:
    """Return the failures, equal ones once, with the machines that had them."""
    lines = []
    for names, text in grouped(failures):
        there = [name for name in names if name and name != "localhost"]
        if len(there) > 1:
            of = max(hosts, len(there))
            lines.append(f"on {len(there)} of {of} machines, the same ({fold(there)}):")
        elif there:
            lines.append(f"on {there[0]}:")
        said = visible(text)
        lines.append(indent(said, "  ") if there else said)
    return lines


def ended_lines(
    report: Report, states: Sequence[str], runs: Sequence[RunView], view: FleetView | None
) -> list[str]:
    """Return what exists; `states` are those of the workers, as the API and they report them."""
    rows = []
    if report.slices:
        rows.append(("slices", counted(phase for phase, _text in report.slices.values())))
    if states:
        rows.append(("machines", counted(states)))
    if runs:
        rows.append(("runs", counted(run.state_word for run in runs)))
    rows += [("", text) for text in run_rows(report.runs)[:CHANGES]]
    for run in [one for one in runs if one.is_troubled][:FAILED_RUNS]:
        rows.append(("", f"{run.run} ({run.slice}) {run.word}: {run.why or 'no reason is known'}"))
    if view is not None and view.nodes and not view.problem:
        rows.append(("cost", _cost(view)))
    lines = []
    for title, text in rows:
        part = wrap(visible(text), WIDTH - INDENT, subsequent_indent="  ") or [""]
        lines += [f"{title if at == 0 else '':<{INDENT}}{one}" for at, one in enumerate(part)]
    return lines


def _cost(view: FleetView) -> str:
    ours = [node for node in view.nodes if node["ours"]]
    full, billed = total(ours, "usd_per_hour"), total(ours, "usd_per_hour_billed")
    ends = [one["last_day"] for one in view.grant["allocations"] if one["used"] and one["last_day"]]
    until = f"; the grant holds until {min(ends)}" if ends else ""
    return f"{full} an hour at list price, {billed} of it billed{until}"
