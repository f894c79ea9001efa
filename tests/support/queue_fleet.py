"""A fleet with a queue in memory, and a person who can sign, for tests of commands."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    Definition,
    Doing,
    Owner,
    Submitted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Listing, Queue
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Seen as SeenRun
from memory_bucket import MemoryBucket

from tpu_fleet.queue.fleet import QueueOfFleet, Seen
from tpu_fleet.queue.view import QueueView, view_of

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


AT = 1.7e9
"""When all runs were submitted."""


def submitted_run(name: str, turn: int = 0, **more: Any) -> Submitted:
    """Return the state of a run of alice; `more` are fields that differ."""
    definition = Definition(name, "alice", "alice", ("x",), "jax", AT)
    return replace(objects.of_definition(definition, turn, "0" * 32, AT), **more)


def view_with(*runs: Submitted, doing: Sequence[Doing] = ()) -> QueueView:
    """Return a queue with these runs, a minute later."""
    listing = Listing({one.name: SeenRun(one, 1, 1) for one in runs})
    return view_of(fleet_in_memory([{"name": "alice"}]), listing, AT + 60, doing)


def make_key(path: Path) -> str:
    """Make an SSH key; return its public line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(words, check=True)
    return path.with_name(f"{path.name}.pub").read_text().strip()
