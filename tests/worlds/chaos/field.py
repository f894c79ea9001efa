"""The fleet of the chaos test: who trains, where it is saved, and who heals."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import bucket_python
import requests
from bucket_python import PROGRAM
from fleet import NOTHING, ROOT, Fleet, wait_until

from tpu_fleet.history.record import HISTORY
from tpu_fleet.history.store import History
from tpu_fleet.history.story import RunStory
from tpu_fleet.page.model import page_of
from tpu_fleet.workers.inventory.ansible_config import inventory_sources, state_of

from . import ledger
from .plan import QUAD, SOLO, WORKERS

PROJECT = "local-project"
# One slice of each API: a node of the Cloud TPU API, and a group of machines of Compute Engine.
ZONES = {SOLO: "us-central2-b", QUAD: "us-east5-a"}
USER = "alice"
EVERY = 20
STEP_SECONDS = 0.4
LOST_SECONDS = 20
# What must survive a preemption: a data disk, and a folder that all workers share.
SAVED = {SOLO: "/mnt/saved/solo", QUAD: "/mnt/share/quad"}
BUCKET_NAME = "chaos-checkpoints"
# On Compute Engine machines have no account, unless one is named.
ACCOUNT = "123456789012-compute@developer.gserviceaccount.com"
CHECKPOINTS = {SOLO: SAVED[SOLO], QUAD: f"gs://{BUCKET_NAME}/quad"}
# The clock of a container is this computer's, which nobody may set. Python's own view of it, which
# the agent has, can be another one on each machine.
CLOCK_FILE = "/run/chaos-clock"
CLOCK = f"""
import time
_real = time.time
def _shifted():
    try:
        with open("{CLOCK_FILE}") as file:
            return _real() + float(file.read())
    except (OSError, ValueError):
        return _real()
time.time = _shifted
"""
STARTUP = f"""#!/bin/bash
cd /usr/local/lib/python3.*/dist-packages
cat > chaos_clock.py <<'END'
{CLOCK}
END
echo "import chaos_clock" > chaos_clock.pth
"""


def packages_of(name: str) -> str:
    """Return where JAX and Orbax are: on what a recreated machine has again."""
    return str(Path(SAVED[name]).with_name("python"))


def flags_of(name: str) -> str:
    """Return how a run saves."""
    return "--orbax" if CHECKPOINTS[name].startswith("gs://") else ""


def run_of(name: str) -> dict[str, Any]:
    """Declare the run of a slice."""
    pace = f"--every {EVERY} --step-seconds {STEP_SECONDS}"
    return {
        "name": name,
        "slices": [name],
        "user": USER,
        "code": "chaos",
        "env": {"PYTHONPATH": packages_of(name), "CHAOS_DIARY": SAVED[name]},
        "command": f"{PROGRAM} train.py {pace} {flags_of(name)}",
        "checkpoint_dir": CHECKPOINTS[name],
        "needs_tpu": False,
        # Nobody waits for a program that is killed so often to be mended by a person.
        "retries": 50,
        "fail_fast_window": "1m",
        "grace": "5s",
        "min_free": "48MiB",
    }


FLEET: dict[str, Any] = {
    **NOTHING,
    "fleet_allocations": [
        {"zone": ZONES[SOLO], "generation": "v4", "tier": "on_demand", "chips": 4},
        {
            "zone": ZONES[QUAD],
            "generation": "v6e",
            "tier": "spot",
            "chips": 16,
            "api": "compute",
        },
    ],
    "fleet_disks": [
        {"name": "saved", "size": "10GiB", "slices": [SOLO], "path": "/mnt/saved", "user": USER},
    ],
    "fleet_slices": [
        {"name": SOLO, "accelerator_type": "v4-8", "zone": ZONES[SOLO]},
        {
            "name": QUAD,
            "machine_type": "ct6e-standard-4t",
            "topology": "4x4",
            "tier": "spot",
            "zone": ZONES[QUAD],
            "service_account": ACCOUNT,
            "metadata": {"local-cloud-share": "yes"},
            "startup_script": STARTUP,
        },
    ],
    "fleet_base_packages": ["sudo", "tzdata", "tmux"],
    "fleet_users": [{"name": USER, "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
    "fleet_code": [
        {
            "name": "chaos",
            "user": "root",
            "local_path": "../tests/worlds/chaos/on_machine",
            "slices": [SOLO, QUAD],
        },
    ],
    "fleet_runs": [run_of(SOLO), run_of(QUAD)],
    "fleet_run_lost_after": f"{LOST_SECONDS}s",
}

Event = dict[str, Any]
Place = tuple[str, int, str]
"""Slice, worker, and machine: another machine has another event log."""


class Unreachable(Exception):
    """A machine does not do what is asked of it."""


class Field(Fleet):
    """Two slices, two runs, and a watcher in a process of its own."""

    def __init__(
        self,
        folder: Path,
        fleet: dict[str, Any] | None = None,
        watch: Sequence[str] = ("--interval", "10", "--hosts-interval", "60"),
    ) -> None:
        super().__init__(folder, fleet or FLEET)
        self._watch = watch
        self._runs = [str(run["name"]) for run in (fleet or FLEET)["fleet_runs"]]
        self.api = f"http://127.0.0.1:{self.port}/_cloud"
        self.events: dict[Place, list[Event]] = {}
        self._lock = threading.Lock()
        self._watcher: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        """Bring everything up until both runs train."""
        self.up("--speed", "10")
        region = ZONES[QUAD].rpartition("-")[0]
        url = f"http://127.0.0.1:{self.port}/storage/v1/b"
        made = requests.post(url, json={"name": BUCKET_NAME, "location": region}, timeout=60)
        made.raise_for_status()
        self.set_up()

    def set_up(self) -> None:
        """Do what one does with a new fleet file."""
        for book in ("disks", "provision", "configure"):
            self.run("ansible-playbook", f"tpu.fleet.{book}", limit=3600)
        self.bring_packages()
        self.run("ansible-playbook", "tpu.fleet.train", limit=3600)

    def bring_packages(self) -> None:
        """Bring JAX and Orbax once for all, where they outlive the machines.

        Each new machine would fetch and compile them again, on a computer that has two cores for
        all.
        """
        for run in self._runs:
            bucket_python.bring(self._ssh(run, 0), packages_of(run), USER)

    # Machines ------------------------------------------------------------------------------

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Return the nodes as the cloud itself sees them; faults of its API do not matter here."""
        answer = requests.get(f"{self.api}/state", timeout=60)
        answer.raise_for_status()
        return {node["node"]: node for node in answer.json()["nodes"]}

    def order(self, node: str, verb: str, limit: float = 300, **body: Any) -> None:
        """Have the cloud do something to a node."""
        url = f"{self.api}/nodes/{PROJECT}/{ZONES[node]}/{node}:{verb}"
        requests.post(url, json=body, timeout=limit).raise_for_status()

    def break_cloud(self, fault: dict[str, Any]) -> str:
        """Have requests fail; return the name of the fault."""
        before = {one["id"] for one in self._faults()}
        requests.post(f"{self.api}/faults", json=fault, timeout=60).raise_for_status()
        added = [one for one in self._faults() if one["id"] not in before]
        return next(str(one["id"]) for one in added if one["kind"] == fault["kind"])

    def mend_cloud(self, fault: str) -> None:
        """Take a fault away."""
        requests.delete(f"{self.api}/faults/{fault}", timeout=60).raise_for_status()

    def struck(self, fault: str) -> int:
        """Return how many requests a fault has struck."""
        return sum(one["hits"] for one in self._faults() if one["id"] == fault)

    def _faults(self) -> list[dict[str, Any]]:
        answer = requests.get(f"{self.api}/faults", timeout=60)
        answer.raise_for_status()
        found: list[dict[str, Any]] = answer.json()["faults"]
        return found

    def worker(self, node: str, worker: int) -> dict[str, Any]:
        """Return a machine: its name and addresses."""
        found = self.nodes().get(node)
        if found is None or found["state"] != "READY":
            raise Unreachable(f"{node} is {found['state'] if found else 'not there'}")
        machine: dict[str, Any] = found["workers"][worker]
        return machine

    def on(self, node: str, worker: int, script: str, limit: float = 60) -> str:
        """Run a script as root, by the internal address: it stays when the fleet is cut off."""
        try:
            done = subprocess.run(
                [*self._ssh(node, worker), "sudo", "bash", "-s"],
                input=f"set -eu\n{script}\n",
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unreachable(f"{node} worker {worker}: no answer in {limit:g} s") from None
        if done.returncode:
            raise Unreachable(f"{node} worker {worker}: {done.returncode} {done.stderr.strip()}")
        return done.stdout

    def _ssh(self, node: str, worker: int) -> list[str]:
        address = self.worker(node, worker)["internal_ip"]
        options: tuple[str, ...] = (
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
        )
        options += ("ConnectTimeout=20", "BatchMode=yes")
        # One login for many looks; it is given up soon when its machine is not the same any more.
        options += ("ControlMaster=auto", f"ControlPath={self.folder}/cm-%h", "ControlPersist=120")
        options += ("ServerAliveInterval=4", "ServerAliveCountMax=3")
        words = ["ssh", "-F", "none", "-i", self.env["TPU_FLEET_SSH_KEY"]]
        words += [word for option in options for word in ("-o", option)]
        return [*words, f"ubuntu@{address}"]

    def run_status(self, run: str, worker: int = 0) -> dict[str, Any]:
        """Return what the agent of a worker says; nothing when it cannot be asked."""
        try:
            # The newer of the two: a full disk takes none.
            told = self.on(run, worker, f"cat /var/lib/tpu-fleet/runs/{run}/status.json", 30)
            found: dict[str, Any] = json.loads(told)
        except (Unreachable, ValueError, requests.RequestException):
            return {}
        return found

    def trains(self, run: str) -> bool:
        """Say whether all workers of a run are at the same attempt, and get on."""
        found = [self.run_status(run, worker) for worker in range(WORKERS[run])]
        running = all(status.get("state") == "running" and status.get("pid") for status in found)
        return running and len({status["attempt"] for status in found}) == 1

    # What happened -------------------------------------------------------------------------

    def collect(self, node: str, worker: int) -> Place | None:
        """Fetch a worker's event log, as far as it is there; its machine may soon be gone."""
        try:
            machine = self.worker(node, worker)["machine"]
            # Events that a full disk did not take are in memory, and newer.
            files = f"/var/log/tpu-fleet/runs/{node} /run/tpu-fleet/runs/{node}"
            told = self.on(
                node, worker, f"cd /; for f in {files}; do cat $f/events.jsonl; done || true"
            )
        except (Unreachable, requests.RequestException):
            return None
        found = []
        for line in told.splitlines():
            with suppress(ValueError):
                found.append(json.loads(line))
        place = (node, worker, machine)
        with self._lock:
            if len(found) >= len(self.events.get(place, ())):
                self.events[place] = found
        return place

    def collect_all(self) -> None:
        """Fetch all event logs that there are."""
        for node, workers in WORKERS.items():
            for worker in range(workers):
                self.collect(node, worker)

    def lives(self, run: str) -> list[ledger.Life]:
        """Read what a run's processes wrote down about themselves."""
        script = f"cd {SAVED[run]}/ledger; for f in *; do echo '== '$f; cat $f; done"
        told = self.on(run, 0, script, limit=120)
        return ledger.read(re.split(r"^== .*$", told, flags=re.M))

    # What people see -----------------------------------------------------------------------

    def shown(self) -> list[RunStory]:
        """Write the fleet's page; return the runs that it shows, from the history behind it."""
        self.run("tpu-fleet", "page", "--output", str(self.folder / "page.html"), "--days", "1")
        sources = inventory_sources(self.env, ROOT)
        history = History(state_of(self.env, sources) / HISTORY)
        try:
            return [card.story for card in page_of(history, PROJECT, time.time(), 1.0).runs]
        finally:
            history.close()

    def lost_machines(self) -> list[Place]:
        """Return the machines of the past, whose event logs were fetched while they were there."""
        nodes = self.nodes()
        there = {
            (name, number, str(self.worker(name, number)["machine"]))
            for name, workers in WORKERS.items()
            if name in nodes
            for number in range(workers)
        }
        return [place for place in self.events if place not in there]

    # Who heals -----------------------------------------------------------------------------

    @property
    def watch_output(self) -> Path:
        """The file of what the watchers printed, one after the other."""
        return self.folder / "watch.out"

    def watched(self) -> str:
        """Return what the watchers said until now."""
        return self.watch_output.read_text(errors="replace") if self.watch_output.exists() else ""

    def start_watch(self) -> None:
        """Start the watcher, as a person or systemd does."""
        with self.watch_output.open("ab") as out:
            self._watcher = subprocess.Popen(
                ["tpu-fleet", "watch", "run", *self._watch],
                cwd=ROOT,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def is_watched(self) -> bool:
        """Say whether the watcher lives."""
        return self._watcher is not None and self._watcher.poll() is None

    def kill_watch(self) -> None:
        """Take the watcher away without a word; its playbooks stay behind."""
        assert self._watcher is not None
        self._watcher.kill()
        self._watcher.wait()

    @contextmanager
    def healed(self) -> Iterator[None]:
        """Have a watcher."""
        self.start_watch()
        try:
            yield
        finally:
            if self._watcher is not None and self.is_watched():
                os.kill(self._watcher.pid, signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    self._watcher.wait(60)
                self._watcher.kill()

    # The end -------------------------------------------------------------------------------

    def finish(self, run: str, steps: int, limit: float) -> dict[str, Any]:
        """Let a run go on to a number of steps; return its result."""
        self.on(
            run,
            0,
            f"echo {steps} > {SAVED[run]}/until.new; cd {SAVED[run]}; mv until.new until",
        )
        wait_until(
            f"{run} succeeds", lambda: self.run_status(run).get("state") == "succeeded", limit
        )
        found: dict[str, Any] = json.loads(self.on(run, 0, f"cat {SAVED[run]}/final.json"))
        return found

    def undisturbed(self, run: str, steps: int) -> dict[str, Any]:
        """Run the same program with as many processes, on one machine of this computer."""
        code, workers = self.run_status(SOLO)["workdir"], WORKERS[run]
        script = f"""
folder=$(mktemp -d); chown {USER} $folder; cd {code}
for worker in $(seq 0 {workers - 1}); do
  runuser -u {USER} -- env TPU_FLEET_WORKER=$worker TPU_FLEET_WORKERS={workers} \\
    TPU_FLEET_COORDINATOR=127.0.0.1:29500 TPU_FLEET_CHECKPOINT_DIR=$folder \\
    PYTHONPATH={packages_of(SOLO)} \\
    {PROGRAM} train.py --steps {steps} --every {EVERY} {flags_of(run)} > $folder/out.$worker 2>&1 &
done
wait
cat $folder/final.json || tail -n 5 $folder/out.*
rm -r $folder
"""
        found: dict[str, Any] = json.loads(self.on(SOLO, 0, script, limit=1200))
        return found


def after(events: Sequence[Event], number: int, name: str, **wanted: Any) -> list[Event]:
    """Return the events of a name from a place in a log on, which have these values."""
    return [
        event
        for event in events[number:]
        if event.get("event") == name and all(event.get(k) == v for k, v in wanted.items())
    ]
