"""A fleet as `tpu-fleet top` knows it, of any size, for tests and benchmarks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.targets import Fleet, Target

from tpu_fleet.commands.status import Row
from tpu_fleet.top.closer import Closer
from tpu_fleet.top.lines import Now
from tpu_fleet.workers.ask.run_answers import told
from tpu_fleet.workers.ask.run_follow import Heard
from tpu_fleet.workers.inventory.fleet_facts import FleetView
from tpu_fleet.workers.inventory.hosts import Known

CLOCK = 100_000.0
"""The workers' time."""
AT = 5_000.0
"""This computer's monotonic clock."""
RUN: dict[str, Any] = {
    "run": "digits",
    "user": "alice",
    "state": "running",
    "attempt": 2,
    "run_id": "r-1",
    "boot_id": "b",
    "worker": 0,
    "workers": 1,
    "pid": 7,
    "step": 1200,
    "step_at": CLOCK - 3,
    "first_step": 200,
    "first_step_at": CLOCK - 403,
    "loss": 0.1234,
    "saved_at": CLOCK - 754,
    "since": CLOCK - 8000,
    "reason": "",
    "problems": [],
    "log_path": "/var/log/tpu-fleet/runs/digits/run.log",
}
DISK = {"point": "/", "percent": 41}


def answer(*runs: Mapping[str, Any], disk: Mapping[str, Any] | None = DISK) -> bytes:
    """Return the answer of a worker with these runs."""
    listed = [{**RUN, **run} for run in runs]
    found = {"now": CLOCK, "boot_id": "b", "runs": listed, **({"disk": disk} if disk else {})}
    return json.dumps(found).encode()


def view(slices: Sequence[str], chips: int = 8, **more: Any) -> FleetView:
    """Return what the API says of the nodes of these slices."""
    nodes = [
        {
            "name": name,
            "api": "tpu",
            "zone": "us-central2-b",
            "accelerator_type": "v4-16",
            "tier": "spot",
            "state": "READY",
            "chips": chips,
            "ours": True,
            "usd_per_hour": 8.0,
            "usd_per_hour_billed": 0.0,
            "usd_so_far": 0.0,
        }
        for name in slices
    ]
    entry = {
        "api": "tpu",
        "zone": "us-central2-b",
        "accelerator_type": "",
        "generation": "v4",
        "tier": "spot",
        "used": chips * len(nodes),
        "chips": 2 * chips * len(nodes),
        "last_day": "2026-12-24",
        "over": False,
        "days_left": 29,
    }
    grant = {"unrestricted": False, "declared": True, "allocations": [entry]}
    facts: dict[str, Any] = {"grant": grant, "nodes": nodes, "prices": {"date": "2026-11-01"}}
    return FleetView(**{**facts, **more})


@dataclass
class Seen:
    """A fleet whose workers said something."""

    workers: Mapping[str, int]
    """How many workers each slice has."""
    answers: dict[str, bytes] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    facts: FleetView | None = None
    closer: Closer | None = None

    def hosts(self) -> dict[str, str]:
        """Return the slice of each worker."""
        return {
            (name if count == 1 else f"{name}-w{number}"): name
            for name, count in self.workers.items()
            for number in range(count)
        }

    def known(self) -> Known:
        """Return the fleet as its ssh configuration has it."""
        hosts = self.hosts()
        groups: dict[str, tuple[str, ...]] = {}
        for host, name in hosts.items():
            group = f"tpu_slice_{name.replace('-', '_')}"
            groups[group] = (*groups.get(group, ()), host)
        return Known(
            Path("ssh_config"), Fleet({host: Target(host, "::1") for host in hosts}, groups)
        )

    def now(self) -> Now:
        """Return all of it."""
        known, heard, rows = self.known(), {}, []
        for host, name in self.hosts().items():
            problem = self.problems.get(host, "")
            state = "PREEMPTED" if problem else "READY"
            where = ("v4-16", "us-central2-b", "spot", state, "203.0.113.7", "10.0.0.7", "tpu")
            rows.append(Row(host, name, *where, problem))
            if problem:
                continue
            runs, disk = told(known, host, self.answers.get(host, answer()))
            heard[host] = Heard(AT - 2, tuple(runs), disk, self.lost.get(host, ""))
        facts = self.facts or view(list(self.workers))
        return Now(rows, heard, facts, AT, AT - 12, (), "lab", CLOCK, "bob", self.closer)


def lab() -> Seen:
    """Return a small fleet in which something of everything happens."""
    return Seen(
        {"pair": 2, "solo": 1, "words": 4, "spare": 1, "gone": 1},
        {
            "pair-w0": answer({"step": 1250}),
            "pair-w1": answer({"step": 1200, "worker": 1, "loss": None}),
            "solo": answer(
                {
                    "run": "segment",
                    "user": "bob",
                    "state": "restarting",
                    "attempt": 5,
                    "reason": "exit code 137: the kernel ended it, because the memory was full",
                },
                disk={"point": "/mnt/data", "percent": 97},
            ),
            **{
                f"words-w{number}": answer(
                    {"run": "words-large", "user": "carol", "worker": number, "loss": 3.25},
                    {
                        "run": "evaluate",
                        "user": "carol",
                        "state": "pending",
                        "step": None,
                        "queue": {"behind": "words-large", "user": "carol"},
                    },
                )
                for number in range(4)
            },
            "spare": answer(),
        },
        lost={"words-w3": "unreachable: the connection was lost"},
        problems={"gone": "the slice is preempted"},
    )
