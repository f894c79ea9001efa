"""Fixtures: a watcher of an emulator without machines, and a receiver of its messages."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Fleet
from emulator import ROOT, Emulator

PATIENCE = 240.0
"""Seconds for what takes a few on an idle computer."""
SOON = """
from tpu_fleet.cli import main
from tpu_fleet.page import publish
from tpu_fleet.watch import look
look.KEEP_EVERY = publish.EVERY = 2.0
main()
"""
"""A program that is `tpu-fleet`, but for the minute between two pages of a watcher."""
NOTHING: dict[str, Any] = {
    "fleet_users": [],
    "fleet_venvs": [],
    "fleet_code": [],
    "fleet_runs": [],
    "fleet_checkpoint_buckets": [],
    "fleet_allocations": "unrestricted",
    # Nobody can log in to an address, and that is to be known at once.
    "fleet_connection_timeout": "0s",
    "ansible_ssh_extra_args": "-o ProxyCommand=/bin/false",
}


class Hook:
    """A web server of the test, which gets messages."""

    def __init__(self) -> None:
        self.status = 200
        self.location = "/elsewhere"
        self.got: list[dict[str, Any]] = []
        hook = self

        self.asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hook.asked.append(f"GET {self.path}")
                self.send_response(200)
                self.end_headers()

            def do_POST(self) -> None:
                hook.asked.append(f"POST {self.path}")
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if hook.status == 200:
                    hook.got.append(
                        {"path": self.path, "body": body, "headers": dict(self.headers)}
                    )
                self.send_response(hook.status)
                if 300 <= hook.status < 400:
                    self.send_header("Location", hook.location)
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"json://127.0.0.1:{self.server.server_port}/hush"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def titles(self) -> list[str]:
        """The titles of the messages, in order."""
        return [json.loads(one["body"])["title"] for one in self.got]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A receiver of messages."""
    server = Hook()
    yield server
    server.stop()


@pytest.fixture
def elsewhere() -> Iterator[Hook]:
    """Where a redirection leads."""
    server = Hook()
    yield server
    server.stop()


class Watched:
    """A fleet file, and the watchers that a test starts for it."""

    def __init__(self, cloud: Emulator, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.inventory = folder / "inventory"
        shutil.copytree(ROOT / "inventory", self.inventory)
        where = self.inventory / "fleet.tpu.yml"
        where.write_text(where.read_text().replace("http://127.0.0.1:8470/", cloud.url))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.key = folder / "key"
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)]
        subprocess.run(words, check=True)

    def get(self, entry: dict[str, Any]) -> None:
        """Have a slice be there, as a playbook would have made it."""
        public = self.key.with_suffix(".pub").read_text().strip()
        params = {"slices": [entry], "ssh_keys": [f"ubuntu:{public}"]}
        fleet = Fleet.from_params({**params, "allocations": "unrestricted"}, self.cloud.project)
        [want] = fleet.slices
        body = fleet.node_spec(want, want.candidates[0]).create_body()
        path = f"v2/projects/{self.cloud.project}/locations/{entry['zone']}/nodes"
        query = {"nodeId": entry["name"]}
        answer = requests.post(self.cloud.url + path, params=query, json=body, timeout=20)
        answer.raise_for_status()

    def declare(self, **fleet: Any) -> None:
        """Write the fleet file."""
        file = self.inventory / "group_vars" / "all" / "story.yml"
        file.write_text(json.dumps({**NOTHING, **fleet}))

    def env(self, state: str = "state") -> dict[str, str]:
        """Return the environment of one computer."""
        return self.cloud.env(
            ANSIBLE_INVENTORY=str(self.inventory),
            ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"),
            TPU_FLEET_STATE_DIR=str(self.folder / state),
            TPU_FLEET_SSH_KEY=str(self.key),
            PYTHONPATH=f"{ROOT / 'src'}:{ROOT / 'collections'}",
        )

    def command(self, *words: str, state: str = "state") -> subprocess.CompletedProcess[str]:
        """Run a command of `tpu-fleet watch` to its end."""
        return subprocess.run(
            [sys.executable, "-m", "tpu_fleet", "watch", *words],
            cwd=ROOT, env=self.env(state), capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip

    def start(
        self, *words: str, state: str = "state", program: Sequence[str] = ("-m", "tpu_fleet")
    ) -> subprocess.Popen[bytes]:
        """Start a watcher."""
        argv = [sys.executable, *program, "watch", "run", "--interval=1", *words]
        with open(self.folder / f"{state}.out", "ab") as out:
            process = subprocess.Popen(
                argv, cwd=ROOT, env=self.env(state), stdout=out, stderr=out, start_new_session=True
            )
        self.processes.append(process)
        return process

    def said(self, state: str = "state") -> str:
        """Return what its watcher logged."""
        logs = (self.folder / state / "watch").glob("*/watch.log")
        return "".join(log.read_text() for log in logs)

    def status(self, state: str = "state") -> dict[str, Any]:
        """Return its status, if there is one."""
        for path in (self.folder / state / "watch").glob("*/status.json"):
            found: dict[str, Any] = json.loads(path.read_text())
            return found
        return {}

    def has_told(self, event: str, state: str = "state") -> bool:
        """Return whether its watcher knows that it reported an event, and has no more to report."""
        for path in (self.folder / state / "watch").glob("*/memory.json"):
            outbox = json.loads(path.read_text())["outbox"]
            waiting = [message for box in outbox["boxes"].values() for message in box["waiting"]]
            return any(key.startswith(f"{event}:") for key in outbox["told"]) and not waiting
        return False

    def tries(self, trouble: str) -> int:
        """Return how often something has not worked in a row."""
        found: dict[str, Any] = self.status().get("troubles", {}).get(trouble, {})
        return int(found.get("count", 0))

    def until(self, what: Callable[[], Any]) -> Any:
        """Wait for something; return it."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = what()
            if found:
                return found
            time.sleep(0.2)
        outs = "".join(out.read_text() for out in self.folder.glob("*.out"))
        raise AssertionError(f"It did not come to that. The watchers said:\n{outs}")

    def wait_for(self, words: str, state: str = "state") -> None:
        """Wait until the log has these words."""
        self.until(lambda: words in self.said(state))

    def node(self, name: str = "solo") -> dict[str, Any]:
        """Return a node as the API knows it."""
        place = f"v2/projects/{self.cloud.project}/locations/{self.cloud.zone}/nodes/{name}"
        found: dict[str, Any] = requests.get(self.cloud.url + place, timeout=20).json()
        return found if "id" in found else {}

    def start_with_pages_soon(self, *words: str) -> None:
        """Start a watcher that publishes its page every other second, not once a minute."""
        self.start(*words, program=("-c", SOON))


@pytest.fixture
def watched(cloud: Emulator, tmp_path: Path) -> Iterator[Watched]:
    """A fleet with watchers."""
    fleet = Watched(cloud, tmp_path)
    yield fleet
    for process in fleet.processes:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for process in fleet.processes:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(60)
