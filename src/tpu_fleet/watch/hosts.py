"""What the workers themselves say, and what follows of it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..notify.message import Message
from . import tell
from .decide import READY, SliceSeen
from .memory import Memory, SliceMemory

ENDED = ("failed", "succeeded")
GRAVITY = {"failed": 0, "restarting": 1, "stopped": 2, "pending": 3, "running": 4}


@dataclass(frozen=True)
class HostSeen:
    """What one worker said, or why it said nothing."""

    reached: bool
    says: str = ""
    boot_id: str = ""
    set_up: bool = True
    applied: str = ""
    """What is noted there as applied, by a hash."""
    used: tuple[str, ...] = ()
    """Who is logged in there or holds a chip."""
    runs: tuple[Mapping[str, Any], ...] = ()


def host_of(output: bytes) -> HostSeen:
    """Understand what the script printed."""
    try:
        said = json.loads(output)
        return HostSeen(
            reached=True,
            boot_id=str(said["boot_id"]),
            set_up=bool(said["set_up"]),
            applied=str(said["applied"]),
            used=tuple(map(str, said["used"])),
            runs=tuple(run for run in said["runs"] if isinstance(run, Mapping)),
        )
    except (ValueError, KeyError, TypeError):
        return HostSeen(reached=False, says="its answer cannot be understood")


@dataclass(frozen=True)
class Heard:
    """What is new after the workers were asked."""

    memory: Memory
    messages: list[Message] = field(default_factory=list)
    known_already: list[str] = field(default_factory=list)
    """Keys of what happened before there was a watcher."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Workers that do not answer, and what is known of it."""
    runs: list[dict[str, Any]] = field(default_factory=list)


def hear(
    memory: Memory,
    seen: Sequence[SliceSeen],
    looks: Mapping[str, Mapping[str, HostSeen]],
    declared: Mapping[str, Iterable[str]],
    now: float,
) -> Heard:
    """Take in what the workers of slices said; declared are the runs that each slice is to have."""
    messages: list[Message] = []
    known_already: list[str] = []
    away: dict[str, str] = {}
    shown: list[dict[str, Any]] = []
    for one in seen:
        hosts = looks.get(one.name)
        if one.phase != READY or not hosts:
            continue
        known = memory.slice(one.name)
        # A first look at all tells of the past; the first at a new node does not.
        old_story = one.uid not in memory.hosts_known and not known.due and not known.healed
        known = _workers(known, hosts, declared.get(one.name, ()), now)
        runs = runs_of(hosts)
        shown += [{**run, "slice": one.name, "event": None, "tail": None} for run in runs]
        if known.healed:
            messages.append(tell.healed(one.name, known.healed, runs, one.uid, now))
            known = replace(known, healed="")
        for run in runs:
            if run.get("state") in ENDED:
                key = _key(one.name, run)
                if old_story:
                    known_already.append(key)
                else:
                    messages.append(tell.run_ended(one.name, run, key, now))
        away |= {name: host.says for name, host in hosts.items() if not host.reached}
        memory = memory.with_slice(one.name, known)
        if any(host.reached for host in hosts.values()) and one.uid not in memory.hosts_known:
            memory = replace(memory, hosts_known=(*memory.hosts_known, one.uid)[-2000:])
    return Heard(memory, messages, known_already, away, shown)


def _workers(
    known: SliceMemory, hosts: Mapping[str, HostSeen], declared: Iterable[str], now: float
) -> SliceMemory:
    due, resumed = list(known.due), list(known.resumed)
    boots, away = dict(known.boots), dict(known.away)
    lost_at = known.lost_at
    for name, host in hosts.items():
        if not host.reached:
            away.setdefault(name, now)
            continue
        since = away.pop(name, None)
        before = boots.get(name)
        boots[name] = host.boot_id
        if before and before != host.boot_id:
            due.append(f"{name} was booted anew")
            lost_at = lost_at or since or now
        elif since is not None and before:
            due.append(f"{name} answers again")
            lost_at = lost_at or since
        elif not host.set_up:
            due.append(f"{name} was never set up")
    answers = [host for host in hosts.values() if host.reached]
    for run in declared:
        missing = [host for host in answers if not any(one.get("run") == run for one in host.runs)]
        # Once for a node: what a playbook does not bring, it will not bring by being repeated.
        if missing and not due and run not in resumed:
            due.append(f"run {run} is not there")
            resumed.append(run)
    return replace(
        known,
        due=tuple(dict.fromkeys(due)),
        boots=boots,
        away=away,
        resumed=tuple(resumed),
        lost_at=lost_at,
    )


def runs_of(hosts: Mapping[str, HostSeen]) -> list[dict[str, Any]]:
    """Return each run of a slice once: as the worker says that has most to tell of it."""
    best: dict[str, dict[str, Any]] = {}
    for name, host in hosts.items():
        for run in host.runs:
            mine = {**run, "host": name}
            other = best.get(str(run.get("run")))
            if other is None or _weight(mine) < _weight(other):
                best[str(run.get("run"))] = mine
    return list(best.values())


def _weight(run: Mapping[str, Any]) -> tuple[Any, ...]:
    """Sort what is to be told first before the rest."""
    event = run.get("event") or {}
    own_fault = run.get("exit_code") not in (0, None) or bool(run.get("signal"))
    return (
        -int(run.get("attempt") or 0),
        GRAVITY.get(str(run.get("state")), 5),
        not event.get("tail"),
        not own_fault,
        int(run.get("worker") or 0),
    )


def _key(slice_name: str, run: Mapping[str, Any]) -> str:
    """Name the end of a run: the same on every worker of the slice."""
    name, run_id, attempt = run.get("run"), run.get("run_id"), run.get("attempt")
    return f"run:{slice_name}:{name}:{run_id}:{attempt}:{run.get('state')}"
