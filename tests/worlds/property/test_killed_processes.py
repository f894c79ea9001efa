"""Real controllers in processes of their own, killed at random moments, over HTTP."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from simulation.rules import Declared, claims_on
from simulation.things import things_of
from simulation.world import START

from tpu_local_cloud.serve.server import Server

ROOT = Path(__file__).resolve().parents[3]
FIRST, SECOND = "us-central1-a", "europe-west4-b"
CONTROLLER = """
import json, sys
from ansible.plugins.loader import init_plugin_loader
init_plugin_loader([sys.argv[1]])
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import FleetApplier, Pace
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from ansible_collections.tpu.fleet.plugins.module_utils._core.wait import Backoff
client = Client("local-project", endpoint=sys.argv[2])
fleet = Fleet.from_params(json.loads(sys.argv[3]), "local-project")
fast = Backoff(first=0.05, most=0.2)
applier = FleetApplier(
    TpuApi(client),
    fleet,
    strict=False,
    timeout=60.0,
    pace=Pace(poll=fast, again=fast),
)
print("ready", flush=True)
result = applier.apply()
print(json.dumps([len(result.missing), result.changed]), flush=True)
"""
PARAMS: dict[str, Any] = {
    "slices": [
        {"name": "a", "accelerator_type": "v5litepod-8", "zones": [FIRST, SECOND], "tier": "spot"},
        {"name": "b", "accelerator_type": "v5litepod-8", "zones": [FIRST], "tier": "spot"},
        {
            "name": "c",
            "accelerator_type": "v5litepod-8",
            "zones": [FIRST, SECOND],
            "tier": "spot",
            "strategy": "race",
        },
        {
            "name": "d",
            "accelerator_type": "v5litepod-8",
            "zones": [SECOND],
            "tier": "spot",
            "queued": True,
        },
    ],
    "allocations": [
        {"zone": FIRST, "generation": "v5e", "tier": "spot", "chips": 24},
        {"zone": SECOND, "generation": "v5e", "tier": "spot", "chips": 16},
    ],
}


def start(url: str) -> subprocess.Popen[str]:
    """Start a controller, and wait until it is about to work."""
    argv = [sys.executable, "-c", CONTROLLER, str(ROOT / "collections"), url, json.dumps(PARAMS)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def finish(process: subprocess.Popen[str]) -> list[Any]:
    """Return what a controller says in the end: the number of missing slices, and changed."""
    assert process.stdout is not None
    late = threading.Timer(90, process.kill)
    late.start()
    # communicate() would not see what came together with the line that was read before.
    with process.stdout:
        out = process.stdout.read()
    process.wait()
    late.cancel()
    found: list[Any] = json.loads(out)
    return found


def excess(history: list[dict[str, Any]]) -> list[str]:
    """Go through the history of the cloud; return where more was held than the grant allows.

    A queued resource and the node that came of it have one name and zone: they count once.
    """
    held: dict[tuple[str, str, str], int] = {}
    broken = []
    room = {entry["zone"]: entry["chips"] for entry in PARAMS["allocations"]}
    for event in history:
        key = (event["zone"], event["name"], event["what"])
        if event["kind"] == "gone" or event["state"] in ("SUSPENDED", "FAILED"):
            held.pop(key, None)
        else:
            held[key] = event["chips"]
        sums: dict[str, dict[str, int]] = {}
        for (zone, name, _what), chips in held.items():
            names = sums.setdefault(zone, {})
            names[name] = max(chips, names.get(name, 0))
        for zone, names in sums.items():
            if sum(names.values()) > room[zone]:
                broken.append(f"{zone} {names} after {event}")
    return broken


# Five lives each: CI has five of twenty.
@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.night) for part in (1, 2, 3))]
)
def test_killed_by_the_system_at_random_moments(part: int, server: Server) -> None:
    number = int(os.environ["TPU_FLEET_PROPERTY_SEED"]) * 4 + part
    print(f"seed {number}")
    chance = random.Random(number)  # noqa: S311 - repeatable, not secret
    for _life in range(5):
        process = start(server.url)
        time.sleep(chance.uniform(0.0, 0.7))
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
        if chance.random() < 0.5:
            # What the killed one asked for goes on meanwhile.
            with server.cloud.lock:
                nodes = [node for node in server.cloud.nodes.values() if node.state == "READY"]
                if nodes:
                    server.cloud.preempt(nodes[0].zone, nodes[0].name)
    assert finish(start(server.url))[0] == 0
    things = things_of(server.cloud)
    for name in Declared(PARAMS).slices:
        assert [thing.state for thing in claims_on(name, things)] == ["READY"], name
    answer = requests.get(f"{server.url}_cloud/history", timeout=10).json()
    assert answer["events"], answer
    assert excess(answer["events"]) == []
    assert finish(start(server.url)) == [0, False]


def test_too_much_in_the_history_is_found() -> None:
    event = {"kind": "created", "zone": FIRST, "what": "node", "state": "CREATING", "at": START}
    events = [{**event, "name": f"n{index}", "chips": 8} for index in range(4)]
    assert excess(events[:3]) == []
    assert len(excess(events)) == 1
