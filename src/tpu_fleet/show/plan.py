"""What an apply would do, in few lines of at most 80 columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.beside import BUCKET, DISK
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.spend import lines_of

from ..workers.inventory.hosts import fold
from ..workers.report import FINE, Failure, Report, grouped
from .cost import amount_of, dollars, total
from .figures import amount

WIDTH = 80
INDENT = 12
NAMED = 6
"""Rows of one kind that are shown; the others are counted."""
SIGNS = {"create": "+", "recreate": "+", "delete": "-"}
VERBS = {"started": "start", "restarted": "restart", "stopped": "stop"}
NEW = "its slice is new"


def machines_to_set_up(report: Report) -> list[dict[str, Any]]:
    """Return the machines that a plan sets up: those to be created, then those that differ."""
    found = [
        {"host": host, "slice": change["slice"], "new": True, "roles": [], "changes": None}
        for change in report.plan.get("changes", ())
        for host in change["hosts"]
    ]
    new = {one["host"] for one in found}
    return found + [
        {
            "host": one.host,
            "slice": one.slice,
            "new": False,
            "roles": list(one.roles),
            "changes": one.changed,
        }
        for one in report.machines.values()
        if one.changed and one.host not in new
    ]


def runs_to_change(report: Report) -> list[dict[str, Any]]:
    """Return the runs that a plan starts, restarts or stops, those of new slices among them."""
    there = {(one["run"], one["slice"]) for one in report.runs}
    new = {one["slice"] for one in report.plan.get("changes", ()) if one["hosts"]}
    return [
        *report.runs,
        *(
            {"run": run, "slice": name, "does": "started", "why": [NEW], "note": ""}
            for name in sorted(new)
            for run in report.declared.get(name, ())
            if (run, name) not in there
        ),
    ]


def unknown_of(report: Report) -> list[tuple[str, str]]:
    """Return what could not be found out, each with why."""
    return [(one.host, one.problem or one.status) for one in report.troubled]


def waits_of(report: Report) -> list[tuple[str, str]]:
    """Return the slices that are not there, and that no action of the plan brings."""
    acted = {one["slice"] for one in report.plan.get("changes", ())}
    return [
        (name, f"{phase}: {text}")
        for name, (phase, text) in report.slices.items()
        if phase not in FINE and name not in acted
    ]


def something(report: Report) -> bool:
    """Return whether an apply would do anything."""
    return bool(
        report.plan.get("changes")
        or waits_of(report)
        or machines_to_set_up(report)
        or runs_to_change(report)
        or report.around
    )


def as_data(report: Report, code: int) -> dict[str, Any]:
    """Return the plan for programs."""
    return {
        "slices": report.plan.get("changes", []),
        "slices_that_wait": [{"slice": name, "why": why} for name, why in waits_of(report)],
        "slices_on_queue": report.plan.get("on_queue", []),
        "machines": machines_to_set_up(report),
        "runs": runs_to_change(report),
        "around": report.around,
        "unknown": [{"worker": name, "why": why} for name, why in unknown_of(report)],
        "not_declared": report.plan.get("orphans", []),
        "beside": report.beside,
        "usd_per_hour": report.plan.get("usd_per_hour"),
        "usd_per_hour_billed": report.plan.get("usd_per_hour_billed"),
        "budget": report.plan.get("budget"),
        "failures": [{"host": one.host, "text": one.text} for one in report.failures],
        "exit_code": code,
    }


def plan_text(report: Report) -> list[str]:
    """Return the lines for a person."""
    lines = [
        *_part("slices", [*map(_slice_row, report.plan.get("changes", ()))]),
        *_part("waits", [f"{name}: {why}" for name, why in waits_of(report)]),
        *_part("on queue", [*map(_on_queue_row, report.plan.get("on_queue", ()))]),
        *_part("set up", _machine_rows(machines_to_set_up(report))),
        *_part("runs", run_rows(runs_to_change(report), VERBS)),
        *_part("also", report.around),
        *_part("beside", [*map(_beside_row, report.beside)]),
        *_part("unknown", _unknown_rows(report)),
    ]
    if not something(report) and not unknown_of(report):
        lines += _part("nothing", [_nothing(report)])
    orphans = report.plan.get("orphans", ())
    if orphans and not report.plan.get("prunes"):
        lines += _part("kept", [f"not declared, and left as it is: {', '.join(orphans)}"])
    lines += _part("cost then", [*_cost(report.plan), *_cost_beside(report.beside)])
    return [*lines, *_part("budget", lines_of(report.plan.get("budget")))]


def _unknown_rows(report: Report) -> list[str]:
    same = grouped(Failure(name, why) for name, why in unknown_of(report))
    return [f"{fold(names)}: {why}" for names, why in same]


def _nothing(report: Report) -> str:
    there = [amount(len(report.slices), "slice"), amount(len(report.machines), "machine")]
    return f"{' and '.join(there)}, all as declared."


def _part(title: str, rows: Sequence[str]) -> list[str]:
    """Return a part of the text, with its title before the first line."""
    lines = []
    for row in rows[:NAMED]:
        lines += wrap(row, WIDTH - INDENT, subsequent_indent="  ", break_on_hyphens=False)
    if len(rows) > NAMED:
        lines.append(f"and {len(rows) - NAMED} more (--json has them all)")
    return [f"{title if at == 0 else '':<{INDENT}}{line}" for at, line in enumerate(lines)]


def _slice_row(change: Mapping[str, Any]) -> str:
    sign = SIGNS.get(change["does"], "~")
    what = f"{sign} {change['does']} {change['slice'] or change['what']}"
    kind = ", ".join(one for one in (change["accelerator_type"], _tier(change["tier"])) if one)
    kind = f" ({kind})" if kind else ""
    fields = f" {', '.join(change['fields'])}" if change["fields"] else ""
    why = "" if change["does"] == "create" else f": {change['why']}"
    price = _price(change) if change["chips"] else ""
    return f"{what}{kind}{fields} in {change['zone']}{why}{price}"


def _on_queue_row(row: Mapping[str, Any]) -> str:
    does = "would be created by the watcher" if row["comes"] else "rests"
    return f"{row['slice']}: {does}: {row['why']}"


def _tier(tier: str) -> str:
    return tier.replace("_", " ")


def _price(change: Mapping[str, Any]) -> str:
    full, billed = change["usd_per_hour"], change["usd_per_hour_billed"]
    if change["does"] == "delete":
        return f"; {dollars(full)}/h less"
    until = f" until {change['granted_until']}" if change["granted_until"] else ""
    if billed == 0 and full != 0:
        return f"; {dollars(full)}/h, the grant pays it{until}"
    if full is None or billed == full:
        return f"; {dollars(full)}/h, billed"
    return f"; {dollars(full)}/h, {dollars(billed)} of it billed, the grant pays the rest{until}"


def _beside_row(row: Mapping[str, Any]) -> str:
    """Return what costs beside the chips: of a bucket, what is put into it."""
    own = row["what"] in (DISK, BUCKET)
    what = f"+ {row['what']} {row['name'] if own else 'of ' + row['name']}"
    amounts = [row["kind"].lower(), "" if row["what"] == BUCKET else amount_of(row)]
    kind = ", ".join(filter(None, amounts))
    price = f"{dollars(row['usd_per_month'])} a month"
    if row["what"] == BUCKET:
        price = f"{dollars(row['usd_per_gb_month'], 3)} a GB and month"
    return f"{what} ({kind}) in {row['place']}; {price}"


def _machine_rows(machines: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a row for each set of roles, with the machines that get it."""
    same: dict[str, list[str]] = {}
    for one in machines:
        what = "new, all roles" if one["new"] else ", ".join(one["roles"]) or "changes"
        same.setdefault(what, []).append(one["host"])
    return [f"{fold(hosts)}: {what}" for what, hosts in same.items()]


def run_rows(
    runs: Iterable[Mapping[str, Any]], verbs: Mapping[str, str] | None = None
) -> list[str]:
    """Return a row for each thing that is done to runs, with the reason; `verbs` rename it."""
    same: dict[tuple[str, str], list[str]] = {}
    notes = []
    for one in runs:
        key = ((verbs or {}).get(one["does"], one["does"]), ", ".join(one["why"]))
        same.setdefault(key, []).append(f"{one['run']} ({one['slice']})")
        notes += [f"{one['run']} ({one['slice']}): {one['note']}."] if one["note"] else []
    rows = [f"{does} {_listed(names)}: {why}" for (does, why), names in same.items()]
    return [*rows, *notes]


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _cost(plan: Mapping[str, Any]) -> list[str]:
    if not plan:
        return []
    full, billed = plan["usd_per_hour"], plan["usd_per_hour_billed"]
    return [f"{dollars(full)} an hour at list price, {dollars(billed)} of it billed"]


def _cost_beside(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    if not rows:
        return []
    text = total(rows, "usd_per_month")
    return [f"{text} a month for what is new beside the chips, which no grant pays"]
