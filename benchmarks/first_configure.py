#!/usr/bin/env python3
"""How long the first configure of one machine takes, against a script by hand with the same effect.

    sudo .venv/bin/python benchmarks/first_configure.py [--repeat 3] [--record FILE]

Makes a local cloud of its own. For each round every contender gets a fresh machine, and brings it
to what the demo's fleet file declares, but for the training: `script` is first_configure.sh by one
ssh, `push` and `host` are `ansible-playbook tpu.fleet.configure`. Making the machines does not
count. Nothing is cached on them: all fetch the same packages from the same places, and take turns
in being the first. Then the machines are compared: one that differs in what matters is an error.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from measure import Cost, Line, measured, medians, promises, record, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))

from fleet import Fleet  # noqa: E402

HERE = Path(__file__).parent
SCRIPT = HERE / "first_configure.sh"
FACTS = HERE / "first_configure_facts.sh"
CONFIGURE = ("ansible-playbook", "tpu.fleet.configure", "--limit")
CONTENDERS: dict[str, tuple[str, ...]] = {
    "script": (),
    "push": ("-e", "fleet_apply=push"),
    # What it is when nobody says anything.
    "host": (),
}
OURS = ("push", "host")
PEOPLE = ("alice", "bob")
MOST = 1.2
MISSING = "not there"


class Machines(Fleet):
    """The demo's fleet file with other slices, and a fresh machine for everyone in each round."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder, port, self.file([]))
        # Bytecode is kept, as on everybody's computer: else Ansible compiles itself on each start.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)

    @staticmethod
    def file(names: list[str]) -> dict[str, Any]:
        """Return what is other than in the demo's file, which has people, environment and code."""
        slices = [
            {"name": name, "accelerator_type": "v4-8", "zone": "us-central2-b"} for name in names
        ]
        return {
            "fleet_slices": slices,
            "fleet_allocations": "unrestricted",
            "training_run_runs": [],
        }

    def renew(self, names: list[str]) -> None:
        """Make these machines, and delete all others."""
        self.declare(self.file(names))
        self.play("tpu.fleet.provision", "-e", "fleet_prune=true")

    def configure(self, contender: str, host: str) -> Cost:
        """Measure how a contender configures a machine."""
        argv: list[str] = [*CONFIGURE, host, *CONTENDERS[contender]]
        if contender == "script":
            key = Path(f"{self.env['TPU_FLEET_SSH_KEY']}.pub").read_text().strip()
            remote = shlex.join(["sudo", "bash", "-s", "--", host, key])
            ssh = shlex.join(["ssh", "-F", str(self.ssh_config), host, remote])
            code = shlex.join(["tar", "-cz", "-C", str(ROOT / "examples/jax"), "."])
            argv = ["bash", "-o", "pipefail", "-c", f"{{ cat {SCRIPT}; {code}; }} | {ssh}"]
        return measured(argv, env=self.env, cwd=ROOT)

    def cpu(self, host: str) -> float:
        """Return the CPU seconds of all that has run on a machine since it came up."""
        words = ["ssh", "-F", str(self.ssh_config), host, "cat /proc/[0-9]*/stat; true"]
        told = subprocess.run(
            words,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
        # User and system time of each process, and of those that it waited for.
        fields = (line.rpartition(")")[2].split()[11:15] for line in told.stdout.splitlines())
        return sum(int(ticks) for four in fields for ticks in four) / os.sysconf("SC_CLK_TCK")

    def facts(self, host: str) -> dict[str, str]:
        """Ask a machine, and its people when they log in, how things are."""
        return dict(
            line.partition(": ")[::2]
            for command in ([], *(["-l", person] for person in PEOPLE))
            for line in self._asked(host, command)
        )

    def _asked(self, host: str, login: list[str]) -> list[str]:
        shell = ["bash", "-ls"] if login else ["sudo", "bash", "-s"]
        ssh = ["ssh", "-F", str(self.ssh_config), "-oLogLevel=ERROR", *login, host, *shell]
        with FACTS.open() as script:
            done = subprocess.run(
                ssh, stdin=script, env=self.env, capture_output=True, text=True, check=True
            )
        return done.stdout.replace(f"[{host}]", "[its name]").splitlines()


def differences(name: str, script: dict[str, str], ours: dict[str, str]) -> list[str]:
    """Say what is not the same on the script's machine as on one of ours."""
    return [
        f"{fact}: {script.get(fact, MISSING)!r} by script, {ours.get(fact, MISSING)!r} by {name}"
        for fact in sorted({*script, *ours})
        if script.get(fact) != ours.get(fact)
    ]


def one_round(fleet: Machines, number: int) -> dict[str, tuple[Cost, float]]:
    """Measure all once on fresh machines: the command's cost, and the CPU of the machine."""
    names = list(CONTENDERS)
    turn = number % len(names)
    hosts = {name: f"{name}-{number}" for name in names}
    fleet.renew(list(hosts.values()))
    found = {}
    for name in names[turn:] + names[:turn]:
        before = fleet.cpu(hosts[name])
        cost = fleet.configure(name, hosts[name])
        found[name] = cost, fleet.cpu(hosts[name]) - before
        print(f"round {number + 1}, {name}: {cost.wall:.1f} s", flush=True)
    facts = {name: fleet.facts(host) for name, host in hosts.items()}
    wrong = [line for name in OURS for line in differences(name, facts["script"], facts[name])]
    if wrong:
        sys.exit("The machines are not the same:\n" + "\n".join(wrong))
    print(f"round {number + 1}: the machines are the same in {len(facts['script'])} facts")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, metavar="ROUNDS")
    parser.add_argument("--port", type=int, default=8497)
    parser.add_argument("--record", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        fleet = Machines(Path(name), asked.port)
        fleet.up("--clock", "immediate")
        try:
            rounds = [one_round(fleet, number) for number in range(asked.repeat)]
        finally:
            fleet.down()
    runs = {name: [found[name][0] for found in rounds] for name in CONTENDERS}
    machines = {name: [round(found[name][1], 2) for found in rounds] for name in CONTENDERS}
    wall = {name: medians(costs).wall for name, costs in runs.items()}
    lines = [Line(f"{name} / script, wall", wall[name] / wall["script"], MOST) for name in OURS]
    print(f"\nmedians of {asked.repeat}; CPU and memory of this computer, without the machines")
    print(table(runs, "script"))
    cpu = {name: statistics.median(seconds) for name, seconds in machines.items()}
    for name in CONTENDERS:
        ratio = cpu[name] / cpu["script"]
        print(f"{name}: {cpu[name]:.1f} s of CPU on the machine, {ratio:.2f} x the script's")
    print(promises(lines))
    record(asked.record, "first-configure", runs, lines, machine_cpu=machines)


if __name__ == "__main__":
    main()
