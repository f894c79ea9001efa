"""A local cloud without machines, for the benchmarks of what only asks the API."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests
from measure import ROOT

from tpu_local_cloud.commands.lifecycle import SERVER

PROJECT = "local-project"
READY_SECONDS = 30.0


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of commands that are measured: nothing of the user's, bytecode kept.

    Where bytecode may not be written, Ansible compiles itself anew on each start.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "TPU_FLEET_STATE_DIR": str(folder / "state"),
    }


@contextlib.contextmanager
def local_api(folder: Path, **settings: Any) -> Iterator[str]:
    """Run a local cloud without machines, with its state in a folder; give its address."""
    folder.mkdir(parents=True, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = {"hosts": "none", "port": port, "state_dir": str(folder), **settings}
    (folder / "config.json").write_text(json.dumps(config))
    argv = [sys.executable, "-m", SERVER, "--config", f"{folder}/config.json"]
    address = f"http://127.0.0.1:{port}/"
    with subprocess.Popen(argv) as server:
        try:
            deadline = time.monotonic() + READY_SECONDS
            while True:
                with contextlib.suppress(requests.ConnectionError):
                    requests.get(f"{address}_cloud/clock", timeout=5)
                    break
                if server.poll() is not None or time.monotonic() > deadline:
                    sys.exit("The local cloud did not start.")
                time.sleep(0.1)
            yield address
        finally:
            server.terminate()


def populate(
    address: str, zone: str, count: int, kind: str, labels: Mapping[str, str] | None = None
) -> None:
    """Make so many READY nodes of a type: node-0, node-1 and so on."""
    wanted = {
        "zone": zone,
        "prefix": "node",
        "count": count,
        "acceleratorType": kind,
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": {"tpu-fleet": "managed", "team": "vision", **(labels or {})},
    }
    requests.post(f"{address}_cloud/populate", json=wanted, timeout=300).raise_for_status()


def populate_compute(address: str, zone: str, count: int, kind: str) -> None:
    """Make so many slices of a type on Compute Engine: node-0, node-1 and so on.

    They are made as a fleet makes them, so each instance is as large as those of a fleet.
    """
    # Not before: where Ansible's loader of collections is used, it must come first.
    from ansible_collections.tpu.fleet.plugins.module_utils._compute.machine_types import shape_of
    from ansible_collections.tpu.fleet.plugins.module_utils._compute.slice_bodies import (
        Shape,
        slice_bodies,
    )
    from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
    from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
    from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_spec import NodeSpec

    slices = ComputeSlices(Client(PROJECT, endpoint=address))
    machine_type, topology = shape_of(kind)
    for index in range(count):
        spec = NodeSpec(f"node-{index}", zone, PROJECT, kind, labels={"team": "vision"})
        slices.create(zone, slice_bodies(spec, Shape(machine_type, topology)))
