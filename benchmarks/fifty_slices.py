#!/usr/bin/env python3
"""How long one apply of fifty slices takes, against the pace of the cloud itself.

    .venv/bin/python benchmarks/fifty_slices.py [--slices 50] [--create 10] [--queued]

Starts a local cloud without machines in a process of its own, by the real clock, and wants so many
slices at once. The yardstick is what nobody can beat: the time that the cloud takes to create one
node, and one pause between two looks. The requests are counted by the cloud.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import requests
from ansible.plugins.loader import init_plugin_loader
from local_api import PROJECT, local_api
from measure import ROOT

init_plugin_loader([str(ROOT / "collections")])

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.apply import (  # noqa: E402
    FleetApplier,
    Pace,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.tpu_api import TpuApi  # noqa: E402
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet  # noqa: E402
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client  # noqa: E402

ZONE = "us-central1-a"


def wanted(count: int, queued: bool) -> dict[str, Any]:
    """Return a fleet file with so many slices."""
    entry = {"accelerator_type": "v5litepod-8", "zones": [ZONE], "tier": "spot", "queued": queued}
    slices = [{**entry, "name": f"slice-{index}"} for index in range(count)]
    grant = [{"zone": ZONE, "generation": "v5e", "tier": "spot", "chips": 8 * count}]
    return {"slices": slices, "allocations": grant}


def apply(address: str, params: dict[str, Any]) -> tuple[float, dict[str, int]]:
    """Let one controller make the fleet; return the seconds, and the requests by method."""
    client = Client(PROJECT, endpoint=address)
    fleet = Fleet.from_params(params, PROJECT)
    requests.delete(f"{address}_cloud/requests", timeout=10).raise_for_status()
    started = time.monotonic()
    result = FleetApplier(TpuApi(client), fleet, timeout=600.0).apply()
    took = time.monotonic() - started
    if result.missing:
        sys.exit(f"Not all slices are ready: {', '.join(map(str, result.missing))}")
    return took, requests.get(f"{address}_cloud/requests", timeout=10).json()


def pause_after(seconds: float) -> float:
    """Return how long a controller's pause is that goes on after so many seconds."""
    passed = 0.0
    for pause in replace(Pace().poll, jitter=0.0).delays():
        passed += pause
        if passed >= seconds:
            return pause
    return 0.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slices", type=int, default=50)
    parser.add_argument("--create", type=float, default=10.0, help="seconds that a node takes")
    parser.add_argument("--queued", action="store_true", help="by queued resources")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name,
        local_api(
            Path(name),
            clock="real",
            delays={"all": 0.5, "create": asked.create, "queue_grant": 1.0},
        ) as address,
    ):
        one, _counts = apply(address, wanted(1, asked.queued))
        small = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took, counts = apply(address, wanted(asked.slices, asked.queued))
        large = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yardstick = asked.create + pause_after(asked.create)
    print(f"{asked.slices} slices at once: {took:.1f} s")
    print(f"  {took / yardstick:.2f} x the yardstick of {yardstick:.1f} s (create + one pause)")
    print(f"  {took / one:.2f} x one slice alone, {one:.1f} s")
    print(f"  {large / small:.2f} x the memory of one slice alone, {small / 1024:.0f} MB")
    for method, count in counts.items():
        print(f"  {count:5} {method}")


if __name__ == "__main__":
    main()
