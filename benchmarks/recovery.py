#!/usr/bin/env python3
"""How long a run is away: its program killed, its machine rebooted, its slice preempted.

    sudo .venv/bin/python benchmarks/recovery.py [--trials 10] [--json FILE]

Makes a local cloud of its own with one slice on which a JAX program trains; its checkpoints are on
a data disk. A trial does each of the three once. Counted is from the moment of the fault until the
program begins a step again, from its checkpoint, as it writes down itself. Beside each stands what
nobody can beat, measured in the same trial on the same machine:

killed     the plain start of the program by hand, from a copy of the checkpoints, to its first step
rebooted   the machine's own boot, from the order until somebody can log in; nobody else is there
preempted  what the cloud takes to make the machine, and a configure and train of the new machine
           that somebody begins at once; the healing has `tpu-fleet watch` with its usual interval,
           which first has to notice, and to clear away what was there
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import requests
from measure import Cost, Line, promises, record

ROOT = Path(__file__).resolve().parents[1]
SHARED = ("tests/support", "local_cloud/tests/support", "tests/worlds")
sys.path[:0] = [str(ROOT / name) for name in SHARED]

from chaos.field import FLEET, SAVED, USER, Field, Unreachable, packages_of  # noqa: E402
from chaos.plan import SOLO  # noqa: E402
from fleet import wait_until  # noqa: E402

PREEMPTED, REBOOTED, KILLED = "preempted", "rebooted", "killed"
# A step that takes no longer than a moment: the next one is what is waited for.
COMMAND = "python3 train.py --every 5 --step-seconds 0.2"
RUN = {
    **FLEET["fleet_runs"][0],
    "command": COMMAND,
    # Each of the failures that are made here shall be the first one, as it is in life.
    "fail_fast_window": "1s",
}
SAID = {
    **FLEET,
    "fleet_slices": [one for one in FLEET["fleet_slices"] if one["name"] == SOLO],
    "fleet_code": [{**FLEET["fleet_code"][0], "slices": [SOLO]}],
    "fleet_runs": [RUN],
    # As the role has it.
    "fleet_run_lost_after": "30s",
}
MOST = {KILLED: 5.0, REBOOTED: 8.0, PREEMPTED: 10.0}
"""Seconds beyond the yardstick."""


class Slice(Field):
    """One slice, and its times."""

    def __init__(self, folder: Path, speed: float) -> None:
        super().__init__(folder, SAID, ())
        self._speed = speed

    def begin(self) -> None:
        """Bring it up until it trains."""
        self.up("--speed", f"{self._speed:g}")
        self.set_up()

    def goes_on(self, since: float, limit: float = 900) -> float:
        """Return when the first step of an attempt began that began after a time."""

        def look() -> float:
            try:
                lives = [life for life in self.lives(SOLO) if life.begun > since and life.steps]
            except (Unreachable, requests.RequestException):
                return 0.0
            return min((life.steps[0][1] for life in lives), default=0.0)

        return wait_until("it goes on", look, limit)

    def settle(self) -> None:
        """Wait until it has saved something of this attempt."""
        wait_until("it trains", lambda: self.trains(SOLO), 600)
        time.sleep(5)

    def killed(self) -> tuple[float, float]:
        """Kill the program; return the seconds, and those of a plain start."""
        self.settle()
        folder, code = f"{SAVED[SOLO]}-plain", self.run_status(SOLO)["workdir"]
        plain = f"""
rm -rf {folder}; cp -r {SAVED[SOLO]} {folder}; rm -rf {folder}/ledger; chown -R {USER} {folder}
steps=$(ls {folder}/step-*.npz | tail -n 1 | sed -E 's/.*step-0*([0-9]+).npz/\\1/')
cd {code}; date +%s.%N
runuser -u {USER} -- env TPU_FLEET_CHECKPOINT_DIR={folder} PYTHONPATH={packages_of(SOLO)} \\
  python3 train.py --steps $((steps + 1)) > /dev/null
grep -h step {folder}/ledger/* | head -n 1
"""
        began, first = self.on(SOLO, 0, plain, limit=300).split("\n", 1)
        alone = json.loads(first)["t"] - float(began)
        pid = self.run_status(SOLO)["pid"]
        at = float(self.on(SOLO, 0, f"date +%s.%N; kill -9 {pid}"))
        return self.goes_on(at) - at, alone

    def rebooted(self) -> tuple[float, float]:
        """Reboot the machine; return the seconds, and those of the boot."""
        self.settle()
        at = time.time()
        self.order(SOLO, "reboot", worker=0)
        boot = time.time() - at
        return self.goes_on(at) - at, boot

    def preempted(self) -> tuple[float, float]:
        """Preempt the slice; return the seconds, and those of making it by hand."""
        self.settle()
        with self.healed():
            wait_until("somebody watches", lambda: "is active now" in self.watched(), 120)
            # The watcher takes the machine for set up first.
            time.sleep(10)
            at = time.time()
            self.order(SOLO, "preempt")
            healed = self.goes_on(at) - at
        self.watch_output.unlink()
        self.settle()
        self.order(SOLO, "preempt")
        number = requests.get(f"{self.api}/history/0", timeout=60).json()["next"]
        self.run("ansible-playbook", "tpu.fleet.provision")
        made = self._made(number)
        begun = time.time()
        self.run("ansible-playbook", "tpu.fleet.configure")
        self.run("ansible-playbook", "tpu.fleet.train")
        return healed, made + time.time() - begun

    def _made(self, number: int) -> float:
        """Return the seconds for which the new node was being made."""
        told = requests.get(f"{self.api}/history/{number}", timeout=60).json()["events"]
        mine = [event for event in told if (event["what"], event["name"]) == ("node", SOLO)]
        begun = next(event["at"] for event in mine if event["state"] == "CREATING")
        ready = next(e["at"] for e in mine if e["state"] == "READY" and e["at"] > begun)
        return float(ready - begun) / self._speed


def table(found: dict[str, list[tuple[float, float]]]) -> list[str]:
    """Return the medians, and how they stand to their yardsticks."""
    lines = [
        f"{'':<12}{'median s':>10}{'worst s':>10}{'yardstick s':>13}{'ratio':>8}{'beyond s':>10}"
    ]
    for what, pairs in found.items():
        ours, theirs = medians_of(pairs)
        worst = max(mine for mine, _other in pairs)
        figures = (
            f"{ours:10.1f}{worst:10.1f}{theirs:13.1f}{ours / theirs:8.2f}{ours - theirs:10.1f}"
        )
        lines.append(f"{what:<12}{figures}")
    return lines


def medians_of(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the medians of both."""
    ours, theirs = zip(*pairs, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--speed", type=float, default=10.0, help="of the cloud's clock")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    asked = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {KILLED: [], REBOOTED: [], PREEMPTED: []}
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        machine = Slice(Path(name), asked.speed)
        try:
            machine.begin()
            for number in range(asked.trials):
                for what, measured in found.items():
                    measured.append(getattr(machine, what)())
                    ours, theirs = measured[-1]
                    said = f"{ours:.1f} s, yardstick {theirs:.1f} s"
                    print(f"{number + 1}/{asked.trials} {what}: {said}", flush=True)
        finally:
            machine.down()
    print(f"\nmedians of {asked.trials}")
    print("\n".join(table(found)))
    runs: dict[str, list[Cost]] = {}
    lines = []
    for what, pairs in found.items():
        runs[what] = [Cost(ours, 0.0, 0.0) for ours, _theirs in pairs]
        runs[f"{what}, yardstick"] = [Cost(theirs, 0.0, 0.0) for _ours, theirs in pairs]
        ours, theirs = medians_of(pairs)
        lines.append(Line(f"{what}: seconds beyond the yardstick", ours - theirs, MOST[what]))
    print(promises(lines))
    facts: dict[str, Any] = {"trials": asked.trials, "speed": asked.speed}
    record(asked.json, "recovery", runs, lines, **facts)


if __name__ == "__main__":
    main()
