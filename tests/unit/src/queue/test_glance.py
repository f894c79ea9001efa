"""The queue beside the fleet, for `top` and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import (
    DONE,
    RUNNING,
    Definition,
    Doing,
    Signed,
    definition_text,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory
from queue_fleet import AT, OWNER, fleet_in_memory
from queue_fleet import submitted_run as run
from queue_fleet import view_with as view

from tpu_fleet.queue import glance as module
from tpu_fleet.queue.glance import MOST_ROWS, Glance, glance


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


def test_it_has_what_slices_do_for_a_run_as_the_command_shows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = fleet_in_memory([{"name": "alice"}])
    queue = fleet.opened()
    definition = Definition("lr", "alice", "alice", ("x",), "jax", AT)
    queue.submit(definition, Signed(definition_text(definition), "signature"), 0)
    queue.say(Doing("solo", "builds venv jax", AT, AT + 40, "lr", "jax"))
    monkeypatch.setattr(module, "queue_of", lambda _inventory: fleet)
    found = glance(inventory(tmp_path, 'fleet_queue=\'{"bucket": "gs://lab/q"}\''), AT + 60)
    (row,) = found.to_dict()["rows"]
    assert row["why"] == "first in turn; solo builds venv jax, 1 min so far"
