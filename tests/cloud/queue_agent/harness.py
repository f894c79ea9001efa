"""Slices whose queue agents are ordinary processes, on loopback addresses, with a bucket.

Each worker has a root folder of its own, and a `systemctl` that starts run agents as processes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ports import free_port
from submitters import PROGRAMS, MachinesBucket, Person, Queue, Seen, archive, objects, parse
from waiting import PATIENCE, wait_until

KEY = "ab" * 32
RUNS = ("one", "two", "three", "four")
"""Those that may have several workers."""
ME = pwd.getpwuid(os.getuid()).pw_name
OTHER = "nobody" if os.getuid() == 0 else ME
"""One who is not root."""
PYTHON = "/usr/bin/python3"
"""As on a machine; other users may start it too."""
SYSTEMCTL = """\
#!{python} -I
import os, pathlib, signal, subprocess, sys, time
root = pathlib.Path({root!r})
command, unit = sys.argv[1], sys.argv[-1].removesuffix(".service")
kind, _at, name = unit.partition("@")
pid_file = root / "pids" / unit
def pid():
    try:
        number = int(pid_file.read_text())
        state = pathlib.Path(f"/proc/{{number}}/stat").read_text().rpartition(")")[2].split()[0]
        return number if state != "Z" else 0
    except (OSError, ValueError):
        return 0
if command == "show":
    print("active" if pid() else "inactive")
elif command == "list-jobs":
    print((root / "jobs").read_text() if (root / "jobs").exists() else "")
elif command == "start" and not pid():
    definition = root / "etc/tpu-fleet/runs" / f"{{name}}.json"
    log = (root / "run-agent.log").open("ab")
    words = [{python!r}, "-I", {run_agent!r}, "agent", "--definition", str(definition)]
    if kind == "tpu-fleet-venv":
        words = [{python!r}, str(root / "need.py"), name]
    env = dict(os.environ, TMUX_TMPDIR=str(root / "t"))
    pid_file.parent.mkdir(exist_ok=True)
    pid_file.write_text(str(subprocess.Popen(
        words, env=env, stdout=log, stderr=log, start_new_session=True).pid))
elif command == "stop" and pid():
    os.kill(pid(), signal.SIGTERM)
    while pid() and "--no-block" not in sys.argv:
        time.sleep(0.02)
"""


class Worker:
    """One worker with its queue agent."""

    def __init__(self, root: Path, settings: dict[str, Any], signers: str) -> None:
        self.root = root
        self.settings = settings
        self.process: subprocess.Popen[bytes] | None = None
        folder = root / "etc/tpu-fleet/queue"
        for path in (folder, root / "etc/tpu-fleet/runs", root / "t", root / "tmp", root / "proc"):
            path.mkdir(parents=True)
        (root / "t").chmod(0o1777)
        boot = root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_bytes(Path("/proc/sys/kernel/random/boot_id").read_bytes())
        systemctl = root / "systemctl"
        self.opt = root.parent / "opt"
        run_agent = str(self.opt / "tpu_fleet_run.py")
        systemctl.write_text(SYSTEMCTL.format(python=PYTHON, root=str(root), run_agent=run_agent))
        systemctl.chmod(0o755)
        (folder / "settings.json").write_text(json.dumps({**settings, "systemctl": str(systemctl)}))
        (folder / "allowed_signers").write_text(signers)
        (folder / "key").write_text(KEY)
        self.says = ""
        """The text of the unit's status."""
        self._told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._told.bind(str(root / "notify"))
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._told.recv(65536):
                self.says = data.decode("utf-8", "replace").rpartition("STATUS=")[2]

    def up(self) -> None:
        """Start the queue agent."""
        words = [
            PYTHON,
            "-I",
            str(self.opt / "tpu_fleet_queue.py"),
            "agent",
            "--root",
            str(self.root),
        ]
        with (self.root / "queue-agent.log").open("ab") as log:
            env = dict(os.environ, NOTIFY_SOCKET=str(self.root / "notify"))
            self.process = subprocess.Popen(words, stdout=log, stderr=log, env=env)

    def end(self, number: int = signal.SIGKILL) -> None:
        """Take the queue agent away."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)

    def switch_off(self) -> None:
        """End as a machine that is switched off, where the queue agent ends last."""
        (self.root / "jobs").write_text("1 poweroff.target start waiting\n")
        for path in (self.root / "pids").glob("*"):
            os.kill(int(path.read_text()), signal.SIGTERM)
        self.end(signal.SIGTERM)

    def runs(self) -> list[str]:
        """Return the names of the files in the folder of definitions."""
        return sorted(path.name for path in (self.root / "etc/tpu-fleet/runs").iterdir())

    def status(self, run: str) -> dict[str, Any]:
        """Return the status of a run."""
        path = self.root / "var/lib/tpu-fleet/runs" / run / "status.json"
        try:
            return dict(json.loads(path.read_text()))
        except (OSError, ValueError):
            return {}

    def log(self, run: str) -> str:
        """Return the log of a run."""
        path = self.root / "var/log/tpu-fleet/runs" / run / "run.log"
        return path.read_text() if path.exists() else ""

    def clean_up(self) -> None:
        """End all of this worker's processes."""
        self.end()
        self._told.shutdown(socket.SHUT_RD)
        self._told.close()
        for path in (self.root / "pids").glob("*"):
            try:
                os.kill(int(path.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                continue
        subprocess.run(
            ["tmux", "kill-server"],
            env=dict(os.environ, TMUX_TMPDIR=str(self.root / "t")),
            stderr=subprocess.DEVNULL,
            check=False,
        )
        shutil.rmtree(self.root, ignore_errors=True)


class Lab:
    """A queue, people and slices."""

    def __init__(self, base: Path, storage: str) -> None:
        self.base, self.storage = base, storage
        base.chmod(0o711)
        for program in PROGRAMS:  # both are in one folder on a machine
            skipped = shutil.ignore_patterns("__pycache__")
            shutil.copytree(program, base / "opt", dirs_exist_ok=True, ignore=skipped)
        self.alice = Person(base, "alice")
        self.eve = Person(base, "eve")
        self.stranger = Person(base, "mallory")
        self.workers: list[Worker] = []
        self.me = self.eves = ME  # users of alice and eve
        self.bucket, self.out = "lab", base
        self.users = {"alice": ["alice", ME, OTHER], "eve": ["eve"]}
        self.declared: list[dict[str, Any]] = []
        # Here any port is a user's, so worker 0 gives no worker the key of a run.
        self.keyed = list(RUNS)
        self._turn = 0
        self.use("queue")

    def use(self, folder: str) -> None:
        """Let the queue be in a folder of the bucket."""
        self.folder, self.address = folder, f"gs://lab/{folder}"
        self.queue = Queue(MachinesBucket(parse(self.settings("none", ["127.0.0.1"], 0, 1))))

    def settings(self, name: str, hosts: list[str], worker: int, port: int) -> dict[str, Any]:
        """Return what the role would write."""
        runs = {
            "retries": 0, "restart_on_code_change": True, "restart_on_secret_change": False,
            "enabled": True, "secrets": [], "no_retry_exit_codes": [], "fail_fast_window": 3600,
            "grace": 5, "checkpoint_lead": 120, "min_free": None, "stop_signal": "SIGTERM",
            "step_pattern": "",
        }  # fmt: skip
        training = {
            "slice": name, "zone": "us-central2-b", "slice_hosts": hosts, "worker_index": worker,
            "venvs": [], "runs": self.declared, "peers": [], "keys": dict.fromkeys(self.keyed, KEY),
            "stopped": {}, "multislice": {}, "lost_after": 20, "log_size": 10**7, "log_files": 2,
            "metadata_url": "", "peer_port_base": port + 1, "port_base": 21000,
        }  # fmt: skip
        return {
            "slice": name, "zone": "us-central2-b", "node": f"node-{name}", "type": "v4-8",
            "chips": 4, "hosts": hosts, "worker": worker, "port": port, "queue": self.address,
            "declared_first": True, "take_after": None, "limits": {},
            "users": self.users, "secrets": {},
            "people": ["alice", "eve"], "venvs": [], "venvs_elsewhere": [], "venvs_on_need": [],
            "metadata": "",
            "training": {f"training_run_{key}": value for key, value in training.items()},
            "run_defaults": runs, "storage": self.storage,
        }  # fmt: skip

    def slice(
        self,
        name: str,
        workers: int = 1,
        up: bool = True,
        declares: Callable[[Path], dict[str, Any]] = lambda _root: {},
        **more: Any,
    ) -> list[Worker]:
        """Make a slice, with more settings; `declares` returns those of one worker, by its root."""
        hosts = [f"127.0.0.{number + 2}" for number in range(workers)]
        port = free_port("")
        made = []
        for number in range(workers):
            root = self.base / f"{name}{number}"
            own = self.settings(name, hosts, number, port)
            of_worker = declares(root)
            for key, value in of_worker.pop("of_training", {}).items():
                own["training"][f"training_run_{key}"] = value
            given = {**own, **more, **of_worker}
            made.append(Worker(root, given, self.alice.signer + self.eve.signer))
        self.workers += made
        for worker in made if up else ():
            worker.up()
        return made

    def submit(
        self, name: str, script: str, by: Person | None = None, files: Any = None, **more: Any
    ) -> Seen:
        """Submit a run, signed by its person or by another."""
        self._turn += 1
        code = archive(files) if files else None
        sha = hashlib.sha256(code).hexdigest() if code else None
        if code and sha:
            self.queue.put_code(sha, code)
        given: dict[str, Any] = {
            "name": name, "person": "alice", "user": ME, "command": ("bash", "-c", script),
            "venv": "", "submitted_at": time.time(), "code": sha, "retries": 0,
            **more,
        }  # fmt: skip
        definition = objects.Definition(**given)
        return self.queue.submit(definition, (by or self.alice).signed(definition), self._turn)

    def state(self, name: str) -> objects.Submitted:
        """Return the state of a run."""
        seen = self.queue.read(name)
        assert seen is not None
        return seen.run

    def wait(self, name: str, state: str, seconds: float = PATIENCE) -> objects.Submitted:
        """Wait until a run has a state."""
        try:
            wait_until(lambda: self.state(name).state == state, f"{name} {state}", seconds)
        except AssertionError as error:
            logs = [path.read_text() for path in self.base.glob("*/*-agent.log")]
            says = {worker.root.name: worker.says for worker in self.workers}
            raise AssertionError(f"{error}; {self.state(name)}; {says}; {logs}") from None
        return self.state(name)
