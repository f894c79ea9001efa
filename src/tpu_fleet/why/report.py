"""A verdict as plain data: what `--json` prints, and what lies in the folder. Pure."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .case import Finding, Verdict
from .causes import FINE, TROUBLE, WAIT
from .rows import rows_of

GRADES = {TROUBLE: "trouble", WAIT: "wait", FINE: "fine"}
"""The words for how urgent an answer is; of what is only noted it is `note`."""


def of_finding(one: Finding) -> dict[str, Any]:
    """Return a finding."""
    return {
        "cause": one.key,
        "grade": GRADES.get(one.cause.grade, "note"),
        "sentence": one.sentence,
        "workers": list(one.hosts),
        "seconds": one.since_s,
        "remedy": one.remedy or None,
        "command": one.command or None,
    }


def of_verdict(verdict: Verdict) -> dict[str, Any]:
    """Return the answer for a slice, what else was seen, and where each worker stands."""
    case = verdict.case
    rows = [{**asdict(row), "hosts": list(row.hosts)} for row in rows_of(verdict)]
    return {
        "run": case.run,
        "slice": case.slice,
        **of_finding(verdict.answer),
        "more": [of_finding(one) for one in verdict.more],
        "standing": rows,
    }
