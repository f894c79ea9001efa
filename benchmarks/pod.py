#!/usr/bin/env python3
"""What it costs to reach, and to configure, all hosts of a pod: against ssh and gcloud.

    sudo .venv/bin/python benchmarks/pod.py [--hosts 8 64 256] [--round-trip 0 60]
        [--contenders ssh gcloud exec unchanged changed push]

Makes a local cloud of its own with one slice of so many small machines, through the fleet file as a
user does. Every contender runs once to warm up, then all of them in turn. CPU is that of the
controller: of the command and everything that it starts, without the machines, which stand on the
same computer. What the hosts saw is counted in the logs of their sshds.
docs/internals/pod-scale.md explains.
"""

from __future__ import annotations

import argparse
import itertools
import shlex
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measure import Cost, Line, interleaved, measured, medians, promises, record, table
from small_machines import KINDS

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(ROOT / "local_cloud/tests/support"))

from fleet import NOTHING, Fleet  # noqa: E402
from ssh_log import Seen, SshLogs  # noqa: E402

BIN = ROOT / ".venv/bin"
PYTHON = BIN / "python"
AT_ONCE = "64"
# With fewer hosts, what a program takes to start is most of it.
PROMISED_FROM = 64
# ssh's own choice is dearer by 0.1 s of CPU for each host, which is not what is measured here.
KEX = "curve25519-sha256"

# What asyncssh can do at best: the engine of `tpu-fleet exec` without its care for the network.
ASYNCSSH = """
import asyncio, sys
from ansible_collections.tpu.fleet.plugins.plugin_utils._ssh.fan_out import Settings, fan_out
from tpu_fleet.workers.inventory.lookup import known_fleet

async def main():
    settings = Settings(kex="cheap", connects_per_second=1e6)
    targets = known_fleet(False).fleet.targets.values()
    return [result.ok async for result in fan_out(targets, "true", settings=settings)]

sys.exit(0 if all(asyncio.run(main())) else 1)
"""
# What Ansible takes to start and to read the inventory: a play that does nothing.
START = "- hosts: all\n  gather_facts: false\n"

# How hosts are configured: by themselves, and by Ansible with as many forks as are of use.
HOST_MODE = ("ansible-playbook", "tpu.fleet.site", "-e", "fleet_apply=host")
PUSH_MODE = (*HOST_MODE[:-1], "fleet_apply=push", "--forks", AT_ONCE)
PLAYS = frozenset({"unchanged", "changed", "push"})
# So many hosts on one computer get neither code nor packages, to be set up in some minutes. What a
# host looks at when nothing is to do is the same.
BARE_FROM = 64
BARE: dict[str, list[Any]] = {
    "fleet_code": [],
    "fleet_base_packages": [],
    "fleet_shell_packages": [],
}

# Each of these takes exactly one connection and one command for each host, whatever happens.
ONE_AND_ONE = frozenset({"ssh (OpenSSH)", "ssh (asyncssh)", "exec", "unchanged", "changed"})
CONTENDERS = ("ssh", "gcloud", "exec", "unchanged", "changed", "push")
Rows = Mapping[str, Callable[[], Cost]]


class Pod(Fleet):
    """A fleet of one slice of small machines, on a cloud of its own."""

    def __init__(self, folder: Path, port: int, hosts: int) -> None:
        kind, self.zone = KINDS[hosts]
        self.shells = itertools.cycle(["/bin/bash", "/bin/sh"])
        self.hosts = hosts
        self.names = [f"pod-w{number}" for number in range(hosts)]
        super().__init__(folder, self.file(kind), port=port)
        # Bytecode is kept, as on a user's computer: else Ansible compiles itself on each start.
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.kind = kind

    def file(self, kind: str) -> dict[str, Any]:
        """Return a fleet file in which one person has another shell each time."""
        metadata = {"local-cloud-machine": "small"}
        pod = {"name": "pod", "accelerator_type": kind, "zone": self.zone, "metadata": metadata}
        people = [
            {"name": "alice", "uid": 2001, "sudo": "all"},
            {"name": "bob", "uid": 2002, "shell": next(self.shells)},
        ]
        trees = [{"name": "digits", "user": "root", "local_path": "../examples/jax"}]
        return {
            **NOTHING,
            "fleet_slices": [pod],
            "fleet_allocations": "unrestricted",
            "fleet_users": people,
            "fleet_code": trees,
            **(BARE if self.hosts >= BARE_FROM else {}),
        }

    def rows(self, contenders: list[str]) -> dict[str, Callable[[], Cost]]:
        """Return how each contender is measured."""
        rows: dict[str, Callable[[], Cost]] = {}
        if "ssh" in contenders:
            rows["ssh (OpenSSH)"] = self.openssh()
            rows["ssh (asyncssh)"] = self.command([PYTHON, "-c", ASYNCSSH])
        if "gcloud" in contenders:
            rows["gcloud"] = self.gcloud()
            # Its first call makes an account on each host: a change that the next apply sees.
            rows["gcloud"]()
        if "exec" in contenders:
            rows["exec"] = self.command([BIN / "tpu-fleet", "exec", "--", "hostname"])
        if PLAYS & set(contenders):
            # The small machines have no systemd. Everything else of the roles is there.
            systemctl = ROOT / "benchmarks/stand_in_systemctl.py"
            self.run("tpu-fleet", "cp", "--sudo", str(systemctl), ":/usr/local/bin/systemctl")
            # Not all at once: Ansible on 256 hosts is more than one computer has room for.
            for first in range(0, self.hosts, BARE_FROM):
                some = ",".join(self.names[first : first + BARE_FROM])
                self.run(*HOST_MODE, "--limit", some)
            self.run(*HOST_MODE)
            start = self.folder / "start.yml"
            start.write_text(START)
            rows["start"] = self.command(["ansible-playbook", start])
        if "push" in contenders:
            rows["push"] = self.command([*PUSH_MODE])
        if "unchanged" in contenders:
            rows["unchanged"] = self.command([*HOST_MODE])
        if "changed" in contenders:
            rows["changed"] = self.changed
        return rows

    def cost(self, argv: list[str | Path], env: Mapping[str, str] | None = None) -> Cost:
        """Measure one command in the folder of the fleet."""
        return measured(argv, env={**self.env, **(env or {})}, cwd=ROOT)

    def command(self, argv: list[Any], env: Mapping[str, str] | None = None) -> Callable[[], Cost]:
        """Return how the same command is measured each time."""
        return lambda: self.cost(argv, env)

    def changed(self) -> Cost:
        """Change what concerns one role, and measure the command that brings it to the hosts."""
        self.declare(self.file(self.kind))
        return self.cost([*HOST_MODE])

    def openssh(self) -> Callable[[], Cost]:
        """Run one ssh for each host, a bounded number at once, with verified host keys."""
        names = self.folder / "names"
        names.write_text("".join(f"{name}\n" for name in self.names))
        ssh = ["ssh", "-n", "-F", self.ssh_config, "-oBatchMode=yes", f"-oKexAlgorithms={KEX}"]
        return self.command(["xargs", "-a", names, "-P", AT_ONCE, "-I{}", *ssh, "{}", "true"])

    def gcloud(self) -> Callable[[], Cost]:
        """Run the unmodified gcloud; its home is its own, and the cloud is ours."""
        home = self.folder / "gcloud"
        home.mkdir(exist_ok=True)
        exports = self.run("tpu-fleet", "cloud", "env").splitlines()
        words = (
            shlex.split(line)[1].split("=", 1) for line in exports if line.startswith("export")
        )
        env = {**dict(words), "HOME": str(home), "CLOUDSDK_CONFIG": str(home / "config")}
        tpu_vm = ["gcloud", "compute", "tpus", "tpu-vm", "ssh", "tester@pod"]
        return self.command([*tpu_vm, f"--zone={self.zone}", "--worker=all", "--command=true"], env)


@contextmanager
def pod_of(hosts: int, port: int) -> Iterator[Pod]:
    """Bring a cloud up with such a slice; take it down in the end."""
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        pod = Pod(Path(name), port, hosts)
        pod.up("--clock", "immediate")
        try:
            # Without the hosts: whether they let us in is seen soon enough.
            pod.play("tpu.fleet.provision", "--limit", "localhost")
            yield pod
        finally:
            pod.down()


class Counter:
    """Measures rows, and notes what the hosts saw meanwhile."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self.seen: dict[str, set[tuple[int, int]]] = defaultdict(set)

    def counted(self, name: str, run: Callable[[], Cost]) -> Callable[[], Cost]:
        """Return the same measurement, with the counting around it."""

        def both() -> Cost:
            logs = SshLogs(self._state_dir)
            cost = run()
            self.seen[name] |= {self._pair(seen) for seen in logs.count().values()}
            return cost

        return both

    @staticmethod
    def _pair(seen: Seen) -> tuple[int, int]:
        return seen.connections, seen.executions

    def spans(self) -> dict[str, list[str]]:
        """Return how many connections and executions each host saw, of one command."""
        return {
            name: [span(column) for column in zip(*pairs, strict=True)]
            for name, pairs in self.seen.items()
        }

    def broken(self) -> list[str]:
        """Name those that should have taken one connection and one execution, and did not."""
        return [
            name for name, pairs in self.seen.items() if name in ONE_AND_ONE and pairs != {(1, 1)}
        ]


def span(numbers: tuple[int, ...]) -> str:
    """Write the smallest and the largest."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def lines_of(runs: Mapping[str, list[Cost]], hosts: int) -> list[Line]:
    """Compare with what is promised, as far as both sides ran."""
    found = {name: medians(costs) for name, costs in runs.items()}
    lines = []

    def ratio(name: str, other: str, figure: str, most: float) -> None:
        if name in found and other in found:
            value = getattr(found[name], figure) / getattr(found[other], figure)
            lines.append(Line(f"{name} / {other}, {figure}", value, most))

    if hosts >= PROMISED_FROM:
        ratio("exec", "gcloud", "wall", 1 / 3)
        ratio("exec", "gcloud", "cpu", 1 / 5)
        ratio("unchanged", yardstick_of(runs), "wall", 3.5)
        ratio("unchanged", "gcloud", "wall", 0.5)
        ratio("unchanged", "gcloud", "cpu", 0.3)
    ratio("changed", "unchanged", "cpu", 1.5)
    lines += [
        Line(f"{name}, CPU s", found[name].cpu, 2.0 + 0.01 * hosts)
        for name in ("unchanged", "changed")
        if name in found
    ]
    if "push" in found and "unchanged" in found:
        start, host, push = found["start"], found["unchanged"], found["push"]
        for figure, most in (("cpu", 1 / 20), ("wall", 1 / 10)):
            beyond = [getattr(cost, figure) - getattr(start, figure) for cost in (host, push)]
            lines.append(
                Line(f"unchanged / push, {figure} beyond start", beyond[0] / beyond[1], most)
            )
    return lines


def yardstick_of(runs: Mapping[str, list[Cost]]) -> str:
    """Return the better ssh, or the first row where there was none."""
    shells = [name for name in runs if name.startswith("ssh")]
    return min(shells, key=lambda name: medians(runs[name]).wall, default=next(iter(runs)))


def versions() -> dict[str, str]:
    """Say what was measured."""
    ssh = subprocess.run(["ssh", "-V"], capture_output=True, text=True, check=False).stderr
    return {"ssh": ssh.strip()}


def compare(pod: Pod, asked: argparse.Namespace, round_trip: float) -> list[str]:
    """Measure, print and record one size; return what must not be."""
    pod.run("tpu-fleet", "cloud", "latency", str(round_trip))
    counter = Counter(Path(pod.env["TPU_FLEET_CLOUD_DIR"]))
    rows = pod.rows(asked.contenders)
    for run in rows.values():
        run()
    counted = {name: counter.counted(name, run) for name, run in rows.items()}
    runs = interleaved(counted, asked.repeat)
    lines = lines_of(runs, pod.hosts)
    print(f"\n{pod.hosts} hosts, round trip {round_trip:g} ms, medians of {asked.repeat}")
    print(table(runs, yardstick_of(runs)))
    for name, (connections, executions) in counter.spans().items():
        print(f"{name}: {connections} connections, {executions} executions a host")
    print(promises(lines), flush=True)
    kind = "apply" if PLAYS & set(asked.contenders) else "reach"
    path = asked.records and asked.records / f"{kind}-{pod.hosts}-{round_trip:g}ms.json"
    facts: dict[str, Any] = {"hosts": pod.hosts, "round_trip_ms": round_trip, **versions()}
    facts["connections_and_executions_a_host"] = counter.spans()
    record(path, kind, runs, lines, **facts)
    return counter.broken()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", choices=sorted(KINDS), default=[64])
    parser.add_argument("--round-trip", type=float, nargs="+", default=[0.0], metavar="MS")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=["ssh", "exec"])
    parser.add_argument("--repeat", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--port", type=int, default=8494)
    parser.add_argument("--records", type=Path, help="a folder for the figures, as JSON")
    asked = parser.parse_args()
    broken: list[str] = []
    for hosts in asked.hosts:
        with pod_of(hosts, asked.port) as pod:
            for round_trip in asked.round_trip:
                broken += compare(pod, asked, round_trip)
    if broken:
        sys.exit(f"Not one connection and one execution a host: {', '.join(broken)}")


if __name__ == "__main__":
    main()
