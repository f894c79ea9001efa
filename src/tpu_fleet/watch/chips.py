"""Decide what to do about chips that do not initialise: report, or recreate the slice. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import RECREATE
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import (
    FAILED,
    PENDING,
    RESTARTING,
    RUNNING,
)

from ..notify.message import Message
from ..show.times import long
from . import tell
from .decide import AGAIN, MOST, Outcome, SliceSeen
from .hosts import HostSeen, runs_of
from .memory import SliceMemory
from .trouble import pause

TIMES = 2
"""Starts that the same chips have failed."""
A_DAY = 86400.0
MOST_A_DAY = 2
"""Recreations of a slice within a day; new chips that fail too are for a person."""
_BETWEEN = (PENDING, RESTARTING, FAILED)


@dataclass(frozen=True)
class BadChips:
    """The worker of a slice whose chips have failed most starts."""

    host: str
    run: str
    state: str
    times: int
    said: str

    @property
    def text(self) -> str:
        """What is wrong, in words."""
        return (
            f"the chips of {self.host} did not initialise in {self.times} starts of run "
            f"{self.run}: {self.said}"
        )


@dataclass(frozen=True)
class Verdict:
    """What follows for a slice."""

    trouble: str = ""
    """What people should know; empty if its chips are well."""
    recreate: str = ""
    """Why to recreate it now; empty if not."""
    soon: bool = False
    """Whether to ask its workers again soon, because it is recreated between two starts."""


def of_slice(hosts: Mapping[str, HostSeen]) -> BadChips | None:
    """Return the worker whose chips have failed most starts; None if there were too few."""
    found = [
        BadChips(name, run.run, run.state, *run.bad_chips)
        for name, host in hosts.items()
        for run in host.runs
        if run.bad_chips is not None
        and run.bad_chips[0] >= TIMES
        and run.state in (*_BETWEEN, RUNNING)
    ]
    return max(found, key=lambda one: one.times, default=None)


def judged(
    known: SliceMemory, one: SliceSeen, hosts: Mapping[str, HostSeen], now: float, paid: bool
) -> Verdict:
    """Return what to do about a slice; `paid` says whether the budget has room for it."""
    bad = of_slice(hosts)
    if bad is None:
        return Verdict()
    if one.want.on_bad_chips != RECREATE:
        how = f"tpu-fleet slice delete {one.name}; tpu-fleet apply. Or set on_bad_chips: recreate"
        return Verdict(f"{bad.text}. To recreate the slice: {how}")
    obstacle = _obstacle(known, bad, hosts, now, paid)
    if obstacle or known.recreate_at > now:
        return Verdict(f"{bad.text}. {obstacle or 'It could not be recreated, and is tried again'}")
    # Between two starts nothing of it is alive, and nothing is written.
    if bad.state not in _BETWEEN:
        return Verdict(f"{bad.text}. The slice is recreated when this start has ended", soon=True)
    return Verdict(f"{bad.text}. The slice is recreated", recreate=bad.text)


def _obstacle(
    known: SliceMemory, bad: BadChips, hosts: Mapping[str, HostSeen], now: float, paid: bool
) -> str:
    """Return why a slice is not recreated; empty if it may be."""
    recent = [at for at in known.recreated if now - at < A_DAY]
    if len(recent) >= MOST_A_DAY:
        return f"It was recreated {len(recent)} times in {long(A_DAY)} and is not again"
    if not paid:
        return "It is not recreated, because fleet_budget is spent"
    used = [f"{text} ({name})" for name, host in hosts.items() for text in host.used]
    used += [
        f"run {run.run} runs"
        for run in runs_of("", hosts)
        if run.state == RUNNING and run.run != bad.run
    ]
    missing = [name for name, host in hosts.items() if not host.reached]
    used += [f"{name} does not answer" for name in missing]
    return f"It is not recreated yet: {'; '.join(dict.fromkeys(used))}" if used else ""


def begun(known: SliceMemory, uid: str, now: float) -> SliceMemory:
    """Record that a slice is being recreated, so that its loss is no preemption."""
    return replace(known, lost_as=f"GONE {uid}", lost_at=now)


def done(
    known: SliceMemory, outcome: Outcome, now: float
) -> tuple[SliceMemory, list[Message], str]:
    """Record the outcome; return the notification, or why the playbook failed."""
    [name] = outcome.job.slices
    if outcome.code:
        failures = known.recreate_failures + 1
        again = now + pause(failures, AGAIN, MOST)
        known = replace(
            known, recreate_failures=failures, recreate_at=again, lost_as="", lost_at=0.0
        )
        return known, [], outcome.says(name) or "the playbook failed; its log says why"
    recent = [at for at in known.recreated if now - at < A_DAY]
    known = replace(known, recreated=(*recent, now), recreate_failures=0, recreate_at=0.0)
    why = outcome.job.why[0].partition(": ")[2]
    return known, [tell.recreated(name, why, now)], ""
