"""A fleet's history, made up from a seed: as long, as large and as troubled as a test wants."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.answer import Words
from ansible_collections.tpu.fleet.plugins.module_utils._core.worker_words import (
    RunStatus,
    run_status,
)

from tpu_fleet.history import look
from tpu_fleet.history.store import Event, History, Look, Point
from tpu_fleet.workers.ask import run_view
from tpu_fleet.workers.inventory.fleet_facts import FleetView

DAY = 86400.0
STEP_SECONDS = 0.8
CHECKPOINT = 1200
PEOPLE = ("alice", "bob", "carol", "dan", "erin", "frank", "grace")
ZONE = "us-central2-b"


@dataclass
class Run:
    """A run, and what its agent has written down until now."""

    slice: str
    name: str
    user: str
    workers: int
    begun: float
    attempt: int = 0
    step: int = 0
    first: int = 0
    worked_at: float | None = None
    since: float = 0.0
    state: str = "running"
    reason: str = ""
    saved_at: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)
    by_worker: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    def tell(self, at: float, event: str, worker: int = 0, **detail: Any) -> None:
        """Write an event down."""
        entry = {"at": round(at, 3), "attempt": self.attempt, "event": event, **detail}
        self.by_worker.setdefault(worker, []).append(entry)

    def start(self, at: float, first: int = 0) -> None:
        """Begin an attempt."""
        self.attempt += 1
        self.step, self.first, self.since, self.state = first, first, at, "running"
        for worker in range(self.workers):
            self.tell(at + 0.1 * worker, "attempt-started", worker)
            counts = {"programs": 61, "hits": 58 if self.attempt > 1 else 0, "misses": 3}
            after = sum(self.parts.values()) - self.parts["wait"]
            self.tell(
                at + after, "first-step", worker, seconds=after, parts=self.parts, counts=counts
            )

    @property
    def parts(self) -> dict[str, float]:
        """Return the seconds of the last start: the cache of the first attempt is empty."""
        return {
            "wait": 4.0, "prepare": 0.6, "import": 6.2, "restore": 3.9,
            "compile": 2.4 if self.attempt > 1 else 48.0, "first_step": 17.0,
        }  # fmt: skip

    def inside(self, at: float) -> dict[str, float]:
        """Return the seconds of the attempt by their kind."""
        length, parts = max(0.0, at - self.since), self.parts
        start = {
            "init": parts["prepare"] + parts["import"] + parts["first_step"],
            "restore": parts["restore"],
            "compile": parts["compile"],
        }
        left = length - sum(start.values())
        if left <= 0:
            return {"init": length}
        return {**start, "data": 0.02 * left, "save": 0.01 * left, "step": 0.97 * left}

    def loss(self) -> float:
        """Return what a program would report."""
        return 0.35 + 3.2 * math.exp(-self.step / 90_000) + 0.02 * math.sin(self.step / 700)

    def work(self, at: float, seconds: float) -> None:
        """Do steps, and report them."""
        seconds = min(seconds, at - self.since)
        if seconds <= 0:
            return
        self.step += int(seconds / STEP_SECONDS)
        self.worked_at = at
        self.tell(at, "progress", step=self.step, numbers={"loss": round(self.loss(), 5)})
        if self.step // CHECKPOINT > (self.step - int(seconds / STEP_SECONDS)) // CHECKPOINT:
            self.saved_at = at

    def end(self, at: float, cause: str, worker: int, signal: int | None = None) -> None:
        """End the attempt on all workers, because of one."""
        for one in range(self.workers):
            own = one == worker
            self.tell(
                at + 0.2 * (one != worker),
                "attempt-ended",
                one,
                exit_code=None if own and not signal else 143,
                signal=signal if own else None,
                cause="" if own and signal else (cause if own else f"worker {worker} {cause}"),
                step=self.step,
                first_step=self.first,
                inside=self.inside(at),
            )
        self.state = "restarting"

    def seen(self, worker: int, now: float) -> run_view.Run:
        """Return what a worker answers now; it reports each event once."""
        told = {
            "run": self.name,
            "user": self.user,
            "state": self.state,
            "attempt": self.attempt,
            "run_id": "r1",
            "worker": worker,
            "workers": self.workers,
            "step": self.step,
            "step_at": self.worked_at,
            "saved_at": self.saved_at,
            "since": self.since,
            "reason": self.reason,
            "start_parts": self.parts,
            "inside": self.inside(now),
            "past": {
                "events": self.by_worker.pop(worker, []),
                "place": {"events": ["f", 1, 1], "files": {}},
            },
        }
        host = f"{self.slice}-w{worker}" if self.workers > 1 else self.slice
        return run_view.Run(host, self.slice, worker, self.state, status_of(told), now)


def status_of(told: dict[str, Any]) -> RunStatus:
    """Read a status as an answer is read."""
    return run_status(Words("w", told))


FAULTS = ("kill", "reboot", "maintenance", "tmux", "partition", "disk", "clock", "preempt", "hang")


def happen(run: Run, kind: str, at: float, worker: int, history: History) -> None:
    """Let a fault come, and the run go on after it."""
    again = {"preempt": 640.0, "reboot": 95.0, "maintenance": 130.0, "partition": 70.0}
    first = run.step - run.step % CHECKPOINT
    if kind == "kill":
        run.end(at, "", worker, signal=9)
    elif kind in ("reboot", "maintenance"):
        if kind == "maintenance":
            run.tell(at - 60, "maintenance-announced", worker, when="2026-11-25T03:00:00Z")
            run.tell(at - 58, "checkpoint-asked", 0, why="maintenance", how="signal 10")
        run.end(at, "rebooted", worker)
        run.tell(at + 40, "agent-started", worker, program="running")
    elif kind == "tmux":
        run.end(at, "lost its terminal", worker)
    elif kind == "partition":
        run.tell(at, "peer-lost", 0, peer=worker)
        run.end(at, "is lost", worker)
        run.tell(at + 55, "peer-back", 0, peer=worker)
    elif kind == "disk":
        run.tell(at, "disk-low", worker, what="/mnt/data has 12 MB left of 500 GB")
        return
    elif kind == "clock":
        run.tell(at, "clock-jumped", worker, seconds=3600.2)
        return
    elif kind == "hang":
        run.tell(at, "hang", worker, seconds=900)
        run.end(at, "hung", worker)
    elif kind == "preempt":
        title = f"{run.slice} was preempted"
        text = "It is PREEMPTED. It is requested again until there is capacity."
        told = Event(at, run.slice, "", -1, "preempted", detail={"title": title, "text": text})
        healed = Event(
            at + 600, run.slice, "", -1, "healed",
            detail={"title": f"{run.slice} is back", "text": "It was lost for 10 min."},
        )  # fmt: skip
        history.add(Look(at, events=[told, healed]))
        run.state = "restarting"
    run.start(at + again.get(kind, 12.0), first)


def view_at(now: float, slices: Sequence[tuple[str, int, str]], lost: set[str]) -> FleetView:
    """Return what the API would say."""
    nodes = [
        {
            "name": name,
            "state": "READY" if name not in lost else "PREEMPTED",
            "accelerator_type": f"v4-{chips * 2}",
            "zone": ZONE,
            "tier": tier,
            "chips": chips,
            "ours": True,
            "usd_per_hour": chips * (3.22 if tier == "on_demand" else 1.2),
            "usd_per_hour_billed": 0.0 if tier == "spot" else chips * 0.4,
            "usd_so_far": 3.0,
            "unavailable": "",
            "maintenance": "",
            "workers": max(1, chips // 4),
        }
        for name, chips, tier in slices
    ]
    held = sum(chips for name, chips, _tier in slices if name not in lost)
    entry = {
        "text": f"64 v4 chips on spot in {ZONE}",
        "chips": max(64, held),
        "used": held,
        "ends": "2026-12-20T00:00:00Z",
    }
    return FleetView(
        grant={"allocations": [entry], "unrestricted": False, "declared": True},
        nodes=nodes,
        queued=[
            {
                "name": "tpu-fleet-big", "accelerator_types": ["v4-128"], "zone": ZONE,
                "tier": "spot", "chips": 64, "ours": True, "reason": "WAITING_FOR_RESOURCES",
            }
        ],
        prices={"date": "2026-11-21"},
    )  # fmt: skip


def made(
    path: Path,
    now: float,
    workers: int = 3,
    days: float = 3.0,
    seed: int = 7,
    every: float = 600.0,
    troubled: bool = True,
) -> History:
    """Write the history of a fleet of so many workers."""
    dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
    history = History(path)
    slices: list[tuple[str, int, str]] = []
    runs: list[Run] = []
    begun = now - days * DAY
    left, index = workers, 0
    while left > 0:
        size = min(left, 2 if workers < 10 else 8)
        tier = ("spot", "on_demand")[index % 2]
        name = ("pair", "solo", "quad")[index] if index < 3 and workers < 10 else f"slice-{index}"
        slices.append((name, size * 4, tier))
        if index < 40:
            user = PEOPLE[index % len(PEOPLE)]
            run = Run(name, ("digits", "words", "speech")[index % 3], user, size, begun)
            run.start(begun + dice.uniform(60, 3600))
            runs.append(run)
        left, index = left - size, index + 1
    at = begun
    while at <= now:
        lost: set[str] = set()
        for run in runs:
            if run.state == "failed":
                continue
            if run.state == "running":
                for part in range(int(every // 300)):
                    run.work(at - every + (part + 1) * 300, 300)
            if at < now - 2 * every and dice.random() < every / DAY * 3.5:
                kind = dice.choice(FAULTS)
                happen(run, kind, at - 30, dice.randrange(run.workers), history)
                if kind == "preempt":
                    lost.add(run.slice)
        if troubled and at > now - 2 * every and runs[-1].state != "failed":
            run = runs[-1]
            run.end(at - 5, "", 0, signal=6)
            run.state, run.reason = "failed", "4 failures in 1 h"
            run.tell(at - 4, "run-failed", reason="4 failures in 1 h")
        found = Look(at)
        look.of_view(found, view_at(at, slices, lost))
        hosts = {
            (name, f"{name}-w{w}" if chips > 4 else name): ""
            for name, chips, _tier in slices
            for w in range(chips // 4)
        }
        if troubled and at > now - 3 * every:
            hosts[min(hosts)] = "Connection timed out"
        look.of_workers(found, hosts)
        look.of_runs(found, [r.seen(w, at) for r in runs for w in range(r.workers)])
        found.facts["slices"] = {name: {"phase": "ready", "text": ""} for name, _c, _t in slices}
        history.add(found)
        at += every
    return history


def spoilt(path: Path, evil: str, now: float) -> History:
    """Write a history in which every text is evil."""
    history = History(path)
    history.add(
        Look(
            now - 600,
            events=[
                Event(now - 500, evil, evil, 0, "attempt-started", 1),
                Event(now - 400, evil, evil, 0, "attempt-ended", 1, {"cause": evil}),
                Event(now - 300, evil, evil, 1, evil, 1, {"what": evil, "reason": evil}),
                Event(now - 200, evil, "", -1, evil, 0, {"title": evil, "text": evil}),
            ],
            points=[
                Point(evil, evil, name, now - 450 + n, n, n)
                for n in range(9)
                for name in (evil, "step")
            ],
        )
    )
    for at in (now - 100, now - 50):
        found = Look(at)
        view = view_at(at, [(evil, 8, evil)], set())
        view.grant["allocations"][0]["text"] = evil
        view.queued[0].update(name=evil, reason=evil, accelerator_types=[evil], zone=evil)
        view.nodes[0].update(zone=evil, accelerator_type=evil)
        view.warnings.append(evil)
        view.prices["date"] = evil
        look.of_view(found, view)
        look.of_workers(found, {(evil, evil): evil, (evil, "w"): ""})
        told = {"run": "digits", "state": "running", "attempt": 1, "reason": evil}
        status = status_of({**told, "problems": [evil]})
        look.of_runs(found, [run_view.Run(evil, evil, 0, evil, status, at)])
        found.facts["slices"] = {evil: {"phase": evil, "text": evil}, "x": {"phase": evil}}
        state = {"state": evil, "user": evil, "attempt": 1}
        found.spans["run"][f"{evil}/{evil}"] = state
        history.add(found)
    return history
