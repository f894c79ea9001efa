"""The queue beside the fleet, for `top` and the page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    DONE,
    RUNNING,
    Definition,
    Submitted,
)
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Listing, Seen
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory
from queue_fleet import OWNER, fleet_in_memory

from tpu_fleet.queue import glance as module
from tpu_fleet.queue.glance import MOST_ROWS, Glance, glance
from tpu_fleet.queue.view import QueueView, view_of

AT = 1.7e9


def run(name: str, turn: int = 0, **more: Any) -> Submitted:
    definition = Definition(name, "alice", "alice", ("x",), "jax", AT)
    return replace(objects.of_definition(definition, turn, "0" * 32, AT), **more)


def view(*runs: Submitted) -> QueueView:
    listing = Listing({one.name: Seen(one, 1, 1) for one in runs})
    return view_of(fleet_in_memory([{"name": "alice"}]), listing, AT + 60)


def test_what_runs_and_waits_is_kept_for_the_page() -> None:
    found = Glance(
        view(
            run("old", state=DONE, ended_at=AT),
            run("next", 1),
            run("now", state=RUNNING, owner=OWNER, started_at=AT + 5),
        )
    ).to_dict()
    rows = [(one["run"], one["place"], one["slice"], one["since"]) for one in found["rows"]]
    assert rows == [("now", None, "solo", AT + 5), ("next", 1, "", AT)]
    assert found["rows"][1]["why"].startswith("first in turn")
    assert (found["waiting"], found["more"], found["problem"]) == (1, 0, "")


def test_of_very_many_the_next_are_kept() -> None:
    found = Glance(view(*(run(f"r-{n}", n) for n in range(MOST_ROWS + 7)))).to_dict()
    assert len(found["rows"]) == MOST_ROWS
    assert (found["waiting"], found["more"]) == (MOST_ROWS + 7, 7)


def inventory(folder: Path, queue: str = "") -> Inventory:
    (folder / "hosts").write_text(f"localhost {queue}\n")
    return Inventory.read([str(folder / "hosts")], folder)


def test_a_fleet_without_a_queue_has_none(tmp_path: Path) -> None:
    assert glance(inventory(tmp_path), AT) == Glance()


def test_a_queue_that_does_not_answer_is_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_inventory: Inventory) -> None:
        raise NoAnswer("there is no such bucket: gs://lab")

    monkeypatch.setattr(module, "queue_of", fails)
    found = glance(inventory(tmp_path, 'fleet_queue=\'{"bucket": "gs://lab/q"}\''), AT)
    assert found.view is None
    assert found.problem == "The queue cannot be read: there is no such bucket: gs://lab"
