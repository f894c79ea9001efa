"""Decide which slices are no longer needed: their runs are over, or they are idle. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import KEEP
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    ENDED_OR_STOPPED,
    SUCCEEDED,
)

from ..notify.message import Message
from ..show.times import long
from . import tell
from .decide import AGAIN, MOST, Finish, Outcome, SliceSeen
from .hosts import HostSeen, runs_of
from .memory import SliceMemory
from .trouble import pause

UNSEEN = 1200.0
"""Longest gap between two answers of the workers that still counts as idle time."""


def look_after(
    known: SliceMemory,
    one: SliceSeen,
    hosts: Mapping[str, HostSeen],
    declared: Iterable[str],
    now: float,
    awaited: bool = False,
) -> tuple[SliceMemory, Finish | None]:
    """Record who uses a slice; return whether to stop or delete it now.

    `awaited`: it is there for a submitted run that may begin at any time.
    """
    answers = [host for host in hosts.values() if host.reached]
    complete = len(answers) == len(hosts) >= max(1, len(one.addresses))
    if one.want.on_finish == KEEP or one.phase != READY or known.due or not complete:
        return replace(known, idle_since=0.0), None
    applied = " ".join(host.applied for _name, host in sorted(hosts.items()))
    fresh = known.mark == "" or applied != known.applied
    gap = now - known.asked_at > UNSEEN
    since = 0.0 if gap else known.idle_since
    since = 0.0 if awaited or in_use(hosts) else since or now
    known = replace(known, applied=applied, asked_at=now, idle_since=since)
    if fresh:
        known = replace(known, mark=one.want.mark)
    if in_use(hosts):
        known = replace(known, rest_failures=0, rest_at=0.0)
    # Changed runs that are not yet applied have not started.
    if awaited or in_use(hosts) or known.mark != one.want.mark or known.rest_at > now:
        return known, None
    ends = ends_of(hosts, declared)
    rest = one.rest
    before = rest is not None and rest.done and (rest.mark, rest.ends) == (one.want.mark, ends)
    if ends and not before:
        return known, Finish(one.want.on_finish, "its runs have finished", ends)
    if one.want.idle_after and now - since >= one.want.idle_after:
        why = f"unused for {long(now - since)}"
        return known, Finish(one.want.on_finish, why, ends, on_queue=one.want.on_queue)
    return known, None


def in_use(hosts: Mapping[str, HostSeen]) -> list[str]:
    """Return why a slice is needed: its active runs and users."""
    found = []
    for name, host in hosts.items():
        found += [f"{text} ({name})" for text in host.used]
        found += [
            f"run {run.run} is {run.state}"
            for run in host.runs
            if run.state not in ENDED_OR_STOPPED
        ]
    return list(dict.fromkeys(found))


def ends_of(hosts: Mapping[str, HostSeen], declared: Iterable[str]) -> str:
    """Return a hash of the ends of all declared runs; empty unless all succeeded everywhere.

    A hash, because a playbook gets it, which must not get text from a worker.
    """
    wanted = sorted(declared)
    for name in wanted:
        for host in hosts.values():
            if not any((run.run, run.state) == (name, SUCCEEDED) for run in host.runs):
                return ""
    best = {run.run: run for run in runs_of("", hosts)}
    ends = " ".join(f"{name}:{best[name].run_id}:{best[name].attempt}" for name in wanted)
    return hashlib.sha256(ends.encode(errors="backslashreplace")).hexdigest() if ends else ""


def done(
    known: SliceMemory, outcome: Outcome, now: float
) -> tuple[SliceMemory, list[Message], str]:
    """Record the outcome; return the notification, or why the playbook failed."""
    [name], finish = outcome.job.slices, outcome.job.finish
    if finish is None or outcome.code:
        failures = known.rest_failures + 1
        known = replace(known, rest_failures=failures, rest_at=now + pause(failures, AGAIN, MOST))
        return known, [], outcome.says(name) or "the playbook failed; its log says why"
    known = replace(known, rest_failures=0, rest_at=0.0, idle_since=0.0)
    message = tell.rests(
        *(name, finish.how, finish.why, finish.ends, now), finish.held, finish.on_queue
    )
    return known, [message], ""
