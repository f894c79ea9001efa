# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of a doctor's check: cases, findings and remedies. No I/O.

A check is a pure decision over gathered data. It names its cases, each with a remedy, so that
docs/doctor.md can list them and a test can verify that each occurs. Runs on Python 3.8.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

OK, SKIPPED, WARN, FAIL = "ok", "skipped", "warn", "fail"
_ORDER = (OK, SKIPPED, WARN, FAIL)

# Where a check runs.
CONTROLLER, WORKER, SLICE = "controller", "worker", "slice"

# The key under which a gatherer reports what it could not read, and why.
UNKNOWN = "unknown"

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One possible problem; the values of a finding replace its braces."""

    status: str
    says: str
    remedy: str
    # What --fix does, in a few words; empty if a person must act.
    fix: str = ""


@dataclass(frozen=True)
class Hit:
    """A case that occurs, with the values for its braces; or ok or skipped, with a text."""

    case: str
    blanks: Mapping[str, Any] = field(default_factory=dict)
    subject: str = ""


@dataclass(frozen=True)
class Finding:
    """One row of the doctor's report."""

    check: str
    status: str
    says: str = ""
    remedy: str = ""
    subject: str = ""
    case: str = ""
    fix: str = ""

    def to_dict(self) -> Dict[str, str]:
        """Return it as plain data."""
        return asdict(self)


@dataclass(frozen=True)
class Check:
    """One check."""

    key: str
    area: str
    looks_at: str
    decide: Callable[[Facts], Iterable[Hit]]
    cases: Mapping[str, Case] = field(default_factory=dict)
    # The gathered data that it reads.
    needs: Tuple[str, ...] = ()


def hit(case: str, subject: str = "", **blanks: Any) -> Hit:
    """Return the finding of a case."""
    return Hit(case, blanks, subject)


def fine(says: str = "", subject: str = "") -> Hit:
    """Return the finding that all is well."""
    return Hit(OK, {"says": says}, subject)


def skipped(why: str, subject: str = "") -> Hit:
    """Return the finding that the check was skipped."""
    return Hit(SKIPPED, {"says": why}, subject)


def examine(checks: Iterable[Check], facts: Facts) -> List[Finding]:
    """Run all checks; each gives at least one row."""
    return [finding for check in checks for finding in _findings(check, facts)]


def _findings(check: Check, facts: Facts) -> Iterator[Finding]:
    unknown = facts.get(UNKNOWN, {})
    missing = [unknown[name] for name in check.needs if name in unknown]
    if missing:
        yield Finding(
            check.key,
            WARN,
            f"could not be checked: {missing[0]}",
            "Run the doctor again; if that does not help, check the machine by hand.",
            case=UNKNOWN,
        )
        return
    hits = list(check.decide(facts)) or [fine()]
    for found in hits:
        if found.case in (OK, SKIPPED):
            says = str(found.blanks.get("says", ""))
            yield Finding(check.key, found.case, says, subject=found.subject, case=found.case)
            continue
        case = check.cases[found.case]
        yield Finding(
            check.key,
            case.status,
            one_line(case.says.format_map(found.blanks)),
            one_line(case.remedy.format_map(found.blanks)),
            subject=found.subject,
            case=found.case,
            fix=case.fix,
        )


def one_line(text: str, limit: int = 500) -> str:
    """Format a text in one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def worst(statuses: Iterable[str]) -> str:
    """Return the worst of some statuses; skipped counts as ok."""
    found = max(statuses, key=_ORDER.index, default=OK)
    return OK if found == SKIPPED else found


def exit_code(status: str) -> int:
    """Return the exit code: 0 all is well, 1 a warning, 2 a failure."""
    return {WARN: 1, FAIL: 2}.get(status, 0)


def listed(items: Sequence[Any], most: int = 4) -> str:
    """Format a list for people; a long one is shortened."""
    words = [str(item) for item in items]
    more = len(words) - most
    return ", ".join(words) if more <= 0 else f"{', '.join(words[:most])} and {more} more"
