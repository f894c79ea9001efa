"""A fleet on a local cloud of its own, driven as its owner would: by commands, over SSH."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

import requests
from json_forms import conforms
from ports import free_port
from warm_ansible import run_ansible

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
RECAP = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+unreachable=(\d+)\s+failed=(\d+)", re.M)
# What machines say that apply the roles themselves.
BY_ITSELF = re.compile(r"^(\S+)\s+: ok=\d+\s+changed=(\d+)\s+failed=(\d+)", re.M)
STILL = re.compile(r"^as declared, nothing to do: (.+)$", re.M)
TASK_BY_ITSELF = re.compile(r"^changed: \[(\S+)\] (tpu[.]fleet[.]\w+ : .+)$", re.M)


def wait_until(what: str, look: Callable[[], T | None], limit: float) -> T:
    """Return the first true answer of look; fail after so many seconds."""
    deadline = time.monotonic() + limit
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {limit:g} s")
        time.sleep(1)


def interrupt(process: subprocess.Popen[str], limit: float = 120) -> str:
    """Press Ctrl-C once; return what Ansible printed, which must end by it."""
    # A terminal sends it to all that runs in it.
    os.killpg(process.pid, signal.SIGINT)
    try:
        return process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        raise AssertionError(f"Ctrl-C did not end Ansible within {limit:g} s") from None


# A fleet file that wants nothing of what the demo's does.
NOTHING: dict[str, Any] = {
    "fleet_slices": [],
    "fleet_users": [],
    "fleet_venvs": [],
    "fleet_code": [],
    "fleet_runs": [],
    "fleet_checkpoint_buckets": [],
}


class Fleet:
    """An inventory, the repository's or another, with a cloud for it on a port of its own."""

    def __init__(
        self,
        folder: Path,
        fleet: dict[str, Any],
        inventory: Path = ROOT / "inventory",
        port: int = 0,
    ) -> None:
        self.folder = folder
        self.port = port = port or free_port()
        self.inventory = folder / "inventory"
        self.ssh_config = folder / "state" / "ssh_config"
        shutil.copytree(inventory, self.inventory)
        # Relative folders in a fleet file begin at the inventory, as in the repository.
        for name in ("examples", "tests"):
            (folder / name).symlink_to(ROOT / name)
        where = self.inventory / "fleet.tpu.yml"
        # All that ties the demo's files to a project and an API.
        where.write_text(where.read_text().replace(":8470/", f":{port}/"))
        self.declare(fleet)
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("CLOUDSDK_", "GOOGLE_CLOUD"))
        }
        self.env = {
            **kept,
            "PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{kept['PATH']}",
            "PWD": str(ROOT),
            "ANSIBLE_INVENTORY": str(self.inventory),
            "TPU_FLEET_CLOUD_DIR": str(folder / "cloud"),
            "TPU_FLEET_STATE_DIR": str(folder / "state"),
            "TPU_FLEET_SSH_KEY": str(folder / "state" / "key"),
        }
        self.first_site = ""

    def declare(self, fleet: dict[str, Any]) -> None:
        """Write the fleet file again, over what the demo declares."""
        # Files of a folder are read in the order of their names.
        story = self.inventory / "group_vars" / "all" / "story.yml"
        story.write_text(json.dumps(fleet))

    def start(self, *argv: str, **env: str) -> subprocess.Popen[str]:
        """Begin a command; it is the leader of a group of its own, as under a terminal."""
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *argv: str, ok: bool = True, limit: float = 2400, **env: str) -> str:
        """Run a command from the checkout; return everything it printed."""
        done = run_ansible(argv, {**self.env, **env}, ROOT, limit, together=True)
        assert (done.returncode == 0) is ok, f"{argv}: {done.returncode}\n{done.stdout}"
        return done.stdout

    def report(self, *argv: str, codes: Collection[int] = (0,), limit: float = 2400) -> Any:
        """Run a command that prints JSON; return that, without the progress on stderr."""
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env=self.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
        assert done.returncode in codes, f"{argv}: {done.returncode}\n{done.stdout}{done.stderr}"
        known = argv[:2] != ("tpu-fleet", "cloud") and argv[0] == "tpu-fleet"
        return conforms(argv, done.stdout) if known else json.loads(done.stdout)

    def root_at(self, address: str, script: str) -> str:
        """Run a script on a machine whose key the fleet may not have seen yet."""
        options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR"]
        options += ["ConnectTimeout=5", "BatchMode=yes", "IdentitiesOnly=yes"]
        words = [word for option in options for word in ("-o", option)]
        key = self.env["TPU_FLEET_SSH_KEY"]
        done = subprocess.run(
            ["ssh", "-F", "none", *words, "-i", key, f"ubuntu@{address}", "sudo", "sh"],
            input=script,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.stdout

    def up(self, *options: str) -> None:
        """Bring the cloud up; what takes minutes at Google takes half a second."""
        cloud = ("tpu-fleet", "cloud", "up", "--hosts", "container", "--install")
        self.run(*cloud, "--port", str(self.port), *options)
        self.run("tpu-fleet", "cloud", "delays", "all=0.5")

    def down(self) -> None:
        """Remove the cloud."""
        self.run("tpu-fleet", "cloud", "down", "--keep-image")

    def play(self, *words: str, ok: bool = True) -> str:
        """Run a playbook."""
        return self.run("ansible-playbook", *words, ok=ok)

    @contextmanager
    def holding(self, fleet: dict[str, Any]) -> Iterator[Self]:
        """Have the machines of a fleet file for a while, as site.yml makes them."""
        self.declare(fleet)
        try:
            self.first_site = self.play("site.yml")
            yield self
        finally:
            # What site.yml wrote for people, and the record of keys at a GitHub that the reset
            # empties, are not what other stories begin with.
            shutil.rmtree(self.folder / "state" / "onboarding", ignore_errors=True)
            (self.folder / "state" / "github_keys.json").unlink(missing_ok=True)
            self.declare(NOTHING)
            reset = f"http://127.0.0.1:{self.port}/_cloud/reset"
            requests.post(reset, timeout=300).raise_for_status()

    def ssh(self, host: str, command: str, ok: bool = True) -> str:
        """Run a command on a worker, as the owner's ssh does."""
        words = ("ssh", "-F", str(self.ssh_config), "-o", "LogLevel=ERROR", host, command)
        return self.run(*words, ok=ok, limit=60)

    def _look(self, host: str, command: str) -> str:
        """Run a command on a worker; looks at it share a connection, as a test has hundreds.

        A login of its own costs both sides several times as much as most of what is asked.
        """
        shared = (f"ControlPath={self.folder}/look-%n", "ControlMaster=auto", "ControlPersist=20")
        # Of a machine that reboots nothing says that it has gone.
        noticed = ("ServerAliveInterval=2", "ServerAliveCountMax=2", "LogLevel=ERROR")
        options = [word for option in (*shared, *noticed) for word in ("-o", option)]
        return self.run("ssh", "-F", str(self.ssh_config), *options, host, command, limit=60)

    def statuses(self, host: str) -> dict[str, dict[str, Any]]:
        """Return what the run agent of a worker says, by run; nothing while it reboots."""
        files = "/var/lib/tpu-fleet/runs/*/status.json"
        script = f"for f in {files}; do sudo cat $f | tr -d '\\n'; echo; done"
        try:
            lines = self._look(host, script).splitlines()
            found = [json.loads(line) for line in lines if line.startswith("{")]
        except (AssertionError, ValueError, subprocess.TimeoutExpired):
            return {}
        return {status["run"]: status for status in found}

    def status(self, host: str, run: str) -> dict[str, Any]:
        """Return what the run agent says of one run."""
        return self.statuses(host).get(run, {})

    def log(self, host: str, run: str) -> str:
        """Return the log of a run; it is there a moment after the run is said to be running."""
        file = f"/var/log/tpu-fleet/runs/{run}/run.log"
        return self._look(host, f"sudo sh -c 'test ! -e {file} || cat {file}'")

    def steps(self, host: str, run: str) -> int:
        """Return the last step that the log shows."""
        found = re.findall(r"step (\d+) loss", self.log(host, run))
        return int(found[-1]) if found else 0

    def state(self) -> dict[str, Any]:
        """Return the cloud's own view."""
        answer = requests.get(f"http://127.0.0.1:{self.port}/_cloud/state", timeout=60)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found

    def cloud(self) -> dict[str, dict[str, Any]]:
        """Return the nodes in the cloud's own view, by name."""
        return {node["node"]: node for node in self.state()["nodes"]}


def changes(output: str) -> dict[str, tuple[int, int, int]]:
    """Return (changed, unreachable, failed) by host from the recap.

    A machine that applied the roles itself has a recap of its own. In Ansible's, the first machine
    stands for what the controller did for all of them.
    """
    found = {host: (int(c), int(u), int(f)) for host, c, u, f in RECAP.findall(output)}
    ours = [(host, int(changed)) for host, changed, _failed in BY_ITSELF.findall(output)]
    ours += [(host, 0) for line in STILL.findall(output) for host in line.split(", ")]
    for host, changed in ours:
        found[host] = (changed, *found.get(host, (0, 0, 0))[1:])
    return found


def what_changed(output: str) -> str:
    """Return the tasks that changed something, each with its hosts."""
    by_itself = [f"TASK [{task}]: {host}" for host, task in TASK_BY_ITSELF.findall(output)]
    pushed = TASK_BY_ITSELF.sub("", output)
    tasks = re.split(r"^(?=TASK \[|RUNNING HANDLER \[|PLAY )", pushed, flags=re.M)
    found = [
        f"{task.splitlines()[0].rstrip('* ')}: {', '.join(hosts)}"
        for task in tasks
        # What changed there, the machines have said themselves.
        if not task.startswith("TASK [Apply the roles ")
        and (hosts := re.findall(r"^changed: \[(\S+)", task, re.M))
    ]
    return "\n".join([*by_itself, *found])


def what_changed_but_notes(output: str) -> str:
    """Return the same without what roles note of themselves.

    Roles for which nothing is declared are left out; whoever asks for everything applies them, and
    they note that, for the first time.
    """
    lines = what_changed(output).splitlines()
    return "\n".join(line for line in lines if " : Record what was applied]" not in line)
