#!/usr/bin/env python3
"""How long the first configure of machines takes, against a script by hand with the same effect.

    sudo .venv/bin/python benchmarks/first_configure.py [--repeat 5] [--at-once 1]
        [--contenders script push host] [--record FILE]

Makes a local cloud of its own. For each round every contender gets fresh machines, and brings them
to what the demo's fleet file declares, but for the training: `script` is first_configure.sh by one
ssh for each machine, all at once; `push` and `host` are `ansible-playbook tpu.fleet.configure`.
Making the machines does not count. Nothing is cached on them: all fetch the same packages from the
same places, and take turns in being the first. Then the machines are compared: one that differs in
what matters is an error.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from measure import Cost, Line, measured, medians, promises, record, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(ROOT / "local_cloud/tests/support"))

from fleet import Fleet  # noqa: E402

HERE = Path(__file__).parent
SCRIPT = HERE / "first_configure.sh"
FACTS = HERE / "first_configure_facts.sh"
CONFIGURE = ("ansible-playbook", "tpu.fleet.configure", "--limit")
CONTENDERS: dict[str, tuple[str, ...]] = {
    "script": (),
    "push": ("-e", "fleet_apply=push"),
    # The default.
    "host": (),
}
OURS = ("push", "host")
PEOPLE = ("alice", "bob")
# Times the script's wall time, and its CPU on the machines.
MOST = 1.0
MOST_CPU = 1.2
MISSING = "not there"


class Machines(Fleet):
    """The demo's fleet file with other slices, and a fresh machine for each way in each round."""

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(folder, self.file([]), port=port)
        # Bytecode is kept, as on a user's computer: else Ansible compiles itself on each start.
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
            "fleet_runs": [],
        }

    def renew(self, names: list[str]) -> None:
        """Make these machines, and delete all others."""
        self.declare(self.file(names))
        self.play("tpu.fleet.provision", "-e", "fleet_prune=true")

    def configure(self, contender: str, hosts: Sequence[str]) -> Cost:
        """Measure how a contender configures machines, all at once."""
        argv: list[str] = [*CONFIGURE, ",".join(hosts), *CONTENDERS[contender]]
        if contender == "script":
            begin = "".join(f"({self._by_hand(host)}) & pids+=($!)\n" for host in hosts)
            wait = 'for pid in "${pids[@]}"; do wait "$pid" || exit 1; done'
            argv = ["bash", "-o", "pipefail", "-c", begin + wait]
        return measured(argv, env=self.env, cwd=ROOT)

    def _by_hand(self, host: str) -> str:
        """Return the command that configures a machine by the script."""
        key = Path(f"{self.env['TPU_FLEET_SSH_KEY']}.pub").read_text().strip()
        remote = shlex.join(["sudo", "bash", "-s", "--", host, key])
        ssh = shlex.join(["ssh", "-F", str(self.ssh_config), host, remote])
        code = shlex.join(["tar", "-cz", "-C", str(ROOT / "examples/jax"), "."])
        return f"{{ cat {SCRIPT}; {code}; }} | {ssh}"

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
    """Return what is not the same on the script's machine and on the collection's."""
    return [
        f"{fact}: {script.get(fact, MISSING)!r} by script, {ours.get(fact, MISSING)!r} by {name}"
        for fact in sorted({*script, *ours})
        if script.get(fact) != ours.get(fact)
    ]


def one_round(
    fleet: Machines, number: int, names: Sequence[str], at_once: int
) -> dict[str, tuple[Cost, float]]:
    """Measure all once on fresh machines: the command's cost, and the CPU of the machines."""
    turn = number % len(names)
    hosts = {name: [f"{name}-{number}-{one}" for one in range(at_once)] for name in names}
    fleet.renew([host for some in hosts.values() for host in some])
    found = {}
    for name in [*names[turn:], *names[:turn]]:
        before = sum(map(fleet.cpu, hosts[name]))
        cost = fleet.configure(name, hosts[name])
        found[name] = cost, sum(map(fleet.cpu, hosts[name])) - before
        print(f"round {number + 1}, {name}: {cost.wall:.1f} s", flush=True)
    wrong = []
    for one in range(at_once):
        facts = {name: fleet.facts(hosts[name][one]) for name in names}
        for name in OURS:
            if name in facts:
                wrong += differences(name, facts["script"], facts[name])
    if wrong:
        sys.exit("The machines are not the same:\n" + "\n".join(wrong))
    print(f"round {number + 1}: the machines are the same in {len(facts['script'])} facts")
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--at-once", type=int, default=1, metavar="MACHINES")
    parser.add_argument("--contenders", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--port", type=int, default=8497)
    parser.add_argument("--record", type=Path, help="a file for the figures, as JSON")
    asked = parser.parse_args()
    names = ["script", *asked.contenders]
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        fleet = Machines(Path(name), asked.port)
        fleet.up("--clock", "immediate")
        try:
            rounds = [
                one_round(fleet, number, names, asked.at_once) for number in range(asked.repeat)
            ]
        finally:
            fleet.down()
    runs = {name: [found[name][0] for found in rounds] for name in names}
    machines = {name: [round(found[name][1], 2) for found in rounds] for name in names}
    wall = {name: medians(costs).wall for name, costs in runs.items()}
    cpu = {name: statistics.median(seconds) for name, seconds in machines.items()}
    lines = [
        Line(f"{name} / script, {what}", figures[name] / figures["script"], most)
        for name in asked.contenders
        for what, figures, most in (("wall", wall, MOST), ("CPU of the machines", cpu, MOST_CPU))
    ]
    print(f"\nmedians of {asked.repeat}; CPU and memory of this computer, without the machines")
    print(table(runs, "script"))
    for name, seconds in cpu.items():
        print(f"{name}: {seconds:.1f} s of CPU on the machines, {seconds / cpu['script']:.2f}x")
    print(promises(lines))
    facts = {"machine_cpu": machines, "at_once": asked.at_once}
    record(asked.record, "first-configure", runs, lines, **facts)


if __name__ == "__main__":
    main()
