# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the slices of a fleet may cost, and what happens when that is spent. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .._schema.keys import Key, Problem, check_keys, entries, text_of
from .declared import Slice
from .grant import allocation_problems, parse_allocations
from .slices import why_never_stopped

WARN, STOP, DELETE = "warn", "stop", "delete"
DAY, MONTH = "day", "month"
BUDGET = {
    "fleet_budget": Key(
        "dict",
        options={
            "per_day": Key(
                "number", description="US dollars for a day in UTC.", default="no limit"
            ),
            "per_month": Key(
                "number", description="US dollars for a calendar month in UTC.", default="no limit"
            ),
            "on_exceed": Key(
                choices=(WARN, STOP, DELETE),
                description="What `tpu-fleet watch` does when it is spent: notify, or also stop "
                "runs and slices that cost, or delete these slices.",
                default=WARN,
            ),
        },
    )
}


@dataclass(frozen=True)
class Budget:
    """The limits in US dollars; None is none."""

    per_day: float | None = None
    per_month: float | None = None
    on_exceed: str = WARN

    @classmethod
    def read(cls, raw: Any) -> Budget:
        """Return what the variable says, whose rules hold already; without one, no limit."""
        told = raw if isinstance(raw, Mapping) else {}
        day, month = told.get("per_day"), told.get("per_month")
        return cls(
            None if day is None else float(day),
            None if month is None else float(month),
            str(told.get("on_exceed") or WARN),
        )

    @property
    def limits(self) -> dict[str, float]:
        """The limits by period, DAY or MONTH."""
        told = {DAY: self.per_day, MONTH: self.per_month}
        return {period: limit for period, limit in told.items() if limit is not None}

    @property
    def acts(self) -> bool:
        """Whether slices are stopped or deleted."""
        return bool(self.limits) and self.on_exceed != WARN


def check_budget(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the budget, and with slices that it cannot stop."""
    problems = check_keys("", data, BUDGET, among=())
    told = data.get("fleet_budget")
    if problems or not isinstance(told, Mapping) or not told:
        return problems
    limits = {key: told[key] for key in ("per_day", "per_month") if told.get(key) is not None}
    if not limits:
        remedy = "Give per_day or per_month, in US dollars"
        problems.append(Problem("fleet_budget", None, "has no limit", remedy))
    for key, value in limits.items():
        if value < 0:
            problems.append(Problem(f"fleet_budget.{key}", value, "is below zero", "Use 0 or more"))
    if len(limits) == 2 and 0 <= limits["per_month"] < limits["per_day"]:
        remedy = "Raise it, or leave per_day out"
        message = f"is less than per_day ({limits['per_day']:g}), which then never counts"
        problems.append(Problem("fleet_budget.per_month", limits["per_month"], message, remedy))
    if told.get("on_exceed") == STOP:
        problems += _never_stopped(data)
    return problems


def _never_stopped(data: Mapping[str, Any]) -> list[Problem]:
    raw, zone = data.get("fleet_allocations"), text_of(data, "fleet_zone")
    grant = None if raw is None or allocation_problems(raw) else parse_allocations(raw)
    problems = []
    for _field, entry in entries(data, "fleet_slices"):
        one = Slice.read(entry, zone, grant=grant)
        obstacle = why_never_stopped(one)
        if obstacle:
            message = f"cannot be done with slice {one.name}: the API {obstacle}"
            remedy = "Use on_exceed: delete, which keeps data disks, or warn"
            problems.append(Problem("fleet_budget.on_exceed", STOP, message, remedy))
    return problems
