#!/usr/bin/env python3
"""What the controller takes for hosts that answer at once, from memory.

    .venv/bin/python benchmarks/answering_hosts.py [--hosts 8 64 256] [--repeat 5] [--records DIR]

The hosts of benchmarks/pod.py look themselves over on the same two cores as the controller. Here
one process is the sshd of all of them, at addresses of its own, and gives a prepared answer to
what `site.yml` asks: in the field each host has cores of its own. Compared are ssh to all of them,
the start of ansible-playbook, and site.yml with nothing to do and with one changed variable.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import asyncssh
from local_api import environment, local_api, populate
from measure import ROOT, Cost, Line, interleaved, measured, medians, promises, record, table
from pod import ASYNCSSH, AT_ONCE, KEX, START
from small_machines import KINDS

sys.path.insert(0, str(ROOT / "tests/support"))
sys.path.insert(0, str(ROOT / "local_cloud/tests/support"))

from fleet import NOTHING

BIN = ROOT / ".venv/bin"
USER = "ubuntu"
RESULT = {"say": "result", "status": "ok", "counts": {}, "reasons": [], "findings": {}}
REASON = "user_accounts: its values changed"
CHANGED = [
    {"say": "begin", "roles": ["user_accounts"], "reasons": [REASON]},
    *(
        {"say": "event", "event": "task", "task": f"tpu.fleet.user_accounts : {task}", "status": s}
        for task, s in (("Look at the accounts", "ok"), ("Create the accounts", "changed"))
    ),
    {**RESULT, "counts": {"ok": 5, "changed": 1}, "reasons": [REASON]},
]
Lines = list[dict[str, object]]


def address_of(number: int) -> str:
    """Return the loopback address of a host."""
    return f"127.78.{number // 200}.{number % 200 + 1}"


class Answers(asyncssh.SSHServer):
    """Lets in every client with the key."""

    def begin_auth(self, username: str) -> bool:
        return True


async def serve(hosts: int, folder: Path, lines: dict[str, Lines], told: Connection) -> None:
    """Be the sshd of all hosts; answer as the file `answer` names it."""

    async def answer(process: asyncssh.SSHServerProcess[str]) -> None:
        if "python3" in (process.command or ""):
            await process.stdin.readline()
            name = (folder / "answer").read_text()
            process.stdout.write("".join(json.dumps(line) + "\n" for line in lines[name]))
        process.exit(0)

    for number in range(hosts):
        await asyncssh.create_server(
            Answers,
            address_of(number),
            2222,
            server_host_keys=[folder / "host_key"],
            authorized_client_keys=str(folder / "key.pub"),
            process_factory=answer,
            kex_algs=[KEX],
            backlog=hosts,
        )
    told.send("ready")
    await asyncio.Event().wait()


def _serve(hosts: int, folder: Path, lines: dict[str, Lines], told: Connection) -> None:
    asyncio.run(serve(hosts, folder, lines, told))


class Field:
    """A fleet file, a local cloud without machines, and hosts that answer."""

    def __init__(self, folder: Path, hosts: int, api: str) -> None:
        self.folder, self.hosts = folder, hosts
        for name in ("key", "host_key"):
            make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(make, check=True)
        kind, zone = KINDS[hosts]
        populate(api, zone, 1, kind)
        self.inventory = folder / "inventory"
        shutil.copytree(ROOT / "inventory", self.inventory)
        where = self.inventory / "fleet.tpu.yml"
        where.write_text(where.read_text().replace("http://127.0.0.1:8470/", api))
        host_key = (folder / "host_key.pub").read_text()
        (folder / "known").write_text(f"* {host_key}")
        options = (
            f"-oUserKnownHostsFile={folder / 'known'} -oGlobalKnownHostsFile=none "
            f"-oStrictHostKeyChecking=yes -oKexAlgorithms={KEX}"
        )
        (self.inventory / "host_vars").mkdir(exist_ok=True)
        for number in range(hosts):
            name = self.name_of(number)
            reached = {
                "ansible_host": address_of(number),
                "ansible_port": 2222,
                "ansible_ssh_common_args": options,
            }
            (self.inventory / "host_vars" / f"{name}.yml").write_text(json.dumps(reached))
        self.shell = "/bin/bash"
        self.declare()
        self.answer("unchanged")
        self.env = {
            **environment(folder),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "ANSIBLE_INVENTORY": str(self.inventory),
            "TPU_FLEET_SSH_KEY": str(folder / "key"),
        }
        self._ssh_config(options)

    def name_of(self, number: int) -> str:
        """Return the name of a host."""
        return f"node-0-w{number}"

    def _ssh_config(self, options: str) -> None:
        words = [option.removeprefix("-o").replace("=", " ", 1) for option in options.split()]
        text = ""
        for number in range(self.hosts):
            text += f"Host {self.name_of(number)}\n  HostName {address_of(number)}\n  Port 2222\n"
            text += f"  User {USER}\n  IdentityFile {self.folder / 'key'}\n"
            text += "".join(f"  {word}\n" for word in words)
        (self.folder / "ssh_config").write_text(text)

    def declare(self) -> None:
        """Write the fleet file, with another shell for one user than before."""
        self.shell = "/bin/sh" if self.shell == "/bin/bash" else "/bin/bash"
        people = [{"name": "alice", "uid": 2001, "shell": self.shell}]
        said = {**NOTHING, "fleet_allocations": "unrestricted", "fleet_users": people}
        (self.inventory / "group_vars" / "all" / "story.yml").write_text(json.dumps(said))

    def answer(self, name: str) -> None:
        """Say what the hosts answer from now on."""
        (self.folder / "answer").write_text(name)

    def command(self, *argv: str | Path) -> Callable[[], Cost]:
        """Return how a command is measured."""
        return lambda: measured(argv, env=self.env, cwd=ROOT)

    def changed(self) -> Cost:
        """Change a variable, and measure site.yml."""
        self.declare()
        self.answer("changed")
        try:
            return self.command("ansible-playbook", "tpu.fleet.site")()
        finally:
            self.answer("unchanged")

    def rows(self) -> dict[str, Callable[[], Cost]]:
        """Return how each contender is measured."""
        names = self.folder / "names"
        names.write_text("".join(f"{self.name_of(number)}\n" for number in range(self.hosts)))
        start = self.folder / "start.yml"
        start.write_text(START)
        config = self.folder / "ssh_config"
        ssh = ("ssh", "-n", "-F", str(config), "-oBatchMode=yes")
        return {
            "start": self.command("ansible-playbook", start),
            "ssh (OpenSSH)": self.command(
                "xargs", "-a", names, "-P", AT_ONCE, "-I{}", *ssh, "{}", "true"
            ),
            "ssh (asyncssh)": self.command(BIN / "python", "-c", ASYNCSSH, config),
            "unchanged": self.command("ansible-playbook", "tpu.fleet.site"),
            "changed": self.changed,
        }


def lines_of(runs: dict[str, list[Cost]], hosts: int) -> list[Line]:
    """Compare with what is promised."""
    found = {name: medians(costs) for name, costs in runs.items()}
    ssh = min(found[name].wall for name in runs if name.startswith("ssh"))
    mine, start = found["unchanged"], found["start"]
    return [
        Line("unchanged / (start + best ssh), wall", mine.wall / (start.wall + ssh), 1.5),
        Line("changed / unchanged, CPU", found["changed"].cpu / mine.cpu, 1.3),
        Line("unchanged, CPU s", mine.cpu, 2.0 + 0.01 * hosts),
        Line("unchanged, MiB", mine.peak_memory, 300),
    ]


def compare(hosts: int, repeat: int, records: Path | None) -> None:
    """Measure, print and record one size."""
    lines = {"unchanged": [{**RESULT, "shared": {}}], "changed": CHANGED}
    with tempfile.TemporaryDirectory(prefix="tpu-fleet-benchmark-") as name:
        folder = Path(name)
        with local_api(folder / "cloud") as api:
            field = Field(folder, hosts, api)
            ours, theirs = multiprocessing.Pipe()
            server = multiprocessing.Process(
                target=_serve, args=(hosts, folder, lines, theirs), daemon=True
            )
            server.start()
            ours.recv()
            rows = field.rows()
            for run in rows.values():
                run()
            runs = interleaved(rows, repeat)
            server.terminate()
    found = lines_of(runs, hosts)
    print(f"\n{hosts} hosts that answer from memory, medians of {repeat}")
    print(table(runs, "start"))
    print(promises(found), flush=True)
    path = records and records / f"answering-{hosts}.json"
    record(path, "answering", runs, found, hosts=hosts, round_trip_ms=0)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", choices=sorted(KINDS), default=[64])
    parser.add_argument("--repeat", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--records", type=Path, help="a folder for the figures, as JSON")
    asked = parser.parse_args()
    for hosts in asked.hosts:
        compare(hosts, asked.repeat, asked.records)


if __name__ == "__main__":
    main()
