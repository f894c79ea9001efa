"""A fleet of slices of Compute Engine on machines, and the program that trains there.

It is that of the chaos test: what its parameters are after N steps follows from N alone. JAX is
installed once, in the folder that all machines share and that outlives them.
"""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import requests
from bucket_python import PROGRAM, PYTHON
from chaos import ledger
from fleet import NOTHING, ROOT, Fleet, wait_until

from tpu_local_cloud.machines.layout import Layout

A, B = "us-east5-a", "us-central1-b"
USER, SHARE = "alice", "/mnt/share"
JAX = "jax==0.12.0.1"
EVERY = 10
PROVISION = "tpu.fleet.provision"
ONE = {"api": "compute", "accelerator_type": "v6e-1"}
# The smallest slice that is a group.
PAIR = {"machine_type": "ct6e-standard-4t", "topology": "2x4"}
SHARES = {"metadata": {"local-cloud-share": "yes"}}
KINDS = ("instances", "instanceGroupManagers", "instanceTemplates", "resourcePolicies")
PEOPLE: dict[str, Any] = {
    **NOTHING,
    "fleet_allocations": "unrestricted",
    "fleet_base_packages": ["sudo", "tmux", "tzdata"],
    "fleet_users": [{"name": USER, "uid": 2001, "keys": ["{{ fleet_ssh_public_key }}"]}],
}


def sleeper(name: str, *slices: str) -> dict[str, Any]:
    """Declare a run that only is there."""
    run = {"name": name, "slices": list(slices), "user": USER, "needs_tpu": False}
    return {**run, "command": "exec sleep 100000"}


def trainer(name: str, slices: Sequence[str], saved: str, **more: Any) -> dict[str, Any]:
    """Declare a run of JAX, which goes on until a file says at which step it ends."""
    return {
        "name": name,
        "slices": list(slices),
        "user": USER,
        "code": "train",
        "env": {"PYTHONPATH": f"{SHARE}/python"},
        "command": f"{PROGRAM} train.py --every {EVERY} --step-seconds 0.3",
        "checkpoint_dir": saved,
        "needs_tpu": False,
        **more,
    }


CODE = {"name": "train", "user": "root", "local_path": "../tests/worlds/chaos/on_machine"}


class ComputeFleet(Fleet):
    """The fleet, with what only Compute Engine has."""

    def begin(self) -> None:
        """Bring the cloud up: ten minutes of its time are one."""
        self.up("--speed", "10")
        share = Layout(self.folder / "cloud").home / "share"
        share.mkdir()
        share.chmod(0o1777)
        uv = [str(ROOT / ".venv/bin/uv"), "pip", "install", "--quiet"]
        uv += ["--target", str(share / "python"), "--python-version", PYTHON]
        subprocess.run([*uv, "--compile-bytecode", JAX], check=True, timeout=600)

    def clear(self) -> None:
        """Leave nothing of a story to the next one."""
        self.command("fault", "clear")
        self.command("clock", "--speed", "10")
        url = f"http://127.0.0.1:{self.port}/_cloud/reset"
        requests.post(url, timeout=120).raise_for_status()

    def command(self, *words: str) -> str:
        """Have the local cloud do something."""
        return self.run("tpu-fleet", "cloud", *words)

    def fault(self, kind: str, zone: str, *words: str) -> None:
        """Have Compute Engine fail in a zone."""
        match = ("--match", "service=compute", "--match", f"zone={zone}")
        self.command("fault", "add", kind, *match, *words)

    # The API ----------------------------------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Ask Compute Engine, as a client does that knows nothing of the collection."""
        url = f"http://127.0.0.1:{self.port}/compute/v1/projects/local-project/{path}"
        answer = requests.request(method, url, json=body, params=query, timeout=150)
        assert answer.ok, answer.text
        return answer.json()

    def do(self, method: str, path: str, body: Any = None, **query: str) -> None:
        """Ask for something, and wait until it is done."""
        done = self.ask(method, path, body, **query)
        while done["status"] != "DONE":
            done = self.ask("POST", f"{done['selfLink'].partition('/local-project/')[2]}/wait")
        assert "error" not in done, done

    def there(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return what there is of a kind, by name."""
        scopes = self.ask("GET", f"aggregated/{kind}")["items"].values()
        return {one["name"]: one for scope in scopes for one in scope.get(kind, ())}

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the instances of a slice, in the order of their workers."""
        found = self.there("instances").values()
        mine = [one for one in found if one["labels"].get("tpu-fleet-slice") == name]
        return sorted(mine, key=lambda one: metadata(one).get("agent-worker-number", ""))

    def internal(self, name: str) -> list[str]:
        """Return the internal addresses of a slice's workers."""
        return [one["networkInterfaces"][0]["networkIP"] for one in self.of(name)]

    # Runs -------------------------------------------------------------------------------------

    def attempts(self, run: str, *hosts: str) -> set[int]:
        """Return the attempts at which hosts are; 0 for one that runs nothing."""
        found = [self.status(host, run) for host in hosts]
        return {one["attempt"] if one.get("state") == "running" else 0 for one in found}

    def wait_attempt(self, run: str, least: int, *hosts: str, limit: float = 300) -> int:
        """Wait until all run the same attempt, which is at least this one; return it."""

        def look() -> int:
            found = self.attempts(run, *hosts)
            return max(found) if len(found) == 1 and min(found) >= least else 0

        return wait_until(f"attempt {least} of {run} on {hosts}", look, limit)

    def wait_step(self, host: str, run: str, step: int, limit: float = 180) -> int:
        """Wait until a run has come to a step of its present log; return to which."""

        def look() -> int:
            try:
                found = self.steps(host, run)
            except (AssertionError, subprocess.TimeoutExpired):
                return 0
            return found if found >= step else 0

        return wait_until(f"step {step} of {run} on {host}", look, limit)

    def finish(self, host: str, run: str, saved: str) -> dict[str, Any]:
        """End a run some steps later; return what it came to."""
        until = self.steps(host, run) + 40
        self.ssh(host, f"sudo sh -c 'echo {until} > {saved}/new; mv {saved}/new {saved}/until'")
        wait_until("the end", lambda: self.status(host, run).get("state") == "succeeded", 120)
        found: dict[str, Any] = json.loads(self.ssh(host, f"sudo cat {saved}/final.json"))
        assert found["steps"] == until
        return found

    def broken(self, host: str, saved: str, faults: int, workers: int) -> dict[str, Any]:
        """Return which promises a run broke, by what its processes wrote beside its checkpoints."""
        show = f"cd {saved}/ledger; for f in *; do echo == $f; cat $f; done"
        files = re.split(r"^== .*$", self.ssh(host, f"sudo sh -c {shlex.quote(show)}"), flags=re.M)
        lives = ledger.read(files)
        assert len(lives) >= (faults + 1) * workers
        judged = ledger.judge(lives, EVERY, faults, workers)
        return {promise: found for promise, found in judged.items() if found}

    def undisturbed(
        self, host: str, run: str, workers: int, steps: int, flags: str = ""
    ) -> dict[str, Any]:
        """Run the same program to the same step with as many processes on one machine."""
        script = f"""
set -eu
folder=$(mktemp -d); chown {USER} $folder; cd {self.status(host, run)["workdir"]}
for worker in $(seq 0 {workers - 1}); do
  runuser -u {USER} -- env TPU_FLEET_WORKER=$worker TPU_FLEET_WORKERS={workers} \\
    TPU_FLEET_COORDINATOR=127.0.0.1:29500 TPU_FLEET_CHECKPOINT_DIR=$folder \\
    PYTHONPATH={SHARE}/python \\
    {PROGRAM} train.py --steps {steps} --every {EVERY} {flags} > $folder/out.$worker 2>&1 &
done
wait
cat $folder/final.json || tail -n 5 $folder/out.* >&2
"""
        words = ("ssh", "-F", str(self.ssh_config), "-o", "LogLevel=ERROR", host)
        told = self.run(*words, f"sudo bash -c {shlex.quote(script)}", limit=300)
        found: dict[str, Any] = json.loads(told)
        return found

    def told(self, host: str, run: str) -> dict[str, str]:
        """Return the environment of a run's program."""
        pid = self.status(host, run)["pid"]
        text = self.ssh(host, f"sudo cat /proc/{pid}/environ | tr '\\0' '\\n'")
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have a watcher."""
        process = self.start("tpu-fleet", "watch", "run", "--interval=2", "--hosts-interval=10")
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(120)

    def watcher_said(self) -> str:
        """Return the watcher's log, and those of its playbooks."""
        logs = sorted((self.folder / "state" / "watch").rglob("*.log"))
        return "".join(log.read_text() for log in logs)


def metadata(instance: dict[str, Any]) -> dict[str, str]:
    """Return the metadata of an instance."""
    return {item["key"]: item["value"] for item in instance["metadata"]["items"]}
