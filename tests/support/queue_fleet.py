"""A fleet with a queue in memory, and a person who can sign, for tests of commands."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Owner
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from memory_bucket import MemoryBucket

from tpu_fleet.queue.fleet import QueueOfFleet, Seen

SLICES: list[dict[str, Any]] = [
    {"name": "pair", "accelerator_type": "v4-16", "zone": "us-central2-b"},
    {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"},
]
OWNER = Owner("solo", "us-central2-b", "v4-8", 4, "node-1", "boot-1")


def no_client() -> Any:
    raise AssertionError("Google is not asked")


@dataclass(frozen=True)
class FleetInMemory(QueueOfFleet):
    """A fleet whose bucket and API are in memory."""

    bucket: MemoryBucket = field(default_factory=MemoryBucket)
    api: dict[str, Node] = field(default_factory=dict)
    """What the API has, by slice; without an entry that is not known."""

    def opened(self) -> Queue:
        return Queue(self.bucket, pause=lambda _seconds: None)

    def node_of(self, owner: Owner) -> Node | None:
        return self.api.get(owner.slice)


def fleet_in_memory(users: list[dict[str, Any]], **queue: Any) -> FleetInMemory:
    """Return a fleet of two slices, of which solo is there."""
    declared = FleetQueue.read({"bucket": "gs://lab/queue", "venv": "jax", **queue})
    assert declared is not None
    return FleetInMemory(
        queue=declared,
        slices={one.name: one for one in (Slice.read(entry, None) for entry in SLICES)},
        users=users,
        venvs=[{"name": "jax"}],
        secrets={},
        runs=["digits"],
        client=no_client,
        login_key=Path("/none"),
        folder=Path("/none"),
        nodes={"solo": Seen("READY", "us-central2-b", "v4-8")},
    )


def make_key(path: Path) -> str:
    """Make an SSH key; return its public line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(words, check=True)
    return path.with_name(f"{path.name}.pub").read_text().strip()
