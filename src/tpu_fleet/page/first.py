"""The first screen of the page: what needs a person, and the tiles. Pure."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._host.run_states import FAILED, RUNNING

from ..history.money import Account, Chips
from ..history.story import RunStory
from ..show.cost import days_left, dollars, idle_price, total
from ..show.figures import percent_text, share_text
from ..show.fleet import planned
from ..workers.inventory.hosts import fold
from . import words

IDLE_AFTER = 600.0
"""Seconds without a run after which chips are called idle: between two runs they are for a moment.
"""
DOCTOR = "tpu-fleet doctor"


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page."""

    label: str
    value: str
    more: str = ""
    bad: bool = False


@dataclass(frozen=True)
class Need:
    """Something that needs a person."""

    state: str
    name: str
    text: str
    since: float | None = None
    who: str = ""
    anchor: str = ""
    """The place of the page that has more about it."""
    run: str = ""
    """Of a run, its slice and its name."""
    command: str = ""
    bad: bool = True
    """False for what only wants to be known."""


@dataclass(frozen=True)
class WorkerRow:
    """A worker at the last look that asked it."""

    name: str
    slice: str
    state: str
    why: str = ""
    since: float | None = None


def need_of_run(one: RunStory, anchor: str, names: Mapping[str, int]) -> Need:
    """Return what a run in trouble needs; `names` has on how many slices there is one so named."""
    view = one.view
    command = DOCTOR
    if view.has_hung or view.state in (FAILED, RUNNING) or view.loss_trouble is not None:
        what = "why" if view.has_hung or view.quiet is not None else "logs"
        command = f"tpu-fleet {what} {shlex.quote(one.run)}"
        command += f" --slice {shlex.quote(one.slice)}" if names.get(one.run, 1) > 1 else ""
        command += " --hang" if view.has_hung else ""
    trouble = view.loss_trouble if view.state != FAILED else None
    at = trouble.get("at") if trouble is not None else None
    age = one.age if view.quiet is None else view.quiet
    since = float(at) if at else None if age is None else one.until - age
    who = " · ".join(filter(None, (one.user, one.slice)))
    return Need(view.word, one.run, view.why, since, who, anchor, one.name, command)


def needs_of_workers(rows: Iterable[WorkerRow], silent: Iterable[str]) -> list[Need]:
    """Return workers in a state that is not fine, those of a slice with one reason together."""
    groups: dict[tuple[str, str, str], list[WorkerRow]] = {}
    for row in rows:
        if row.state not in silent:
            groups.setdefault((row.slice, row.state, row.why), []).append(row)
    return [
        Need(
            state,
            fold(row.name for row in group),
            why or state,
            min((row.since for row in group if row.since is not None), default=None),
            anchor=f"slice/{name}",
            command=DOCTOR,
        )
        for (name, state, why), group in groups.items()
    ]


def need_of_idle(chips: Chips, since: Mapping[str, float]) -> list[Need]:
    """Return the chips that no run has used for a while, with their price; or nothing."""
    if not chips.idle:
        return []
    price = idle_price(chips.idle_usd, chips.idle_billed)
    text = f"{chips.idle:,} of {chips.all:,} chips have no running run: {price}"
    name = fold(chips.slices)
    at = max((since[one] for one in chips.slices if one in since), default=None)
    named = " ".join(map(shlex.quote, chips.slices)) if len(chips.slices) < 4 else "SLICE"
    command = f"tpu-fleet slice delete {named}"
    return [Need("idle", name, text, at, anchor="use", command=command, bad=False)]


def needs_of_plans(coming: Mapping[str, str]) -> list[Need]:
    """Return the announced maintenance of slices."""
    return [
        Need("coming", name, planned(text), anchor=f"slice/{name}", bad=False)
        for name, text in coming.items()
    ]


def tile_of_runs(there: Sequence[RunStory], queued: int = 0) -> Tile:
    """Count the runs by their states; those in trouble are the number that is read first."""
    states = Counter((not one.view.is_troubled, one.view.state_word) for one in there)
    fine = {word: count for (is_fine, word), count in states.most_common() if is_fine}
    running = f"{fine.pop('running', 0)} running"
    bad = [f"{count} {word}" for (is_fine, word), count in states.most_common() if not is_fine]
    rest = [f"{count} {word}" for word, count in fine.items()]
    rest += [f"{queued} in the queue"] if queued else []
    if bad:
        return Tile("Runs", ", ".join(bad), " · ".join([running, *rest]), True)
    more = " · ".join(rest) or ("all of them" if there else "")
    return Tile("Runs", running, more)


def use_of(running: Sequence[RunStory]) -> str:
    """Return how much the chips of all runs work, and how full their memory is; or nothing."""
    timed = [(one.view.duty_cycle, one.chips or 1) for one in running]
    known = [(duty, chips) for duty, chips in timed if duty is not None]
    parts = []
    if known:
        mean = sum(duty * chips for duty, chips in known) / sum(chips for _duty, chips in known)
        parts.append(f"duty cycle {percent_text(mean)}")
    sizes = [(one.view.memory_used or 0, one.view.memory) for one in running if one.view.memory]
    if sizes:
        used, whole = (sum(column) for column in zip(*sizes, strict=True))
        parts.append(f"HBM {share_text(used / whole)}")
    return " · ".join(parts)


def tile_of_chips(
    chips: Chips, ready: tuple[int, int], answer: tuple[int, int], use: str = ""
) -> Tile:
    """Say how many chips are used, how much, slices ready, and workers answer."""
    more = f"{use} · " if use else ""
    more += f"{ready[0]} of {ready[1]} slices ready · {answer[0]} of {answer[1]} workers answer"
    bad = ready[0] < ready[1] or answer[0] < answer[1]
    return Tile("Chips", f"{chips.busy:,} of {chips.all:,} busy", more, bad)


def tile_of_risk(running: Sequence[RunStory]) -> Tile:
    """Say how much work would be lost now."""
    known = [(one.at_risk, one.chips) for one in running if one.at_risk is not None]
    if not known:
        more = "no checkpoint is known" if running else "no run is running"
        return Tile("Would be lost now", "unknown" if running else "nothing", more)
    hours = words.number(round(sum(age / 3600 * chips for age, chips in known), 1))
    return Tile("Would be lost now", words.long(max(known)[0]), f"{hours} chip hours")


def tile_of_money(everybodys: Sequence[Mapping[str, Any]], account: Account) -> Tile:
    """Say what is billed, and what was free by the grant."""
    use = account.whole
    free = dollars(max(0.0, use.list_usd - use.usd))
    more = (
        f"{total(everybodys, 'usd_so_far')} so far · {free} free in {words.long(account.seconds)}"
    )
    hourly = total(everybodys, "usd_per_hour_billed")
    billed = any(node["usd_per_hour_billed"] for node in everybodys)
    return Tile("Billed now", f"{hourly} an hour", more, billed)


def tile_of_grant(days: int, last_day: str, used: int, chips: int) -> Tile:
    """Say how long the entry of the grant lasts that ends first."""
    more = f"ends {last_day} · {used} of {chips} chips held"
    return Tile("Grant", days_left(days), more, days < 7)
