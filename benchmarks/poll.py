#!/usr/bin/env python3
"""What one look at a fleet of a thousand nodes takes, as a program does it that watches over them.

    .venv/bin/python benchmarks/poll.py [--nodes 1000] [--repeat 15] [--json FILE]

One process with one client asks a local cloud again and again. A look is the list of all nodes;
with a fleet file also the decision what would have to be done; and as `tpu-fleet watch` takes it,
with what is to be told of it, and its files written. The yardstick is what nobody can
beat who asks with this library: the same pages with `requests` and `json`, and nothing made of
them. CPU seconds are those of this process; the cloud has one of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import requests
from ansible.plugins.loader import init_plugin_loader
from local_api import PROJECT, local_api, populate
from measure import ROOT, Cost, Line, interleaved, medians, promises, record, table

init_plugin_loader([str(ROOT / "collections")])

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import (  # noqa: E402
    FleetApplier,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi  # noqa: E402
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet  # noqa: E402
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client  # noqa: E402

from tpu_fleet.watch.decide import jobs  # noqa: E402
from tpu_fleet.watch.ground import Ground, Settings  # noqa: E402
from tpu_fleet.watch.loop import Watcher  # noqa: E402
from tpu_fleet.watch.options import Options  # noqa: E402

ZONE, KIND = "us-central1-a", "v5litepod-8"
KEYS = {"accelerator_type": KIND, "zone": ZONE, "tier": "on_demand"}


def counted(look: Callable[[], int], expected: int) -> Callable[[], Cost]:
    """Return what looks once and says what that took."""

    def once() -> Cost:
        wall, cpu = time.monotonic(), time.process_time()
        seen = look()
        cost = Cost(time.monotonic() - wall, time.process_time() - cpu, memory())
        if seen != expected:
            sys.exit(f"{seen} nodes were seen, and not {expected}.")
        return cost

    return once


def memory() -> float:
    """Return how many MiB this process has."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def bare(address: str) -> Callable[[], int]:
    """Return a look that makes nothing of what it gets."""
    session = requests.Session()
    session.trust_env = False
    path = f"{address}v2/projects/{PROJECT}/locations/-/nodes"

    def look() -> int:
        seen, token = 0, ""
        while True:
            page = json.loads(session.get(path, params={"pageToken": token}, timeout=60).content)
            seen += len(page["nodes"])
            token = page.get("nextPageToken", "")
            if not token:
                return seen

    return look


def fleet_of(count: int) -> Fleet:
    """Return a fleet file that wants all the nodes."""
    slices = [{**KEYS, "name": f"node-{index}"} for index in range(count)]
    grant = [{"zone": ZONE, "generation": "v5e", "tier": "on_demand", "chips": 8 * count}]
    return Fleet.from_params({"slices": slices, "allocations": grant}, PROJECT)


def watcher_of(address: str, fleet: Fleet, folder: Path) -> Watcher:
    """Return a watcher that has read its fleet file."""
    ground = Ground((), folder)
    ground.make()
    watcher = Watcher(ground, Options())
    params = {
        "owner": "managed",
        "zone": ZONE,
        "slices": [{"name": want.name, **KEYS} for want in fleet.slices],
        "allocations": "unrestricted",
    }
    watcher.state.settings = Settings(PROJECT, address, params, folder, notify=(), runs=())
    return watcher


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name,
        local_api(Path(name), clock="immediate") as address,
    ):
        fleet = fleet_of(asked.nodes)
        spec = fleet.node_spec(fleet.slices[0], fleet.slices[0].candidates[0])
        populate(address, ZONE, asked.nodes, KIND, spec.owned_labels())
        client = Client(PROJECT, endpoint=address)
        applier = FleetApplier(TpuApi(client), fleet)

        def ready() -> int:
            plan = applier.plan()
            return sum(status.phase == "ready" for status in plan.statuses) - len(plan.actions)

        watcher = watcher_of(address, fleet, Path(name) / "watch")
        state = watcher.state

        def watched() -> int:
            watcher.look_at_slices()
            watcher.save()
            todo = jobs(state.memory, state.seen, busy=(), gate_free=True, slots=4, now=0.0)
            return len(state.seen) - len(todo)

        rows = {
            "requests and json alone": counted(bare(address), asked.nodes),
            "all nodes": counted(lambda: len(client.nodes.list().items), asked.nodes),
            "all nodes, and what to do": counted(ready, asked.nodes),
            "a watcher's": counted(watched, asked.nodes),
        }
        for look in rows.values():
            look()
        requests.delete(f"{address}_cloud/requests", timeout=10).raise_for_status()
        runs = interleaved(rows, asked.repeat)
        counts = requests.get(f"{address}_cloud/requests", timeout=10).json()

    print(f"One look at {asked.nodes} nodes; medians of {asked.repeat}")
    print(table(runs, "requests and json alone"))
    print(f"Requests of all looks: {counts}")
    lines = [
        Line(f"CPU s, {name}", medians(runs[name]).cpu, 0.1)
        for name in ("all nodes", "all nodes, and what to do", "a watcher's")
    ]
    print(promises(lines))
    record(asked.json, "poll", runs, lines, nodes=asked.nodes, requests=counts)


if __name__ == "__main__":
    main()
