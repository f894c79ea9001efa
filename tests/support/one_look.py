"""One recorded look at a fleet in which something of everything happens, as each surface reads it.

The workers are folders with the files of their run agents, read by the programs that commands and
the watcher send; the API's answers are nodes and requests as Google writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.ownership import OWNER_LABEL
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.usage import missing_slices, usage_at
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._host.standing import standing
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.model import Node
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.workers import workers_of
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.failures import Kind
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Result
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet as Book
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Target

from tpu_fleet.commands.status import Row, rows_of
from tpu_fleet.history.record import seen_now
from tpu_fleet.history.store import History, Look
from tpu_fleet.on_worker.past import past_of
from tpu_fleet.on_worker.run_reader import listing
from tpu_fleet.on_worker.runs import RunFiles
from tpu_fleet.top.lines import Now
from tpu_fleet.top.source import heard_in
from tpu_fleet.watch.hosts import HostSeen, host_of
from tpu_fleet.workers.ask.run_answers import Answers, understood
from tpu_fleet.workers.ask.run_view import RunView, views_of
from tpu_fleet.workers.inventory.fleet_facts import FleetView, view_of
from tpu_fleet.workers.inventory.hosts import Known

NOW = 1_795_825_560.0
"""28 November 2026, 00:26."""
ZONE = "us-central2-b"
BOOT = "6f2b8c1e-0000-4000-8000-000000000001"
ERROR = "RuntimeError: RESOURCE_EXHAUSTED: Attempting to allocate 12.50G. There are 3.91G free."
NAN = {
    "what": "nan",
    "step": 121,
    "at": NOW - 1900,
    "saved_step": 100,
    "saved_at": NOW - 1905,
}
RUNNING: dict[str, Any] = {
    "state": "running",
    "attempt": 1,
    "run_id": "r1",
    "boot_id": BOOT,
    "worker": 0,
    "workers": 1,
    "start": NOW - 2400,
    "since": NOW - 2400,
    "first_step": 1,
    "first_step_at": NOW - 2000,
    "reason": "",
    "problems": [],
    "exit_code": None,
    "signal": None,
}
FAILED = {
    **RUNNING,
    "state": "failed",
    "attempt": 4,
    "exit_code": 1,
    "step": 30,
    "step_at": NOW - 1992,
    "loss": 8.638,
    "since": NOW - 1440,
    "end": NOW - 1440,
    "reason": "4 failures in 1 h, the last: worker 0: exit code 1",
}
RUNS: dict[str, dict[str, dict[str, Any]]] = {
    "pair-w0": {
        "digits": {**RUNNING, "user": "alice", "workers": 2, "step": 1250, "step_at": NOW - 3}
        | {"loss": 1.609e-05, "saved_at": NOW - 95}
    },
    "pair-w1": {
        "digits": {**RUNNING, "user": "alice", "workers": 2, "worker": 1, "step": 1200}
        | {"step_at": NOW - 2, "saved_at": 0.0}
    },
    "cheap": {
        "lm-nan": {**RUNNING, "user": "carol", "step": 7671, "step_at": NOW - 1, "loss": "nan"}
        | {"loss_trouble": NAN, "saved_at": NOW - 23}
    },
    "bench": {
        "lm-oom": {**FAILED, "user": "carol"},
        "short": {**RUNNING, "user": "alice", "state": "succeeded", "exit_code": 0, "step": 200}
        | {"step_at": NOW - 1500, "loss": 3.959, "end": NOW - 1500, "since": NOW - 1500},
    },
    "solo": {
        "lm-base": {**RUNNING, "user": "bob", "step": 90, "step_at": NOW - 9, "loss": 5.8}
        | {"first_step_at": NOW - 1800, "saved_at": 0.0}
    },
    "sick": {"evaluate": {**RUNNING, "user": "bob", "step": 5, "step_at": NOW - 400}},
}
MARK = "--- tpu-fleet 2026-11-28T00:02:00Z attempt 4 ended with exit code 1"
LOG = ["step 30 loss 8.638", "Traceback (most recent call last):", "  File train.py", ERROR, MARK]


def event(at: float, name: str, attempt: int, worker: int = 0, **more: Any) -> str:
    """Return a line of an event log."""
    told = {"at": at, "event": name, "attempt": attempt, "worker": worker, "boot_id": BOOT}
    return json.dumps({**told, **more})


def events_of(run: str, status: dict[str, Any]) -> list[str]:
    """Return what an agent wrote down of a run."""
    worker = status["worker"]
    found = []
    for attempt in range(1, status["attempt"] + 1):
        found.append(event(status["start"] + 100 * attempt, "attempt-started", attempt, worker))
        if status["exit_code"] is not None:
            end = min(status["end"], status["start"] + 100 * attempt + 20)
            said = {"exit_code": status["exit_code"], "cause": "", "step": status["step"]}
            said["said"] = ERROR if status["exit_code"] else ""
            found.append(event(end, "attempt-ended", attempt, worker, **said))
    if status["state"] == "failed":
        found.append(event(status["end"], "run-failed", 4, reason=status["reason"], tail=LOG))
    if status.get("loss_trouble"):
        what = "loss is NaN since step 121; last checkpoint before it: step 100"
        found.append(event(NOW - 1860, "loss-trouble", 1, worker, step=121, what=what))
    return found


def node(name: str, kind: str, owner: str, workers: int = 1, **more: Any) -> Node:
    """Return a node as the API describes it."""
    ends = [
        {"ipAddress": f"10.0.0.{n}", "accessConfig": {"externalIp": f"203.0.113.{n}"}}
        for n in range(1, workers + 1)
    ]
    raw = {
        "name": f"projects/lab/locations/{ZONE}/nodes/{name}",
        "id": f"id-{name}",
        "acceleratorType": kind,
        "state": "READY",
        "health": "HEALTHY",
        "createTime": "2026-11-27T23:26:00Z",
        "labels": {OWNER_LABEL: owner},
        "networkEndpoints": ends,
        **more,
    }
    return Node.from_api(raw)


SPOT = {"schedulingConfig": {"spot": True}}
COMING = {"type": "SCHEDULED", "windowStartTime": "2026-11-28T00:39:00.171036000Z"}
NODES = (
    node("pair", "v4-16", "managed", 2),
    node("cheap", "v4-8", "managed", **SPOT),
    node("bench", "v4-8", "managed", **SPOT),
    node("solo", "v4-8", "managed", upcomingMaintenance=COMING),
    node(
        "sick", "v4-8", "managed", health="UNHEALTHY_MAINTENANCE", healthDescription="chip 2",
        **SPOT,
    ),
    node("theirs", "v4-16", "other-lab", 2),
)  # fmt: skip
PARAMS: dict[str, Any] = {
    "owner": "managed",
    "zone": ZONE,
    "warn_before": "7d",
    "prices": None,
    "allocations": [
        {"zone": ZONE, "generation": "v4", "tier": "on_demand", "chips": 12, "ends": "2026-12-20"},
        {"zone": ZONE, "generation": "v4", "tier": "spot", "chips": 32, "ends": "2026-12-24"},
    ],
    "slices": [
        {"name": "pair", "accelerator_type": "v4-16"},
        {"name": "cheap", "accelerator_type": "v4-8", "tier": "spot"},
        {"name": "bench", "accelerator_type": "v4-8", "tier": "spot"},
        {"name": "solo", "accelerator_type": "v4-8"},
        {"name": "sick", "accelerator_type": "v4-8", "tier": "spot"},
        {"name": "big", "accelerator_type": "v4-32", "tier": "spot"},
    ],
}


@dataclass
class OneLook:
    """The look, with its files in a folder."""

    folder: Path
    silent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Write the workers' files."""
        for host, runs in RUNS.items():
            boot = self.root(host) / "proc/sys/kernel/random/boot_id"
            boot.parent.mkdir(parents=True)
            boot.write_text(f"{BOOT}\n")
            for run, status in runs.items():
                self._write(self.root(host), run, {"run": run, "serial": 1, **status})

    def root(self, host: str) -> Path:
        """Return the folder in place of a worker's root."""
        return self.folder / host

    def _write(self, root: Path, run: str, status: dict[str, Any]) -> None:
        state, logs = root / "var/lib/tpu-fleet/runs" / run, root / "var/log/tpu-fleet/runs" / run
        for place in (state, logs, root / "etc/tpu-fleet/runs"):
            place.mkdir(parents=True, exist_ok=True)
        status["log_path"] = str(logs / "run.log")
        (state / "status.json").write_text(json.dumps(status))
        (logs / "run.log").write_text("\n".join(LOG if status["state"] == "failed" else []) + "\n")
        (logs / "events.jsonl").write_text("\n".join([*events_of(run, status), ""]))
        declared = {"user": status["user"], "paths": {"state": str(state), "runtime": str(state)}}
        (root / "etc/tpu-fleet/runs" / f"{run}.json").write_text(json.dumps(declared))

    # What the API says

    @property
    def at(self) -> datetime:
        """The time of the look."""
        return datetime.fromtimestamp(NOW, UTC)

    @cached_property
    def world(self) -> World:
        """The nodes and requests of the project."""
        return World(NODES, (), frozenset(), self.at)

    @cached_property
    def view(self) -> FleetView:
        """Grant, money and declared slices, as commands read them."""
        usage = usage_at(PARAMS, self.world.nodes, (), (), self.at)
        return view_of(usage, missing_slices(Fleet.from_params(PARAMS, "lab"), self.world))

    @cached_property
    def known(self) -> Known:
        """The usable workers of the fleet."""
        targets, groups = {}, {}
        for worker in self.workers:
            if worker.usable:
                targets[worker.host] = Target(worker.host, "192.0.2.1")
            for group in worker.groups:
                groups[group] = (*groups.get(group, ()), worker.host)
        return Known(Path("ssh_config"), Book(targets, groups))

    @cached_property
    def workers(self) -> list[Any]:
        """The workers of the fleet's own nodes, as the inventory has them."""
        return workers_of([one for one in NODES if one.labels[OWNER_LABEL] == "managed"])

    @cached_property
    def rows(self) -> list[Row]:
        """The workers, as `status` and `top` show them."""
        return rows_of([(one.host, one.variables) for one in self.workers], {})

    # What the workers say

    @cached_property
    def answers(self) -> Answers:
        """The workers' answers to commands."""
        return self._asked(self.known.fleet.targets)

    def _asked(self, hosts: Iterable[str]) -> Answers:
        answers = Answers()
        for host in hosts:
            files = RunFiles(self.root(host))
            told = {**listing(files), "now": NOW}
            for one in told["runs"]:
                one["past"] = past_of(files, one["run"], None, hurry=True)
            done = Result(host, Kind.DONE, 0, value=json.dumps(told).encode())
            result, runs, disk = understood(self.known, done)
            assert result.ok, result
            answers.results.append(result)
            answers.runs += runs
            if disk is not None:
                answers.disks[host] = disk
        return answers

    @cached_property
    def runs(self) -> dict[str, RunView]:
        """The runs by slice and name."""
        return {one.name: one for one in views_of(self.answers.runs)}

    def hosts_seen(self, name: str) -> dict[str, HostSeen]:
        """Return the answers of a slice's workers to the watcher."""
        hosts = [one.host for one in self.workers if one.label == name and one.usable]
        return {
            host: host_of(host, json.dumps({**standing(self.root(host)), "now": NOW}).encode())
            for host in hosts
        }

    # What is made of it

    @cached_property
    def now(self) -> Now:
        """What `top` knows."""
        return Now(self.rows, heard_in(self.answers, 50.0), self.view, 50.0, 50.0)

    def look(self) -> Look:
        """Return what commands keep in the history."""
        found = seen_now(self.answers, self.known, self.view)
        found.at = NOW
        return found

    def history(self) -> History:
        """Return a history that has the look."""
        history = History(self.folder / "history.db")
        # Two minutes before, the unhealthy slice was healthy and its worker answered.
        before = seen_now(self._asked(["sick"]), self.known)
        before.at = NOW - 120
        history.add(before)
        history.add(self.look())
        return history
