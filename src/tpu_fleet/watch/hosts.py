"""The workers' answers, and what follows from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import AnswerError
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    RunStatus,
    standing,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import READY
from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import ENDED

from ..notify.message import Message
from ..workers.ask.run_view import Run, RunView, state_of_run, views_of
from . import tell
from .decide import SliceSeen
from .memory import Memory, SliceMemory

MOST_TOLD = 20
"""Runs of a slice that are notified one by one at each poll."""


@dataclass(frozen=True)
class HostSeen:
    """The answer of one worker, or why there is none."""

    reached: bool
    says: str = ""
    now: float = 0.0
    """The time there, in seconds since 1970."""
    boot_id: str = ""
    set_up: bool = True
    applied: str = ""
    """Hash of what is recorded there as applied."""
    used: tuple[str, ...] = ()
    """The users who are logged in there or hold a chip."""
    runs: tuple[RunStatus, ...] = ()

    def runs_of(self, name: str, host: str) -> list[Run]:
        """Return its runs, as those of a worker of a slice."""
        return [
            Run(host, name, run.worker, state_of_run(run, self.boot_id), run, self.now)
            for run in self.runs
        ]


def host_of(worker: str, output: bytes) -> HostSeen:
    """Parse the script's output; report an invalid answer."""
    try:
        said = standing(worker, output)
    except AnswerError as error:
        return HostSeen(reached=False, says=error.says)
    return HostSeen(
        reached=True,
        now=said.now,
        boot_id=said.boot_id,
        set_up=said.set_up,
        applied=said.applied,
        used=said.used,
        runs=said.runs,
    )


@dataclass(frozen=True)
class Heard:
    """What is new after the workers were asked."""

    memory: Memory
    messages: list[Message] = field(default_factory=list)
    known_already: list[str] = field(default_factory=list)
    """Keys of events from before the first watcher."""
    away: Mapping[str, str] = field(default_factory=dict)
    """Workers that do not answer, and why."""
    runs: list[dict[str, Any]] = field(default_factory=list)


def hear(
    memory: Memory,
    seen: Sequence[SliceSeen],
    looks: Mapping[str, Mapping[str, HostSeen]],
    declared: Mapping[str, Iterable[str]],
    now: float,
) -> Heard:
    """Evaluate the answers of slices' workers; `declared` has the declared runs of each slice."""
    heard = Heard(memory)
    for one in seen:
        hosts = looks.get(one.name)
        if one.phase != READY or not hosts:
            continue
        try:
            heard = _hear_one(heard, one, hosts, declared.get(one.name, ()), now)
        # Invalid answers of a slice affect only that slice.
        except Exception as error:
            says = f"its answer cannot be used: {type(error).__name__}"
            heard = replace(heard, away={**heard.away, **dict.fromkeys(hosts, says)})
    return heard


def _hear_one(
    heard: Heard, one: SliceSeen, hosts: Mapping[str, HostSeen], declared: Iterable[str], now: float
) -> Heard:
    """Evaluate the answers of one slice's workers."""
    memory, messages, known_already = heard.memory, [*heard.messages], [*heard.known_already]
    known = memory.slice(one.name)
    # The first poll of the fleet sees ends from before; that of a new node does not.
    old_story = one.uid not in memory.hosts_known and not known.due and not known.healed
    known = _workers(known, hosts, declared, now)
    runs = runs_of(one.name, hosts)
    if any(host.reached for host in hosts.values()):
        places = {run.run: run.checkpoints_on for run in runs if run.checkpoints_on}
        known = replace(known, checkpoints=places)
    if known.healed:
        messages.append(tell.healed(one.name, known.healed, runs, one.uid, now))
        known = replace(known, healed="")
    ended = [(run, _key(run)) for run in runs if run.state in ENDED]
    if not old_story:
        fresh = [(run, key) for run, key in ended if not memory.outbox.knows(key)]
        # A worker that invents runs must not displace messages about others.
        ended = fresh[MOST_TOLD:]
        messages += [tell.run_ended(run, key, now) for run, key in fresh[:MOST_TOLD]]
        if ended:
            messages.append(tell.more_runs(one.name, [run for run, _key in ended], now))
    in_trouble = [(run, _loss_key(run)) for run in runs if run.loss_trouble is not None]
    if not old_story:
        unheard = [(run, key) for run, key in in_trouble if not memory.outbox.knows(key)]
        in_trouble = unheard[MOST_TOLD:]
        messages += [tell.loss_trouble(run, key, now) for run, key in unheard[:MOST_TOLD]]
    known_already += [key for _run, key in [*ended, *in_trouble]]
    memory = memory.with_slice(one.name, known)
    if any(host.reached for host in hosts.values()) and one.uid not in memory.hosts_known:
        memory = replace(memory, hosts_known=(*memory.hosts_known, one.uid)[-2000:])
    away = {name: host.says for name, host in hosts.items() if not host.reached}
    shown = [run.to_dict() for run in runs]
    return Heard(memory, messages, known_already, {**heard.away, **away}, [*heard.runs, *shown])


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
            due.append(f"{name} was rebooted")
            lost_at = lost_at or since or now
        elif since is not None and before:
            due.append(f"{name} answers again")
            lost_at = lost_at or since
        elif not host.set_up:
            due.append(f"{name} was never set up")
    answers = [host for host in hosts.values() if host.reached]
    for run in declared:
        missing = [host for host in answers if not any(one.run == run for one in host.runs)]
        # Once per node: a second playbook would not start the run either.
        if missing and not due and run not in resumed:
            due.append(f"run {run} is missing")
            resumed.append(run)
    return replace(
        known,
        due=tuple(dict.fromkeys(due)),
        boots=boots,
        away=away,
        resumed=tuple(resumed),
        lost_at=lost_at,
    )


def runs_of(name: str, hosts: Mapping[str, HostSeen]) -> list[RunView]:
    """Return each run of a slice once."""
    return views_of(run for host, said in hosts.items() for run in said.runs_of(name, host))


def _loss_key(run: RunView) -> str:
    """Name a trouble with a loss: once for each attempt, however often it comes and goes."""
    trouble = run.loss_trouble or {}
    return f"loss:{run.slice}:{run.run}:{run.run_id}:{run.attempt}:{trouble.get('what')}"


def _key(run: RunView) -> str:
    """Name the end of a run: the same on every worker of the slice."""
    return f"run:{run.slice}:{run.run}:{run.run_id}:{run.attempt}:{run.state}"
