"""What stands at the end of an apply."""

from __future__ import annotations

from typing import Any

from tpu_fleet.show.ended import ended_lines, failure_lines
from tpu_fleet.workers.ask.run_view import RunView
from tpu_fleet.workers.inventory.fleet_facts import FleetView
from tpu_fleet.workers.report import Failure, Report

NODE: dict[str, Any] = {
    "ours": True, "usd_per_hour": 12.88, "usd_per_hour_billed": 0.0
}  # fmt: skip
VIEW = FleetView(
    nodes=[NODE, {**NODE, "ours": False}],
    grant={"allocations": [{"used": 4, "last_day": "2027-01-31"}]},
)


def test_what_exists_is_counted_and_a_failed_run_has_its_line() -> None:
    report = Report(slices={"solo": ("ready", "v4-8"), "old": ("ended", "its grant is over")})
    runs = [
        RunView("digits", "solo", state="running", hosts=("solo",)),
        RunView("big", "solo", state="failed", hosts=("solo",), failed_with="OOM " * 40),
    ]
    changed = {"run": "digits", "slice": "solo", "does": "restarted", "why": ["code"], "note": ""}
    report.runs.append(changed)
    lines = ended_lines(report, ["ready", "ready", "failed"], runs, VIEW)
    assert lines[:3] == [
        "slices    1 ready, 1 ended",
        "machines  2 ready, 1 failed",
        "runs      1 running, 1 failed",
    ]
    assert lines[3] == "          restarted digits (solo): code"
    assert lines[4].startswith("          big (solo) failed: OOM OOM")
    assert lines[-2:] == [
        "cost      $12.88 an hour at list price, $0.00 of it billed; the grant holds",
        "            until 2027-01-31",
    ]
    assert max(map(len, lines)) <= 80


def test_equal_failures_are_shown_once() -> None:
    same = [Failure(f"pair-w{at}", f"pair-w{at}: no room\nat all") for at in range(5)]
    assert failure_lines([*same, Failure("localhost", "no grant")], 5) == [
        "on 5 of 5 machines, the same (pair-w[0-4]):",
        "  pair-w[0-4]: no room\n  at all",
        "no grant",
    ]
    assert failure_lines([Failure("solo", "away")], 5) == ["on solo:", "  away"]
