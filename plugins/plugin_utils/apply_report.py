# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Say in words what hosts did that applied themselves. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .apply_run import Outcome

# In the order of Ansible's own recap.
COUNTS = ("ok", "changed", "failed", "skipped", "rescued", "ignored")
STILL = "as declared, nothing to do"
COLOURS = {"ok": "green", "changed": "yellow", "failed": "red", "ignored": "cyan"}


def lines_of(host: str, said: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    """Yield text, colour, and from which verbosity on it is shown, of something a host said."""
    what = said["say"]
    if what == "begin":
        roles, reasons = said.get("roles", ()), said.get("reasons", ())
        yield f"applying: [{host}] {', '.join(roles)} ({short(reasons)})", "cyan", 1
    elif what == "waiting":
        holder = said.get("holder") or {}
        yield f"waiting: [{host}] for {holder.get('who') or 'somebody else'}", "cyan", 0
    elif what == "event" and said.get("event") == "task":
        yield from _task(host, said)


def _task(host: str, said: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    status = said["status"]
    if status == "skipped":
        return
    told = {"failed": "fatal", "ignored": "...ignoring"}.get(status, status)
    text = f"{told}: [{host}] {said['task']}"
    if status in ("failed", "ignored"):
        text += "".join(f"\n    {line}" for line in _why(said).splitlines())
    yield text, COLOURS.get(status, "green"), 1 if status == "ok" else 0
    if said.get("diff"):
        yield str(said["diff"]).rstrip(), "", 0


def _why(said: Mapping[str, Any]) -> str:
    parts = [str(said[name]).strip() for name in ("msg", "stderr", "stdout") if said.get(name)]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def recap(outcomes: Sequence[Outcome]) -> Iterable[tuple[str, str]]:
    """Yield the lines of the table, with their colours: first what needs no look."""
    still = [outcome for outcome in outcomes if outcome.status == "ok" and not outcome.counts]
    if still:
        yield f"{STILL}: {names([outcome.host for outcome in still])}", "green"
    width = max((len(outcome.host) for outcome in outcomes), default=0)
    for outcome in outcomes:
        if outcome.status == "ok" and not outcome.counts:
            continue
        if outcome.counts:
            numbers = " ".join(f"{name}={outcome.counts.get(name, 0):<4}" for name in COUNTS)
        else:
            numbers = outcome.status
        text = f"{outcome.host:<{width}} : {numbers.rstrip()}"
        if outcome.missed:
            text += "  (done after an earlier connection was lost)"
        elif outcome.reasons:
            text += f"  ({short(outcome.reasons)})"
        changed = outcome.counts.get("changed")
        yield text, "red" if outcome.status != "ok" else "yellow" if changed else "green"


def names(hosts: Sequence[str]) -> str:
    """List hosts, in one line."""
    more = f" and {len(hosts) - 6} more" if len(hosts) > 6 else ""
    return f"{', '.join(hosts[:6])}{more}"


def short(reasons: Sequence[str]) -> str:
    """List reasons, in one line."""
    told = "; ".join(reasons[:3])
    return f"{told}; and {len(reasons) - 3} more" if len(reasons) > 3 else told
