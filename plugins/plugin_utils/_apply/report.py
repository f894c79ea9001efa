# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe what hosts did that applied their roles themselves. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .run import Outcome

# In the order of Ansible's recap.
COUNTS = ("ok", "changed", "failed", "skipped", "rescued", "ignored")
STILL = "as declared, nothing to do"
GETS_ENGINE = "gets ansible-core"
PREPARES = "prepares"
WAITS = "waits for the first worker of its slice"
COLOURS = {"ok": "green", "changed": "yellow", "failed": "red", "ignored": "cyan"}


def lines_of(host: str, said: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    """Yield text, colour and least verbosity of the lines for a message of a host."""
    what = said["say"]
    if what == "begin":
        roles, reasons = said.get("roles", ()), said.get("reasons", ())
        yield f"applying: [{host}] {', '.join(roles)} ({short(reasons)})", "cyan", 0
    elif what == "waiting":
        holder = said.get("holder") or {}
        yield f"waiting: [{host}] for {holder.get('who') or 'another process'}", "cyan", 0
    elif what == "moved":
        yield f"moved: [{host}] is at {said['address']} now", "cyan", 0
    elif what == "event" and said.get("event") == "engine":
        yield f"installed: [{host}] ansible-core, in {said['seconds']} s", "cyan", 0
    elif what == "event" and said.get("event") == "task":
        yield from _task(host, said)


@dataclass
class RoleProgress:
    """The role that each host applies, since when, and how many of its tasks changed something.

    Instead of a role, what it does before the first one, or between two.
    """

    clock: Callable[[], float]
    _at: dict[str, tuple[str, float, int]] = field(default_factory=dict)
    # The role with which each host begins: what another does before it is only begun.
    _first: dict[str, str] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    # What the present task of a host reports that it does or waits for.
    _doing: dict[str, str] = field(default_factory=dict)
    # The hosts whose last task failed.
    _failed: set[str] = field(default_factory=set)

    def heard(self, host: str, said: Mapping[str, Any]) -> str:
        """Record a message of a host; return a line about the role that it has just finished."""
        event = said.get("event")
        if said["say"] == "begin":
            # Also a host that lost the connection and was called again.
            self._ended.discard(host)
        if said["say"] == "begin" or event == "engine":
            # The time before the first task counts for the first role.
            self._at[host] = (GETS_ENGINE, self.clock(), 0)
        if said["say"] == "begin":
            self._first[host] = next(iter(said.get("roles", ())), "")
        if event == "peers":
            finished = self._line(host)
            self._at[host] = (WAITS, self.clock(), 0)
            return finished
        if event == "doing":
            self._doing[host] = str(said["what"])
        if event != "task":
            return ""
        self._doing.pop(host, None)
        failed = said["status"] == "failed"
        (self._failed.add if failed else self._failed.discard)(host)
        role = role_of(said)
        if not role:
            return ""
        before, since, changed = self._at.get(host, (GETS_ENGINE, self.clock(), 0))
        if before == GETS_ENGINE and role != self._first.get(host, role):
            return ""
        finished = self._line(host) if before != role else ""
        if before not in (role, GETS_ENGINE):
            since, changed = self.clock(), 0
        self._at[host] = (role, since, changed + (said["status"] == "changed"))
        return finished

    def at(self, host: str) -> str:
        """Return what a host is at: a role, or what it does before the first one."""
        at = self._at[host][0] if host in self._at else ""
        return PREPARES if at == GETS_ENGINE else at

    def ended(self, host: str) -> str:
        """Return the line about the last role of a host that has finished."""
        line = self._line(host)
        if host in self._failed:
            line = line.replace("applied:", "failed:", 1)
        self._at.pop(host, None)
        self._ended.add(host)
        return line

    def still(self, hosts: Sequence[str], seconds: float) -> str:
        """Return a line while it waits: how many hosts are done, and what the others do."""
        at = self.clock()
        done = [host for host in hosts if host in self._ended]
        silent = [host for host in hosts if host not in self._at and host not in self._ended]
        longest = sorted((since, host, role) for host, (role, since, _order) in self._at.items())
        parts = [f"{len(done)} of {len(hosts)} machines done"]
        if longest:
            since, host, role = longest[0]
            more = f", and {len(longest) - 1} more at work" if longest[1:] else ""
            # What a program does in the background goes on beside a wait, or another role.
            doing = f", {self._doing[host]}" if host in self._doing else ""
            parts.append(f"[{host}] {role}{doing} ({at - since:.0f} s so far){more}")
        if silent:
            parts.append(f"no word yet from {names(silent)}")
        return f"after {seconds:.0f} s: {'; '.join(parts)}"

    def _line(self, host: str) -> str:
        role, since, changed = self._at.get(host, (GETS_ENGINE, 0.0, 0))
        if role in (GETS_ENGINE, WAITS):
            return ""
        return f"applied: [{host}] {role}, {changed} changed, in {self.clock() - since:.0f} s"


def _task(host: str, said: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    status = said["status"]
    if status == "skipped":
        return
    told = {"failed": "fatal", "ignored": "...ignoring"}.get(status, status)
    text = f"{told}: [{host}] {said['task']}"
    if status in ("failed", "ignored"):
        text += "".join(f"\n    {line}" for line in why_of(said).splitlines())
    yield text, COLOURS.get(status, "green"), 1 if status == "ok" else 0
    if said.get("diff"):
        yield str(said["diff"]).rstrip(), "", 0


def why_of(said: Mapping[str, Any]) -> str:
    """Return why a task failed, as the host reports it."""
    parts = [str(said[name]).strip() for name in ("msg", "stderr", "stdout") if said.get(name)]
    return "\n".join(dict.fromkeys(part for part in parts if part))


def role_of(said: Mapping[str, Any]) -> str:
    """Return the role of a task that a host reports; empty for the check before all roles."""
    role, of_role, _task = str(said["task"]).partition(" : ")
    return role.removeprefix("tpu.fleet.") if of_role else ""


def recap(outcomes: Sequence[Outcome]) -> Iterable[tuple[str, str]]:
    """Yield the lines of the table with their colours; hosts that need attention come last."""
    still = [outcome for outcome in outcomes if outcome.status == "ok" and not outcome.counts]
    if still:
        yield f"{STILL}: {names([outcome.host for outcome in still])}", "green"
    rows = [outcome for outcome in outcomes if outcome.status != "ok" or outcome.counts]
    width = max((len(outcome.host) for outcome in outcomes), default=0)
    if rows:
        yield "on the machines (Ansible's own recap counts the tasks of this computer):", ""
    for outcome in rows:
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


def of_slices(
    changes: Mapping[str, Sequence[Mapping[str, Any]]], slices: Mapping[str, str]
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return what becomes of each run, by its name and slice, given what each host reported.

    The first worker of a slice that names a run stands for the slice.
    """
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for host, runs in changes.items():
        for run in runs:
            found.setdefault((str(run["run"]), slices.get(host, host)), run)
    return found


def run_lines(
    changes: Mapping[str, Sequence[Mapping[str, Any]]],
    slices: Mapping[str, str],
    check: bool,
) -> Iterable[str]:
    """Yield the lines about runs that start, restart or stop, given what each host reported."""
    of_slice = of_slices(changes, slices)
    lines: dict[tuple[str, str], list[str]] = {}
    for (name, place), run in sorted(of_slice.items()):
        lines.setdefault((str(run["does"]), ", ".join(run["why"])), []).append(f"{name} ({place})")
    for (does, why), found in lines.items():
        yield f"{'would be ' if check else ''}{does}: {', '.join(found)}: {why}"
    notes = {run["note"]: (name, place) for (name, place), run in of_slice.items() if run["note"]}
    for note, (name, place) in notes.items():
        yield f"note: {name} ({place}): {note}."


def names(hosts: Sequence[str]) -> str:
    """Return a list of hosts in one line."""
    more = f" and {len(hosts) - 6} more" if len(hosts) > 6 else ""
    return f"{', '.join(hosts[:6])}{more}"


def short(reasons: Sequence[str]) -> str:
    """Return the reasons in one line."""
    told = "; ".join(reasons[:3])
    return f"{told}; and {len(reasons) - 3} more" if len(reasons) > 3 else told
