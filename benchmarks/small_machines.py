#!/usr/bin/env python3
"""How long so many small machines take to come up and go, and what memory they take.

    sudo .venv/bin/python benchmarks/small_machines.py [--hosts 64 256 1024] [--round-trip 60]

Each size is a local cloud of its own with one node of so many workers. When they are up, one ssh
goes to each, with verified host keys and 64 at a time; sshd's logs say whether it was exactly one.
Memory is what this computer has less of while they are there: others who run on it count as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(ROOT / "local_cloud/tests/support"))

from ssh_log import Seen, SshLogs  # noqa: E402

# A type with so many workers, and a zone that has it.
KINDS = {
    8: ("v4-64", "us-central2-b"),
    64: ("v4-512", "us-central2-b"),
    128: ("v4-1024", "us-central2-b"),
    256: ("v4-2048", "us-central2-b"),
    512: ("v4-4096", "us-central2-b"),
    1024: ("v5p-8192", "us-east5-a"),
}
AT_ONCE = 64


class Cloud:
    """A local cloud in a folder, with one node of small machines."""

    def __init__(self, folder: Path, port: int) -> None:
        self.state_dir = folder / "cloud"
        self.port = port
        self.key = folder / "key"
        self.known_hosts = folder / "known_hosts"
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)]
        subprocess.run(make, check=True)

    def command(self, *words: str) -> None:
        """Run `tpu-fleet cloud …`."""
        program = Path(sys.executable).with_name("tpu-fleet")
        environment = {**os.environ, "TPU_FLEET_CLOUD_DIR": str(self.state_dir)}
        argv = [str(program), "cloud", *words]
        subprocess.run(argv, check=True, env=environment, stdout=subprocess.DEVNULL)

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Call the API, and wait for the operation if it begins one."""
        root = f"http://127.0.0.1:{self.port}/v2/"
        answer = requests.request(method, root + path, json=body, timeout=600)
        answer.raise_for_status()
        result: dict[str, Any] = answer.json()
        while "/operations/" in result.get("name", "") and not result.get("done"):
            time.sleep(0.2)
            result = requests.get(root + result["name"], timeout=600).json()
        if "error" in result:
            sys.exit(f"{method} {path}: {result['error']}")
        return result

    def create(self, kind: str, zone: str) -> list[str]:
        """Make the node, note the host keys and return the addresses of its workers."""
        nodes = f"projects/local-project/locations/{zone}/nodes"
        public = self.key.with_suffix(".pub").read_text().strip()
        body = {
            "acceleratorType": kind,
            "runtimeVersion": "tpu-ubuntu2204-base",
            "networkConfig": {"enableExternalIps": True},
            "metadata": {"ssh-keys": f"ubuntu:{public}", "local-cloud-machine": "small"},
        }
        self.call("POST", f"{nodes}?nodeId=pod", body)
        ends = self.call("GET", f"{nodes}/pod")["networkEndpoints"]
        addresses = [end["accessConfig"]["externalIp"] for end in ends]
        guests = self.call("POST", f"{nodes}/pod:getGuestAttributes", {})["guestAttributes"]
        with self.known_hosts.open("w") as file:
            for address, guest in zip(addresses, guests, strict=True):
                for item in guest["queryValue"]["items"]:
                    if item["namespace"] == "hostkeys":
                        file.write(f"{address} {item['key']} {item['value']}\n")
        return addresses

    def ssh(self, address: str) -> bool:
        """Connect once, execute once; say whether that went well."""
        options = {
            "UserKnownHostsFile": str(self.known_hosts),
            "StrictHostKeyChecking": "yes",
            "KexAlgorithms": "curve25519-sha256",
            "BatchMode": "yes",
        }
        flags = [f"-o{name}={value}" for name, value in options.items()]
        argv = ["ssh", "-F", "/dev/null", "-i", str(self.key), *flags, f"ubuntu@{address}", "true"]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode == 0


def available() -> float:
    """Return how much memory the computer has left, in MiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    (found,) = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found) / 1024


def measure(hosts: int, port: int, round_trip: float) -> dict[str, Any]:
    """Bring so many up, go to each once, and take them down."""
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        cloud = Cloud(Path(name), port)
        cloud.command("up", f"--port={port}", "--clock=immediate")
        try:
            before, began = available(), time.monotonic()
            addresses = cloud.create(*KINDS[hosts])
            up, memory = time.monotonic() - began, before - available()
            cloud.command("latency", str(round_trip))
            logs = SshLogs(cloud.state_dir)
            began = time.monotonic()
            with ThreadPoolExecutor(AT_ONCE) as pool:
                good = sum(pool.map(cloud.ssh, addresses))
            ssh = time.monotonic() - began
            exact = sum(seen == Seen(1, 1, 1) for seen in logs.count().values())
        finally:
            began = time.monotonic()
            cloud.command("down", "--keep-image")
    return {
        "hosts": hosts,
        "up_s": round(up, 1),
        "memory_mib": round(memory),
        "memory_each_mib": round(memory / hosts, 2),
        "ssh_all_s": round(ssh, 1),
        "ssh_ok": good,
        "exactly_one": exact,
        "down_s": round(time.monotonic() - began, 1),
        "round_trip_ms": round_trip,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", choices=sorted(KINDS), default=[64, 256])
    parser.add_argument("--port", type=int, default=8489)
    parser.add_argument("--round-trip", type=float, default=0.0, metavar="MS")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    rows = []
    for hosts in asked.hosts:
        rows.append(measure(hosts, asked.port, asked.round_trip))
        if len(rows) == 1:
            print("  ".join(rows[0]), flush=True)
        cells = [str(value).rjust(len(name)) for name, value in rows[-1].items()]
        print("  ".join(cells), flush=True)
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
