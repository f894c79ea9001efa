"""What of a fleet file and of the API the queue takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import (
    NotFound,
    PermissionDenied,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Owner
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving

from tpu_fleet.queue.fleet import QueueError, QueueOfFleet, queue_of

FILE: dict[str, Any] = {
    "fleet_queue": {"bucket": "gs://lab/queue", "slices": ["solo", "big"], "limits": {"runs": 2}},
    "fleet_zone": "us-central2-b",
    "fleet_slices": [
        {"name": "solo", "accelerator_type": "v4-8"},
        {"name": "big", "accelerator_types": ["v4-32", "v4-16"]},
        {"name": "other", "accelerator_type": "v4-8"},
    ],
    "fleet_users": [{"name": "alice"}],
    "fleet_venvs": [
        {"name": "jax", "path": "/x"},
        {"name": "own", "path": "/y", "slices": ["solo"]},
    ],
    "fleet_secrets": [{"name": "wandb", "user": "alice"}, {"name": "shared"}],
    "fleet_runs": [{"name": "digits"}],
}


class FakeInventory:
    """An inventory that says a fleet file, with one worker of solo."""

    def __init__(self, data: Mapping[str, Any], folder: Path) -> None:
        self.data = data
        self.sources = [str(folder / "fleet.tpu.yml")]

    def said(self, name: str, otherwise: Any = None) -> Any:
        return self.data.get(name, otherwise)

    def key_file(self) -> Path:
        return Path("/key")

    def workers(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        facts = {"name": "solo", "state": "READY", "zone": "us-central2-b"}
        facts["accelerator_type"] = "v4-8"
        yield "solo", {f"tpu_vm_{key}": value for key, value in facts.items()}


def read(tmp_path: Path, **change: Any) -> QueueOfFleet:
    inventory: Any = FakeInventory({**FILE, **change}, tmp_path)
    return queue_of(inventory)


def test_what_is_read(tmp_path: Path) -> None:
    fleet = read(tmp_path)
    assert list(fleet.slices) == ["solo", "big"]
    assert fleet.limits == Limits(runs=2)
    assert fleet.secrets == {"wandb": "alice", "shared": "root"}
    assert (fleet.runs, fleet.folder, fleet.login_key) == (["digits"], tmp_path, Path("/key"))
    assert fleet.serving() == [
        Serving("solo", "v4-8", 4, frozenset({"jax", "own"})),
        Serving("big", "v4-32", 16, frozenset({"jax"}), "does not exist now"),
    ]


def test_all_slices_serve_the_queue_if_none_is_named(tmp_path: Path) -> None:
    fleet = read(tmp_path, fleet_queue={"bucket": "gs://lab"})
    assert list(fleet.slices) == ["solo", "big", "other"]


def test_a_fleet_without_a_queue_says_how_to_have_one(tmp_path: Path) -> None:
    with pytest.raises(QueueError, match="has no fleet_queue, so runs cannot be submitted"):
        read(tmp_path, fleet_queue=None)
    with pytest.raises(QueueError, match=r"fleet_queue.bucket = 'lab': is not a bucket"):
        read(tmp_path, fleet_queue={"bucket": "lab"})


class FakeNodes:
    """The nodes of an API: one, or an error."""

    def __init__(self, answer: Any) -> None:
        self.nodes, self.answer = self, answer

    def get(self, zone: str, name: str) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        assert (zone, name) == ("us-central2-b", "solo")
        return self.answer


OWNER = Owner("solo", "us-central2-b", "v4-8", 4, "id", "boot")


@pytest.mark.parametrize(
    ("answer", "node"),
    [
        (Node("READY", "id"), Node("READY", "id")),
        (NotFound("no such node"), Node("", "")),
        (PermissionDenied("no"), None),
    ],
)
def test_only_what_the_api_answers_is_known(answer: Any, node: Node | None, tmp_path: Path) -> None:
    if isinstance(answer, Node):
        answer = type("Found", (), {"state": answer.state, "uid": answer.id})
    client: Any = FakeNodes(answer)
    fleet = replace(read(tmp_path), client=lambda: client)
    assert fleet.node_of(OWNER) == node
    # Of a slice that is not declared nothing is concluded.
    assert fleet.node_of(replace(OWNER, slice="gone")) is None
