#!/usr/bin/env python3
"""How long it takes to list a large fleet, against the same data as a static JSON inventory.

    .venv/bin/python benchmarks/inventory.py [--workers 10000] [--repeat 2]

Starts a local cloud without machines, fills it with READY nodes of eight workers each, and runs
`ansible-inventory --list` on it: with host keys verified (one more request for each node), without
(host_key_policy accept_new), and from the inventory cache. The yardstick is a JSON file with the
same hosts, variables and groups; that the data is the same is checked. All rows are from one run
on one computer, which also runs the server; the best of the repetitions counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).resolve().parents[1]
PROJECT, ZONE = "local-project", "us-central2-b"
WORKERS_PER_NODE = 8
ACCELERATOR_TYPE = "v4-64"
READY_SECONDS = 30.0


@dataclass(frozen=True)
class Cost:
    """What one command took."""

    wall: float
    cpu: float
    megabytes: float

    def better(self, other: Cost | None) -> Cost:
        """Return the cheaper one."""
        return self if other is None or self.wall < other.wall else other


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of the commands: nothing of the user's, and bytecode kept.

    Where bytecode may not be written, Ansible compiles itself anew on each start.
    """
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {
        **kept,
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_HOME": str(folder / "ansible"),
        "TPU_FLEET_STATE_DIR": str(folder / "state"),
    }


def run(argv: list[str], folder: Path, output: Path) -> Cost:
    """Run a command and measure it."""
    with output.open("wb") as stream:
        started = time.monotonic()
        process = subprocess.Popen(argv, stdout=stream, env=environment(folder), cwd=folder)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(argv)} failed.")
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


@contextlib.contextmanager
def local_cloud(folder: Path) -> Iterator[str]:
    """Run a local cloud without machines; give its address."""
    config = {"hosts": "none", "port": 18471, "state_dir": str(folder), "clock": "immediate"}
    (folder / "config.json").write_text(json.dumps(config))
    argv = [sys.executable, "-m", "tpu_fleet.cloud.server", "--config", f"{folder}/config.json"]
    address = f"http://127.0.0.1:{config['port']}/"
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


def populate(address: str, workers: int) -> None:
    """Make the fleet."""
    wanted = {
        "zone": ZONE,
        "prefix": "node",
        "count": workers // WORKERS_PER_NODE,
        "acceleratorType": ACCELERATOR_TYPE,
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": {"tpu-fleet": "managed", "team": "vision"},
    }
    answer = requests.post(f"{address}_cloud/populate", json=wanted, timeout=300)
    answer.raise_for_status()


def inventory_file(folder: Path, name: str, address: str, **options: Any) -> Path:
    """Write an inventory of the plugin."""
    path = folder / f"{name}.tpu.yml"
    basics = {"plugin": "tpu.fleet.tpu", "projects": [PROJECT], "api_endpoint": address}
    path.write_text(json.dumps({**basics, **options}))
    return path


def plain(value: Any) -> Any:
    """Take the marks away that ansible-inventory puts around text that came from outside."""
    if isinstance(value, dict):
        if set(value) == {"__ansible_unsafe"}:
            return value["__ansible_unsafe"]
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def content(listing: Path) -> tuple[dict[str, Any], dict[str, list[str]]]:
    """Return the host variables and the groups of a listing."""
    data = json.loads(listing.read_text())
    variables = plain(data.pop("_meta")["hostvars"])
    groups = {name: sorted(group["hosts"]) for name, group in data.items() if group.get("hosts")}
    return variables, groups


def static_file(folder: Path, listing: Path) -> Path:
    """Write the same fleet as a static JSON inventory."""
    variables, groups = content(listing)
    children = {name: {"hosts": dict.fromkeys(hosts)} for name, hosts in groups.items()}
    path = folder / "static.json"
    path.write_text(json.dumps({"all": {"hosts": variables, "children": children}}))
    return path


def report(costs: dict[str, Cost], yardstick: str) -> None:
    """Print the table."""
    base = costs[yardstick]
    print(f"{'':34}{'wall s':>10}{'CPU s':>10}{'max MB':>10}{'wall':>9}{'CPU':>8}{'memory':>8}")
    for name, cost in costs.items():
        ratios = (cost.wall / base.wall, cost.cpu / base.cpu, cost.megabytes / base.megabytes)
        figures = f"{cost.wall:10.1f}{cost.cpu:10.1f}{cost.megabytes:10.0f}"
        print(f"{name:34}{figures}{ratios[0]:8.2f}x{ratios[1]:7.2f}x{ratios[2]:7.2f}x")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=2)
    asked = parser.parse_args()
    command = [str(Path(sys.executable).with_name("ansible-inventory")), "--list", "-i"]
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        folder = Path(name)
        (folder / "cloud").mkdir()
        with local_cloud(folder / "cloud") as address:
            populate(address, asked.workers)
            cache = {
                "cache": True,
                "cache_plugin": "ansible.builtin.jsonfile",
                "cache_connection": str(folder / "cache"),
            }
            verified = inventory_file(folder, "verified", address)
            first = folder / "first.json"
            run([*command, str(verified)], folder, first)
            rows = {
                "static JSON": static_file(folder, first),
                "tpu.fleet.tpu, keys verified": verified,
                "tpu.fleet.tpu, accept_new": inventory_file(
                    folder, "new", address, host_key_policy="accept_new"
                ),
                "tpu.fleet.tpu, from its cache": inventory_file(folder, "cached", address, **cache),
            }
            run(
                [*command, str(rows["tpu.fleet.tpu, from its cache"])], folder, folder / "warm.json"
            )
            best: dict[str, Cost] = {}
            for _ in range(asked.repeat):
                for row, file in rows.items():
                    output = folder / f"{file.stem}.out"
                    best[row] = run([*command, str(file)], folder, output).better(best.get(row))
        expected = content(first)
        for row in ("static JSON", "tpu.fleet.tpu, from its cache"):
            if content(folder / f"{rows[row].stem}.out") != expected:
                sys.exit(f"{row} does not list the same fleet.")
        count = len(expected[0])
        print(f"ansible-inventory --list, {count} workers, best of {asked.repeat}")
        report(best, "static JSON")


if __name__ == "__main__":
    main()
