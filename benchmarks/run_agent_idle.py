#!/usr/bin/env python3
"""What the run agent takes of a worker on a day on which nothing happens.

    .venv/bin/python benchmarks/run_agent_idle.py [--seconds 180] [--json FILE]

Real agents look after programs that do nothing, with the settings that the role gives them: one
that is alone, and two that are a gang. A stand-in of the metadata server announces no maintenance.
Counted is all that a run adds to its program: the agent, the program's parent, what writes the log,
and tmux. The yardstick is what nobody can beat who wakes up as often: a Python that sleeps for a
second, again and again. A day is what the measured seconds took, times as many as it has.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from measure import ROOT, Cost, Line, promises, record

sys.path.insert(0, str(ROOT / "tests" / "support"))
sys.path.insert(0, str(ROOT / "tests" / "cloud" / "run_agent"))

from harness import HOSTS, Worker, clean_up

DAY = 86_400
WARM_UP = 30
"""Seconds until an agent has done what it does once."""
PORTS = range(23_100, 23_110, 2)
IDLE = "exec sleep 1000000"
SLEEPER = "import time\nwhile True: time.sleep(1)"


class Metadata(BaseHTTPRequestHandler):
    """Says, as on most days, that no maintenance is ahead."""

    def do_GET(self) -> None:
        """Answer the two keys that an agent reads."""
        ahead = "/upcoming-maintenance" in self.path
        self.send_response(503 if ahead else 200)
        self.send_header("Content-Length", "0" if ahead else "4")
        self.end_headers()
        if not ahead:
            self.wfile.write(b"NONE")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@contextmanager
def metadata() -> Iterator[str]:
    """Return the address of a metadata server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def gang(base: Path, name: str, workers: int, port: int, url: str) -> list[Worker]:
    """Start the agents of a run, and wait until its programs are there."""
    definition = {
        "run": name,
        "command": IDLE,
        "hosts": list(HOSTS[:workers]),
        "port": port,
        "coordinator_port": port + 1,
        "checkpoint_dir": str(base / name / "checkpoints"),
        "metadata": url,
    }
    made = [Worker(base / name, index, definition) for index in range(workers)]
    for worker in made:
        worker.up()
    for worker in made:
        worker.wait_running(attempt=1)
    return made


def belonging_to(worker: Worker) -> list[int]:
    """Return the processes that a run has on a worker besides its program."""
    mark = f"{worker.folder}/".encode()
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit() or int(process.name) == worker.status()["pid"]:
            continue
        try:
            texts = [(process / name).read_bytes() for name in ("cmdline", "environ")]
        except OSError:
            continue  # it ended
        if any(mark in text for text in texts):
            found.append(int(process.name))
    return found


def cpu_of(pid: int) -> float:
    """Return the CPU seconds of a process, and of those that it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def memory_of(pids: list[int]) -> float:
    """Return the MiB of processes: each one's own, and once what the largest of them shares."""
    own, shared = [], []
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        sizes = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        own.append(sizes["Private_Clean"] + sizes["Private_Dirty"])
        shared.append(sizes["Rss"] - own[-1])
    return (sum(own) + max(shared)) / 1024


def name_of(pid: int) -> str:
    """Return what a process is for."""
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"tmux" in words[0]:  # which shows the whole command line of its first session
        return "tmux"
    parts = {b"agent": "agent", b"program": "program's parent", b"log": "log"}
    script = next(at for at, word in enumerate(words) if word.endswith(b"tpu_fleet_run.py"))
    return parts[words[script + 1]]


def measured(rows: dict[str, Callable[[], list[int]]], seconds: float) -> dict[str, list[Cost]]:
    """Return what each row takes in a day, from what it takes in so many seconds."""
    pids = {name: look() for name, look in rows.items()}
    began = time.monotonic()
    before = {name: sum(map(cpu_of, found)) for name, found in pids.items()}
    time.sleep(seconds)
    took = time.monotonic() - began
    return {
        name: [
            Cost(
                wall=took,
                cpu=(sum(map(cpu_of, found)) - before[name]) * DAY / took,
                peak_memory=memory_of(found),
            )
        ]
        for name, found in pids.items()
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180.0, help="how long to look")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    workers: list[Worker] = []
    sleeper = subprocess.Popen([sys.executable, "-S", "-c", SLEEPER])
    # Short, as paths of sockets have a limit.
    with (
        tempfile.TemporaryDirectory(prefix="ra", ignore_cleanup_errors=True) as name,
        metadata() as url,
    ):
        try:
            for workload, count, port in (("alone", 1, PORTS[0]), ("gang", 2, PORTS[1])):
                workers += gang(Path(name), workload, count, port, url)
            time.sleep(WARM_UP)
            told = {
                "alone": workers[0],
                "worker 0 of two": workers[1],
                "worker 1 of two": workers[2],
            }
            rows: dict[str, Callable[[], list[int]]] = {
                "a Python that sleeps": lambda: [sleeper.pid]
            }
            for row, worker in told.items():
                process = worker.process
                assert process is not None
                rows[f"{row}: the agent"] = partial(list, (process.pid,))
                rows[f"{row}: all of it"] = partial(belonging_to, worker)
            parts = {row: sorted(map(name_of, belonging_to(one))) for row, one in told.items()}
            runs = measured(rows, asked.seconds)
            for one in workers:
                assert one.status()["attempt"] == 1, "the program did not stay as it was"
        finally:
            sleeper.kill()
            sleeper.wait()
            clean_up(workers)

    width = max(map(len, runs)) + 2
    print(f"{'':<{width}}{'CPU s a day':>12}{'% of a core':>12}{'MiB':>8}")
    for row, (cost,) in runs.items():
        share = 100 * cost.cpu / DAY
        print(f"{row:<{width}}{cost.cpu:12.0f}{share:12.2f}{cost.peak_memory:8.1f}")
    print(f"All of it: {parts['alone']}")
    whole = [cost for row, (cost,) in runs.items() if row.endswith("all of it")]
    lines = [
        Line("CPU s a day, all of a run on a worker", max(cost.cpu for cost in whole), DAY / 100),
        Line("MiB, all of a run on a worker", max(cost.peak_memory for cost in whole), 64),
    ]
    print(promises(lines))
    record(asked.json, "run_agent_idle", runs, lines, seconds=asked.seconds, parts=parts)


if __name__ == "__main__":
    main()
