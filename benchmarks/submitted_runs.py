#!/usr/bin/env python3
"""From an idle slice to a submitted run's first line, and many short runs: queue and ssh.

    sudo .venv/bin/python benchmarks/submitted_runs.py [--trials 7] [--runs 100] [--json FILE]

Makes a local cloud with four slices v4-8 that serve a queue, and an environment. Machines and
controller have one clock, and one computer.

first line  from the moment that a run is in the queue, with all slices idle, to the first line of
            its program, as the program writes it down; also from the start of `tpu-fleet submit`
program     from the order on a slice to the first line of the same program, without tpu.fleet
queue       `tpu-fleet submit --on v4-8 --checkpoint-dir none --sweep n=1..100`: from its start
            until the last of the runs has ended in the queue
archived    the same with checkpoints in the bucket, where each log is archived; it is measured
            if --archived is given
by ssh      for each slice a loop, all at once: ssh to the slice and run the program with the next
            number, as one does by hand; the code is there already
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import requests
from measure import Cost, Line, interleaved, medians, promises, record

ROOT = Path(__file__).resolve().parents[1]
for place in (ROOT / "tests/support", ROOT / "local_cloud/tests/support", ROOT / "collections"):
    sys.path.insert(0, str(place))

from fleet import NOTHING, Fleet, wait_until  # noqa: E402
from submitters import MachinesBucket, Person, Queue, parse  # noqa: E402

ZONE, KIND, BUCKET = "us-central2-b", "v4-8", "lab-queue"
SLICES = ("one", "two", "three", "four")
MOST_SECONDS, MOST_RATIO = 3.0, 1.5
"""Beyond the program's own start; and times what a loop over ssh takes."""
PYTHON = "/opt/venvs/tools/bin/python"
BY_HAND = "/home/ubuntu/by-hand"
PROGRAM = """import sys, time
print("number", sys.argv[1], "at", time.time(), flush=True)
time.sleep(float(sys.argv[2]))
"""
SETTINGS: dict[str, Any] = {
    "slice": "none", "zone": ZONE, "node": "", "type": "", "chips": 0, "hosts": [], "worker": 0,
    "port": 0, "queue": f"gs://{BUCKET}/queue", "declared_first": True, "take_after": None,
    "limits": {"chips": None, "runs": None}, "users": {}, "secrets": {}, "people": [],
    "venvs": [], "venvs_elsewhere": [], "metadata": "", "training": {}, "run_defaults": {},
}  # fmt: skip


class Lab(Fleet):
    """Four slices that serve a queue, and a person who submits."""

    def __init__(self, folder: Path, port: int) -> None:
        self.alice = Person(folder, "alice")
        self.number = 0
        super().__init__(
            folder,
            {
                **NOTHING,
                "fleet_allocations": "unrestricted",
                "fleet_slices": [
                    {"name": name, "accelerator_type": KIND, "zone": ZONE} for name in SLICES
                ],
                "fleet_users": [{"name": "alice", "uid": 2001, "keys": [self.alice.public_key]}],
                "fleet_base_packages": ["sudo", "tmux", "tzdata", "python3-venv"],
                "fleet_shell_packages": [],
                "fleet_venvs": [
                    {
                        "name": "tools",
                        "path": "/opt/venvs/tools",
                        "python": "3.11",
                        "packages": ["idna"],
                    }
                ],
                "fleet_queue": {"bucket": f"gs://{BUCKET}/queue", "venv": "tools"},
            },
            port=port,
        )
        # Bytecode is kept, as on a user's computer.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.code = folder / "code"
        self.code.mkdir()
        (self.code / "job.py").write_text(PROGRAM)
        self.store = f"http://127.0.0.1:{self.port}"
        self.queue = Queue(MachinesBucket(parse({**SETTINGS, "storage": self.store})))

    def begin(self) -> None:
        """Bring everything up, and do each thing once without counting."""
        self.up("--clock", "immediate")
        made = {"name": BUCKET, "location": "US-CENTRAL2"}
        requests.post(f"{self.store}/storage/v1/b", json=made, timeout=60).raise_for_status()
        self.play("site.yml")
        copied = f"mkdir -p {BY_HAND} && cat > {BY_HAND}/job.py <<'END'\n{PROGRAM}END"
        for name in SLICES:
            self.ssh(name, copied)
        for name in SLICES:
            self.one(name)

    # A run on an idle slice

    def one(self, slice_: str = "") -> tuple[float, float]:
        """Submit a run; return its seconds from the queue, and from the command, to its line."""
        self.number += 1
        name, begun = f"one-{self.number}", time.time()
        self.submitted(name, ["--on", slice_ or KIND], f"{self.number} 0")
        waiting = self.queue.read(name)
        run = wait_until(name, lambda: self.done(name), 120)
        log = f"/var/log/tpu-fleet/runs/{name}/run.log"
        found = self.ssh(run.last, f"sudo cat {log}; sudo systemctl is-active tpu-fleet-queue")
        first = float(re.findall(r"at (\S+)", found)[0])
        assert waiting is not None
        time.sleep(3)  # until that slice is idle as the others are
        return first - run.submitted_at, first - begun

    def submitted(self, name: str, more: list[str], words: str) -> None:
        """Submit as a person does."""
        command = ["--name", name, "--code", str(self.code), "--ssh-key", str(self.alice.key)]
        self.run("tpu-fleet", "submit", *command, *more, "--", "python", "job.py", *words.split())

    def done(self, name: str) -> Any:
        """Return the state of a run that is done."""
        seen = self.queue.read(name)
        return seen.run if seen and seen.run.state == "done" else None

    def program(self) -> Cost:
        """Return the seconds between the order on a slice and the program's first line."""
        words = f"cd {BY_HAND} && date +%s.%N && {PYTHON} job.py 0 0"
        begun, line = self.ssh(SLICES[0], words).splitlines()[-2:]
        return Cost(float(line.split()[-1]) - float(begun), 0.0, 0.0)

    def first_line(self) -> Cost:
        """Return the seconds from the queue to the line; those from the command as CPU's."""
        from_queue, from_command = self.one()
        return Cost(from_queue, from_command, 0.0)

    # Many short runs

    def by_queue(self, count: int, seconds: float, *more: str) -> Cost:
        """Return how long a sweep takes."""
        self.number += 1
        name, begun = f"many-{self.number}", time.time()
        swept = ["--on", KIND, "--sweep", f"n=1..{count}", *more]
        self.submitted(name, swept, f"{{n}} {seconds}")
        shown = time.time() - begun

        def ended() -> list[Any] | None:
            runs = [one for one in self.queue.all().states if one.name.startswith(f"{name}-")]
            return runs if all(one.state == "done" for one in runs) else None

        runs = wait_until(name, ended, 900)
        assert len(runs) == count
        print(
            f"queue: submitted after {shown:.1f} s; on each slice "
            f"{[sum(one.last == slice_ for one in runs) for slice_ in SLICES]}",
            flush=True,
        )
        return Cost(max(one.ended_at for one in runs) - begun, 0.0, 0.0)

    def by_ssh(self, count: int, seconds: float) -> Cost:
        """Return how long loops over ssh take."""
        command = f"cd {BY_HAND} && {PYTHON} job.py"
        ssh = f"ssh -F {self.ssh_config} -o BatchMode=yes -o LogLevel=ERROR"
        loops = [
            f"for n in $(seq {at} {len(SLICES)} {count}); do "
            f"{ssh} {name} {shlex.quote(command)} $n {seconds} < /dev/null || exit 1; done"
            for at, name in enumerate(SLICES, 1)
        ]
        begun = time.time()
        started = [subprocess.Popen(["bash", "-c", loop], env=self.env) for loop in loops]
        codes = [one.wait() for one in started]
        assert codes == [0] * len(SLICES), codes
        return Cost(time.time() - begun, 0.0, 0.0)


def lines_of(runs: dict[str, list[Cost]], count: int) -> list[Line]:
    """Return the promises."""
    first, program = medians(runs["first line"]).wall, medians(runs["program"]).wall
    queue, ssh = (medians(runs[name]).wall for name in ("queue", "by ssh"))
    return [
        Line("seconds from the queue to the first line, beyond the program's start",
             first - program, MOST_SECONDS),
        Line(f"{count} runs on four slices: times as long as loops over ssh",
             queue / ssh, MOST_RATIO),
    ]  # fmt: skip


def main() -> None:
    """Measure, show and record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=7)
    parser.add_argument("--sweeps", type=int, default=1, help="times that many runs are measured")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=1.0, help="that each of them takes")
    parser.add_argument("--archived", action="store_true", help="measure archived runs as well")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        lab = Lab(Path(name), given.port)
        try:
            lab.begin()
            rows: dict[str, Callable[[], Cost]]
            rows = {"first line": lab.first_line, "program": lab.program}
            runs = interleaved(rows, given.trials)
            rows = {
                "by ssh": lambda: lab.by_ssh(given.runs, given.seconds),
                "queue": lambda: lab.by_queue(
                    given.runs, given.seconds, "--checkpoint-dir", "none"
                ),
            }
            if given.archived:
                rows["archived"] = lambda: lab.by_queue(given.runs, given.seconds)
            runs |= interleaved(rows, given.sweeps)
        finally:
            lab.down()
    for name, costs in runs.items():
        shown = " ".join(f"{cost.wall:.2f}" for cost in costs)
        print(f"{name:<10} median {medians(costs).wall:6.2f} s   {shown}", flush=True)
    whole = medians(runs["first line"]).cpu
    print(f"first line from the start of tpu-fleet submit: median {whole:.2f} s")
    promised = lines_of(runs, given.runs)
    print(promises(promised))
    record(given.json, "submitted_runs", runs, promised, count=given.runs, seconds=given.seconds)


if __name__ == "__main__":
    main()
