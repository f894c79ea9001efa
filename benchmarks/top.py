#!/usr/bin/env python3
"""What `tpu-fleet top` takes with 1,000 small machines, and how their workers are best asked.

    .venv/bin/python benchmarks/top.py [--workers 1000] [--seconds 60] [--json FILE]

One process is the sshd of all workers, at addresses of its own, and says what a worker says whose
run gets ahead: to a program that asks once its runs, to one that stays what has changed. A local
cloud without machines is the API. Compared are a connection for each look, a kept one on which each
worker tells its figures every five seconds, and one on which only those on the screen do; the last
line is the whole command in a terminal of 160 x 50. CPU is counted after everybody has answered.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import pty
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import asyncssh
from answering_hosts import Answers, address_of
from local_api import environment, local_api, populate
from measure import ROOT, Cost, Line, medians, promises, record

sys.path.insert(0, str(ROOT / "tests/support"))

from fleet_seen import DISK, RUN

from tpu_fleet.on_worker.run_reader import BEGINNING, LOOK, OURS
from tpu_fleet.workers.ask.run_answers import ask_for_runs
from tpu_fleet.workers.ask.run_follow import RunFollower
from tpu_fleet.workers.inventory.hosts import Known

BIN = ROOT / ".venv/bin"
USER, PORT, KEX = "ubuntu", 2222, "curve25519-sha256"
ZONE, KIND = "us-central1-a", "v5litepod-8"
EVERY = 5
STATUS_SECONDS = 10.0
"""Seconds between two writings of a status whose step gets ahead, as the run agent has it."""


def piece(step: int) -> bytes:
    """Return what a worker says at a step."""
    now = time.time()
    run = {**RUN, "step": step, "step_at": now, "first_step_at": now - 400, "saved_at": now - 700}
    said = {"now": now, "boot_id": "b", "runs": [run], "disk": DISK}
    data = json.dumps(said).encode()
    return json.dumps({"bytes": len(data)}).encode() + b"\n" + data


async def talk(process: asyncssh.SSHServerProcess[bytes]) -> None:
    """Answer as src/tpu_fleet/on_worker/run_reader.py does."""
    process.stdout.write(f"{BEGINNING}\n".encode())
    begun = time.monotonic()
    if '"changes"' not in (process.command or ""):
        process.stdout.write(piece(1000))
        process.exit(0)
        return
    pace, told, sent, last = 60.0, 0.0, 0.0, -1
    hears = asyncio.create_task(process.stdin.readline())
    while True:
        done, _waiting = await asyncio.wait([hears], timeout=LOOK)
        if done:
            said = hears.result()
            if not said:
                process.exit(0)
                return
            pace = float(said)
            hears = asyncio.create_task(process.stdin.readline())
        now = time.monotonic()
        step = int((now - begun) / STATUS_SECONDS)
        if last < 0 or (now - told >= pace and step != last):
            process.stdout.write(piece(1000 + step))
            told, sent, last = now, now, step
        elif now - sent >= OURS:
            process.stdout.write(b"{}\n")
            sent = now


async def serve(hosts: int, folder: Path, told: Connection) -> None:
    """Be the sshd of all workers."""
    for number in range(hosts):
        await asyncssh.create_server(
            Answers,
            address_of(number),
            PORT,
            server_host_keys=[folder / "host_key"],
            authorized_client_keys=str(folder / "key.pub"),
            process_factory=talk,
            kex_algs=[KEX],
            encoding=None,
            backlog=64,
            keepalive_interval=0,
            login_timeout=300,
        )
    told.send("ready")
    await asyncio.Event().wait()


def _serve(hosts: int, folder: Path, told: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (8 * hosts, 8 * hosts))
    asyncio.run(serve(hosts, folder, told))


@contextlib.contextmanager
def field(folder: Path, hosts: int) -> Iterator[dict[str, str]]:
    """Have a fleet of workers that answer; give the environment of a command that shows it."""
    for name in ("key", "host_key"):
        make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(make, check=True)
    (folder / "known").write_text(f"* {(folder / 'host_key.pub').read_text()}")
    options = (
        f"-oUserKnownHostsFile={folder / 'known'} -oGlobalKnownHostsFile=none "
        f"-oStrictHostKeyChecking=yes -oKexAlgorithms={KEX}"
    )
    with local_api(folder / "cloud", clock="immediate") as api:
        populate(api, ZONE, hosts, KIND)
        inventory = folder / "inventory"
        inventory.mkdir()
        plugin = {"plugin": "tpu.fleet.tpu", "project": "local-project", "api_endpoint": api}
        (inventory / "fleet.tpu.yml").write_text(json.dumps(plugin))
        reached = {
            f"node-{number}": {
                "ansible_host": address_of(number),
                "ansible_port": PORT,
                "ansible_user": USER,
                "ansible_ssh_private_key_file": str(folder / "key"),
                "ansible_ssh_common_args": options,
            }
            for number in range(hosts)
        }
        told = {"all": {"hosts": reached, "vars": {"fleet_allocations": "unrestricted"}}}
        (inventory / "zz.json").write_text(json.dumps(told))
        ours, theirs = multiprocessing.Pipe()
        server = multiprocessing.Process(target=_serve, args=(hosts, folder, theirs), daemon=True)
        server.start()
        ours.recv()
        env = {**environment(folder), "ANSIBLE_INVENTORY": str(inventory), "TERM": "xterm-256color"}
        env["PATH"] = f"{BIN}{os.pathsep}{os.environ['PATH']}"
        try:
            yield env
        finally:
            server.terminate()
            server.join()


def memory_of(pid: int) -> float:
    """Return how many MiB a process has."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024**2


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process."""
    told = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")


def during(seconds: float, pid: int) -> Cost:
    """Return what a process takes in a span of time."""
    cpu, wall = cpu_of(pid), time.monotonic()
    time.sleep(seconds)
    return Cost(time.monotonic() - wall, cpu_of(pid) - cpu, memory_of(pid))


def known_of(folder: Path) -> Known:
    """Return the workers, read as the command reads them."""
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory

    fleet = Inventory.read([str(folder / "inventory")], folder).fleet()
    return Known(folder / "ssh_config", fleet)


def one_look(known: Known, hosts: int) -> Cost:
    """Connect to all workers, and ask each for its runs."""
    cpu, wall = time.process_time(), time.monotonic()
    answers = ask_for_runs(known, list(known.fleet.targets), retry=False)
    assert len(answers.runs) == hosts, next(r for r in answers.results if not r.ok)
    return Cost(time.monotonic() - wall, time.process_time() - cpu, memory_of(os.getpid()))


def followed(known: Known, hosts: int, seconds: float, near: int) -> Cost:
    """Follow all workers; so many are on the screen."""
    follower = RunFollower(known, EVERY)
    follower.look_at(list(known.fleet.targets)[:near])
    follower.start()
    wait_until(lambda: sum(not heard.says for heard in follower.heard.values()) == hosts)
    time.sleep(2 * EVERY)
    try:
        return during(seconds, os.getpid())
    finally:
        follower.stop()


def wait_until(what: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for something."""
    until = time.monotonic() + seconds
    while not what():
        if time.monotonic() > until:
            sys.exit("Not all workers answered.")
        time.sleep(0.5)


def apart(work: Callable[..., Cost], *words: Any) -> Cost:
    """Measure in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_apart, (work, *words))


def _apart(work: Callable[..., Cost], folder: Path, *words: Any) -> Cost:
    return work(known_of(folder), *words)


class Shown:
    """`tpu-fleet top` in a terminal of its own."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        ours, theirs = pty.openpty()
        subprocess.run(["stty", "rows", "50", "cols", "160"], stdin=theirs, check=True)
        argv: list[str | Path] = [BIN / "tpu-fleet", "top", "--every", str(EVERY)]
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, cwd=folder, close_fds=True
        )
        os.close(theirs)
        self.said = bytearray()
        self._file = ours
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._file, 1 << 16):
                self.said += data

    def stop(self) -> None:
        """Quit."""
        os.write(self._file, b"q")
        if self.process.wait(30):
            sys.exit(f"tpu-fleet top failed: {bytes(self.said[-2000:])!r}")
        os.close(self._file)


def shown(env: dict[str, str], folder: Path, hosts: int, seconds: float) -> tuple[Cost, float]:
    """Return what the command takes, and the bytes of a refresh."""
    one = Shown(env, folder)
    try:
        wait_until(lambda: f"{hosts}/{hosts} workers answer".encode() in one.said)
        time.sleep(2 * EVERY)
        before = len(one.said)
        cost = during(seconds, one.process.pid)
        return cost, (len(one.said) - before) / (seconds / EVERY)
    finally:
        one.stop()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    hosts, seconds = asked.workers, asked.seconds
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        folder = Path(name)
        with field(folder, hosts) as env:
            os.environ.update(env)
            runs = {
                "a connection for each look": [apart(one_look, folder, hosts)],
                "kept, all each 5 s": [apart(followed, folder, hosts, seconds, hosts)],
                "kept, 44 each 5 s": [apart(followed, folder, hosts, seconds, 44)],
            }
            whole, size = shown(env, folder, hosts, seconds)
            runs["tpu-fleet top"] = [whole]
    spans = {key: EVERY if "look" in key else seconds for key in runs}
    print(f"{hosts} workers that answer from memory, over {seconds:.0f} s each")
    for key, costs in runs.items():
        cost = medians(costs)
        print(
            f"{key:<28}{100 * cost.cpu / spans[key]:8.1f} % of a core {cost.peak_memory:6.0f} MiB"
        )
    print(f"Bytes of a refresh: {size:.0f}")
    lines = [
        Line("tpu-fleet top, % of a core", 100 * whole.cpu / seconds, 5),
        Line("tpu-fleet top, MiB", whole.peak_memory, 200),
    ]
    print(promises(lines))
    facts = {"workers": hosts, "seconds": seconds, "every": EVERY, "bytes_of_a_refresh": size}
    record(asked.json, "top", runs, lines, **facts, spans=spans)


if __name__ == "__main__":
    main()
