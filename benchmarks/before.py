#!/usr/bin/env python3
"""What users wait for, against an earlier version of this repository in the same run.

    sudo .venv/bin/python benchmarks/before.py [--version 2f550e1] [--repeat 5] [--demos 1]
        [--record FILE]

Clones both versions, with an environment each. `demo` is `make demo` as on a new computer, with
neither .venv nor image of machines; `demo again` is the same when both are there, for new machines.
`change` is `ansible-playbook tpu.fleet.configure` after somebody got another shell, on one machine
that is configured, as each version applies roles when nobody says how. Packages of this computer
stay installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measure import ROOT, Cost, Line, interleaved, measured, medians, promises, record, table

OLD, NEW = "before", "now"
PORTS = {OLD: 8492, NEW: 8493}
MOST = {"demo": 0.6, "demo again": 0.5, "change": 0.6}
"""Times the wall time of the earlier version."""


class Version:
    """A clone of the repository at one commit."""

    def __init__(self, name: str, commit: str, folder: Path) -> None:
        self.name, self.folder = name, folder / name
        clone = ["git", "clone", "--quiet", str(ROOT), str(self.folder)]
        subprocess.run(clone, check=True)
        subprocess.run(["git", "-C", str(self.folder), "checkout", "-q", commit], check=True)
        path = f"{self.folder / '.venv/bin'}{os.pathsep}{os.environ['PATH']}"
        unwanted = ("TPU_FLEET_", "ANSIBLE_", "CLOUDSDK_", "GOOGLE_", "PYTHON")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        self.env = {**kept, "PATH": path}
        self.shell = "/bin/bash"

    def demo(self) -> Cost:
        """Measure the demo of a new computer."""
        shutil.rmtree(self.folder / ".venv", ignore_errors=True)
        return self._demo(keep_image=True)

    def demo_again(self) -> Cost:
        """Measure the demo when environment and image are there."""
        return self._demo(keep_image=False)

    def _demo(self, keep_image: bool) -> Cost:
        cost = measured(["make", "demo"], env=self.env, cwd=self.folder)
        demo = self.folder / ".work/demo"
        down = ["tpu-fleet", "cloud", "down", *(["--keep-image"] if keep_image else [])]
        env = {**self.env, "TPU_FLEET_CLOUD_DIR": str(demo / "cloud")}
        subprocess.run(down, env=env, cwd=self.folder, check=True, capture_output=True)
        shutil.rmtree(demo)
        return cost

    # A machine that is configured

    def begin(self, folder: Path) -> None:
        """Make a cloud with one configured machine."""
        state = folder / f"state-{self.name}"
        self.inventory = folder / f"inventory-{self.name}"
        shutil.copytree(self.folder / "inventory", self.inventory)
        if not (folder / "examples").exists():
            (folder / "examples").symlink_to(ROOT / "examples")
        where = self.inventory / "fleet.tpu.yml"
        where.write_text(where.read_text().replace(":8470/", f":{PORTS[self.name]}/"))
        self.env |= {
            "ANSIBLE_INVENTORY": str(self.inventory),
            "TPU_FLEET_CLOUD_DIR": str(state / "cloud"),
            "TPU_FLEET_STATE_DIR": str(state),
            "TPU_FLEET_SSH_KEY": str(state / "key"),
        }
        self._run("make", "venv")
        up = ("tpu-fleet", "cloud", "up", "--hosts", "container", "--install")
        self._run(*up, "--port", str(PORTS[self.name]), "--clock", "immediate")
        self.declare()
        self._run("ansible-playbook", "tpu.fleet.provision")
        self._run("ansible-playbook", "tpu.fleet.configure")

    def declare(self) -> None:
        """Write the fleet file, with another shell for alice than before."""
        self.shell = "/bin/sh" if self.shell == "/bin/bash" else "/bin/bash"
        said: dict[str, Any] = {
            "fleet_slices": [
                {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"},
            ],
            "fleet_allocations": "unrestricted",
            "fleet_runs": [],
            "fleet_users": [{"name": "alice", "uid": 2001, "shell": self.shell}],
            "fleet_shells": [],
        }
        (self.inventory / "group_vars/all/story.yml").write_text(json.dumps(said))

    def change(self) -> Cost:
        """Measure what brings a change of one role to the machine."""
        self.declare()
        return measured(["ansible-playbook", "tpu.fleet.configure"], self.env, self.folder)

    def end(self) -> None:
        """Remove the cloud."""
        self._run("tpu-fleet", "cloud", "down", "--keep-image")

    def _run(self, *argv: str) -> None:
        done = subprocess.run(
            argv, env=self.env, cwd=self.folder, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{' '.join(argv)} failed:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")


def demos(versions: list[Version], repeat: int) -> dict[str, list[Cost]]:
    """Measure the demo of each version, for the first time and once more."""
    runs: dict[str, list[Cost]] = {}
    for number in range(repeat):
        for version in versions if number % 2 == 0 else versions[::-1]:
            for what, demo in (("demo", version.demo), ("demo again", version.demo_again)):
                cost = demo()
                runs.setdefault(f"{what}, {version.name}", []).append(cost)
                print(f"{what}, {version.name}: {cost.wall:.0f} s", flush=True)
    return runs


def changes(versions: list[Version], repeat: int, folder: Path) -> dict[str, list[Cost]]:
    """Measure a later change with each version."""
    for version in versions:
        version.begin(folder)
    try:
        rows: dict[str, Callable[[], Cost]] = {
            f"change, {version.name}": version.change for version in versions
        }
        return interleaved(rows, repeat)
    finally:
        for version in versions:
            version.end()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", default="2f550e1", metavar="COMMIT")
    parser.add_argument("--repeat", type=int, default=5, help="changes of each version")
    parser.add_argument("--demos", type=int, default=1, help="of each version; 0: none")
    parser.add_argument("--record", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        folder = Path(name)
        versions = [Version(OLD, asked.version, folder), Version(NEW, "HEAD", folder)]
        runs = demos(versions, asked.demos)
        runs |= changes(versions, asked.repeat, folder) if asked.repeat else {}
    wall = {what: medians(costs).wall for what, costs in runs.items()}
    lines = [
        Line(f"{what}, now / before, wall", wall[f"{what}, {NEW}"] / wall[f"{what}, {OLD}"], most)
        for what, most in MOST.items()
        if f"{what}, {NEW}" in wall
    ]
    print(table(runs, next(iter(runs))))
    print(promises(lines))
    record(asked.record, "before", runs, lines, version=asked.version)


if __name__ == "__main__":
    main()
