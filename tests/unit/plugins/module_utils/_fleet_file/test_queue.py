"""What is wrong with fleet_queue, and what is read of it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import (
    FleetQueue,
    check_queue,
)

DATA: dict[str, Any] = {
    "fleet_slices": [{"name": "pair"}, {"name": "solo"}],
    "fleet_users": [{"name": "alice"}, {"name": "lab"}],
    "fleet_venvs": [{"name": "jax"}],
    "fleet_secrets": [{"name": "wandb"}],
}
QUEUE: dict[str, Any] = {
    "bucket": "gs://lab-ckpt/queue",
    "slices": ["pair"],
    "venv": "jax",
    "user": "lab",
    "retries": 0,
    "declared_first": False,
    "take_after": "1h",
    "limits": {"chips": 64, "runs": 4, "chip_hours": 500},
    "reserved": {"pair": ["alice", "lab"]},
    "on_result": {"command": "python rule.py", "every": "2m"},
    "submit_as": {"alice": ["lab"]},
    "secrets": {"alice": ["wandb"]},
    "writers": ["user:alice@lab.example"],
    "readers": ["group:lab@lab.example"],
}


def problems(queue: Any) -> list[str]:
    return [*map(str, check_queue({**DATA, "fleet_queue": queue}))]


def test_what_is_right() -> None:
    assert problems(QUEUE) == []
    assert problems({"bucket": "gs://lab-ckpt"}) == []
    assert problems({}) == []
    assert check_queue({}) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bucket": None}, "fleet_queue.bucket: is missing. Set fleet_queue.bucket"),
        ({"bucket": "lab/q"}, "fleet_queue.bucket = 'lab/q': is not a bucket with a folder. Write"),
        ({"bucket": "gs://lab-{region}/q"}, "fleet_queue.bucket = 'gs://lab-{region}/q': is not a"),
        ({"bucket": "gs://lab/a b"}, "fleet_queue.bucket = 'gs://lab/a b': is not a bucket"),
        (
            {"slices": ["par"], "reserved": {}},
            "fleet_queue.slices[0] = 'par': is not a slice of",
        ),
        ({"venv": "torch"}, "fleet_queue.venv = 'torch': is not a venv of this fleet file"),
        ({"user": "root"}, "fleet_queue.user = 'root': belongs to the system, and a person who"),
        ({"user": "bob"}, "fleet_queue.user = 'bob': is not a user of this fleet file."),
        ({"retries": -1}, "fleet_queue.retries = -1: is too small. Use 0 or more"),
        ({"retries": "3"}, "fleet_queue.retries = '3': must be a whole number"),
        ({"take_after": "1m"}, "fleet_queue.take_after = '1m': is too small. Use 15m or more"),
        ({"limits": {"chips": 0}}, "fleet_queue.limits.chips = 0: is too small. Use 1 or more"),
        ({"limits": {"chip_hours": 0}}, "fleet_queue.limits.chip_hours = 0: is too small. Use 1"),
        (
            {"reserved": {"par": ["lab"]}, "slices": None},
            "fleet_queue.reserved.par = 'par': is not a",
        ),
        ({"reserved": {"solo": ["lab"]}}, "fleet_queue.reserved.solo = 'solo': does not serve the"),
        ({"reserved": {"pair": []}}, "fleet_queue.reserved.pair = []: is not a list of names"),
        ({"reserved": {"pair": "lab"}}, "fleet_queue.reserved.pair = 'lab': is not a list of na"),
        ({"reserved": {"pair": ["bob"]}}, "fleet_queue.reserved.pair[0] = 'bob': is not a user of"),
        ({"on_result": {"every": "2m"}}, "fleet_queue.on_result.command: is missing"),
        (
            {"on_result": {"command": "a '"}},
            'fleet_queue.on_result.command = "a \'": is no command',
        ),
        (
            {"on_result": {"command": "a", "every": "5s"}},
            "fleet_queue.on_result.every = '5s': is too small. Use 1m or more",
        ),
        ({"limits": {"chip": 4}}, "fleet_queue.limits.chip = 4: is not a known key. Did you mean"),
        ({"submit_as": {"bob": ["lab"]}}, "fleet_queue.submit_as.bob = 'bob': is not a user of"),
        ({"submit_as": {"alice": "lab"}}, "fleet_queue.submit_as.alice = 'lab': is not a list of"),
        ({"submit_as": {"alice": ["root"]}}, "fleet_queue.submit_as.alice[0] = 'root': belongs to"),
        ({"secrets": {"alice": ["aws"]}}, "fleet_queue.secrets.alice[0] = 'aws': is not a set of"),
        ({"cross_region": "yes"}, "fleet_queue.cross_region = 'yes': is not one of the choices"),
        ({"writers": ["alice"]}, "fleet_queue.writers[0] = 'alice': gets no access to a bucket"),
        ({"readers": ["allUsers"]}, "fleet_queue.readers[0] = 'allUsers': gets no access to a"),
        ({"slice": ["pair"]}, "fleet_queue.slice = ['pair']: is not a known key. Did you mean"),
    ],
)
def test_what_is_wrong(change: dict[str, Any], words: str) -> None:
    (text,) = problems({**QUEUE, **change})
    assert text.startswith(words)


def test_as_data() -> None:
    queue = FleetQueue.read(QUEUE)
    assert queue == FleetQueue(
        *("lab-ckpt", "queue/", ("pair",), "jax", "lab", 0, False, 3600.0, 64, 4, 500),
        {"pair": ("alice", "lab")},
        {"alice": ("lab",)},
        {"alice": ("wandb",)},
        {"writers": ("user:alice@lab.example",), "readers": ("group:lab@lab.example",)},
    )
    assert queue.address == "gs://lab-ckpt/queue"
    assert queue.users_of("alice") == ["alice", "lab"]
    assert queue.users_of("bob") == ["bob"]


def test_defaults() -> None:
    queue = FleetQueue.read({"bucket": "gs://lab-ckpt"})
    assert queue is not None
    assert (queue.folder, queue.retries, queue.declared_first, queue.chips) == ("", 3, True, None)
    assert FleetQueue.read(None) is None
    assert FleetQueue.read({}) is None
