#!/usr/bin/env python3
"""How long the recreation of a slice takes whose data disk has its environments' cache.

    sudo .venv/bin/python benchmarks/made_again.py [--repeat 5] [--record FILE]

Makes a local cloud of its own. In each round a slice with an empty data disk is configured for the
first time, then deleted without its disk, made again and configured. fleet_package_cache_dir is on
the disk. Making the machines does not count. Packages come from wherever they come from for
everybody: here a registry nearby, from which they take hardly longer than from a disk.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from first_configure import Machines
from measure import Cost, Line, measured, medians, promises, record, table

ROOT = Path(__file__).resolve().parents[1]
SLICE, ZONE, MOUNT = "solo", "us-central2-b", "/mnt/saved"
FIRST, AGAIN = "first", "made again"
MOST = 0.5
"""Times the first configure."""


class Cached(Machines):
    """One slice with a data disk, or none."""

    def make(self, disk: str) -> None:
        """Make the slice, and its disk if there is none."""
        solo = {"name": SLICE, "accelerator_type": "v4-8", "zone": ZONE}
        said = {
            "fleet_slices": [solo],
            # A cache belongs to root, as the folders above it do.
            "fleet_disks": [{"name": disk, "size": "10GiB", "slices": [SLICE], "path": MOUNT}],
            "fleet_package_cache_dir": f"{MOUNT}/uv",
        }
        self.declare({**self.file([]), **said})
        self.play("tpu.fleet.disks")
        self.play("tpu.fleet.provision")

    def remove(self) -> None:
        """Delete the slice without its disk."""
        self.renew([])

    def apply(self) -> Cost:
        """Measure the configure."""
        return measured(["ansible-playbook", "tpu.fleet.configure"], env=self.env, cwd=ROOT)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--port", type=int, default=8497)
    parser.add_argument("--record", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args()
    runs: dict[str, list[Cost]] = {FIRST: [], AGAIN: []}
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        fleet = Cached(Path(name), asked.port)
        fleet.up("--clock", "immediate")
        try:
            for number in range(asked.repeat):
                for what in (FIRST, AGAIN):
                    fleet.make(f"saved-{number}")
                    cost = fleet.apply()
                    runs[what].append(cost)
                    print(f"round {number + 1}, {what}: {cost.wall:.1f} s", flush=True)
                    fleet.remove()
        finally:
            fleet.down()
    ratio = medians(runs[AGAIN]).wall / medians(runs[FIRST]).wall
    print(table(runs, FIRST))
    lines = [Line(f"{AGAIN} / {FIRST}, wall", ratio, MOST)]
    print(promises(lines))
    record(asked.record, "made-again", runs, lines)


if __name__ == "__main__":
    main()
