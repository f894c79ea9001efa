"""A fleet whose queue is in a bucket of the local cloud, and two people with keys."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import queue_commands
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import Emulator

from tpu_fleet.queue.fleet import QueueOfFleet
from tpu_fleet.queue.sign import signer_of
from tpu_fleet.queue.submit import Submission, Submitting
from tpu_fleet.queue.wanted import Wanted

SLICES = [
    {"name": "pair", "accelerator_type": "v4-16", "zone": "us-central2-b"},
    {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"},
]
QUEUE = {"bucket": "gs://lab/queue", "venv": "jax", "limits": {"runs": 20}}


class Lab:
    """A fleet with a queue, two people with their keys, and a folder of code."""

    def __init__(self, cloud: Emulator, folder: Path) -> None:
        self.cloud, self.folder = cloud, folder
        self.code = folder / "code"
        self.code.mkdir()
        (self.code / "train.py").write_text("print('step 1')\n")
        self.keys = {name: self._key(name) for name in ("alice", "bob")}
        self.users = [
            {"name": name, "uid": uid, "keys": [self.public(name)]}
            for uid, name in enumerate(self.keys, 2001)
        ]
        body = {"name": "lab", "location": "US-CENTRAL2"}
        made = f"{cloud.url}storage/v1/b?project={cloud.project}"
        requests.post(made, json=body, timeout=30).raise_for_status()

    def _key(self, name: str) -> Path:
        path = self.folder / f"key-{name}"
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)]
        subprocess.run(words, check=True)
        return path

    def public(self, name: str) -> str:
        return self.keys[name].with_suffix(".pub").read_text().strip()

    def fleet(self, **queue: Any) -> QueueOfFleet:
        """Return the fleet, with more of its fleet_queue."""
        declared = FleetQueue.read({**QUEUE, **queue})
        assert declared is not None
        client = Client(self.cloud.project, endpoint=self.cloud.url)
        return QueueOfFleet(
            queue=declared,
            slices={one.name: one for one in (Slice.read(entry, None) for entry in SLICES)},
            users=self.users,
            venvs=[{"name": "jax"}],
            secrets={},
            runs=["digits"],
            client=lambda: client,
            login_key=self.folder / "none",
            folder=self.folder / "inventory",
        )

    def queue(self) -> Queue:
        return self.fleet().opened()

    def submit(
        self, person: str = "alice", again: bool = False, dry_run: bool = False, **wanted: Any
    ) -> Submission:
        """Submit as a person does."""
        fleet = self.fleet()
        signer = signer_of(self.users, str(self.keys[person]), fleet.login_key)
        job, queue = Submitting(fleet, signer, self.code, again), fleet.opened()
        asked = Wanted(**{"command": ["python", "train.py"], **wanted})
        submission = job.prepared([asked], queue)
        if not dry_run:
            job.send(submission, queue)
        return submission

    def objects(self, prefix: str = "") -> list[str]:
        """Return the names of all objects of the bucket with a prefix."""
        query = {"prefix": f"queue/{prefix}"}
        answer = requests.get(f"{self.cloud.url}storage/v1/b/lab/o", params=query, timeout=30)
        return [one["name"].removeprefix("queue/") for one in answer.json().get("items", [])]

    def read(self, name: str) -> bytes:
        place = quote(f"queue/{name}", safe="")
        answer = requests.get(
            f"{self.cloud.url}storage/v1/b/lab/o/{place}", params={"alt": "media"}, timeout=30
        )
        answer.raise_for_status()
        return answer.content

    def write(self, name: str, data: bytes) -> None:
        """Write an object, as each account may that can write to the bucket."""
        asked = f"{self.cloud.url}upload/storage/v1/b/lab/o"
        params = {"uploadType": "media", "name": f"queue/{name}"}
        requests.post(asked, params=params, data=data, timeout=30).raise_for_status()

    def nodes(self) -> list[dict[str, Any]]:
        """Return the nodes that the API has."""
        place = f"v2/projects/{self.cloud.project}/locations/{self.cloud.zone}/nodes"
        found = requests.get(self.cloud.url + place, timeout=30).json()["nodes"]
        return [{**one, "name": one["name"].rpartition("/")[2]} for one in found]

    # As processes, with a fleet file

    def declare(self) -> None:
        """Write the inventory of the fleet."""
        queue_commands.declare(self.folder, self.cloud, SLICES, self.users, QUEUE)

    def environment(self) -> dict[str, str]:
        """Return the variables of a process that works on this fleet."""
        return queue_commands.environment(self.folder, self.cloud)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `tpu-fleet` in the folder of the code."""
        return queue_commands.tpu_fleet(self.folder, self.cloud, self.code, *words)
