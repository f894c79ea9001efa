"""What `plan` shows of slices that come for submitted runs."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import BY_RUNS
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from queue_fleet import FleetInMemory, fleet_in_memory

from tpu_fleet.commands import plan
from tpu_fleet.workers.report import Report

ASLEEP = ("ended", f"it rests, because no submitted run needs it; {BY_RUNS}")
BURST = [
    {"name": name, "accelerator_type": "v4-8", "zone": "us-central2-b", "on_queue": True}
    for name in ("burst-1", "burst-2")
]


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> FleetInMemory:
    fleet = fleet_in_memory([{"name": "alice"}])
    more = {str(entry["name"]): Slice.read(entry, None) for entry in BURST}
    fleet = replace(fleet, slices={**fleet.slices, **more})
    monkeypatch.setattr(plan, "read_inventory", lambda: None)
    monkeypatch.setattr(plan, "queue_of", lambda _inventory: fleet)
    return fleet


def rows(**slices: tuple[str, str]) -> list[tuple[str, bool, str]]:
    asleep = {"burst-1": ASLEEP, "burst-2": ASLEEP}
    found = plan.on_queue(Report(slices={**asleep, **slices}))
    return [(one["slice"], one["comes"], one["why"]) for one in found]


NOTHING = "nothing waits in the queue for it"


def test_what_would_come_is_shown_with_its_runs(lab: FleetInMemory) -> None:
    assert rows() == [("burst-1", False, NOTHING), ("burst-2", False, NOTHING)]
    for turn, name in enumerate(("lr-1", "lr-2")):
        words = {"types": ("v4-8",)}
        definition = objects.Definition(name, "alice", "alice", ("x",), "jax", 1.7e9, **words)
        text = objects.definition_text(definition)
        lab.opened().submit(definition, objects.Signed(text, "signature"), turn)
    two = "2 submitted runs wait for v4-8"
    assert rows() == [("burst-1", True, two), ("burst-2", True, two)]
    # An idle slice takes one of them.
    ready = ("ready", "v4-8 in us-central2-b")
    assert rows(solo=ready) == [("burst-1", True, two), ("burst-2", False, NOTHING)]


def test_without_such_slices_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "read_inventory", lambda: pytest.fail("it is read"))
    assert plan.on_queue(Report(slices={"solo": ("ended", "deleted")})) == []


def test_a_queue_that_does_not_answer_is_said(
    lab: FleetInMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_work: object) -> None:
        raise click.ClickException("The queue does not answer: 403")

    monkeypatch.setattr(plan, "explained", silent)
    said = "The queue does not answer: 403"
    assert rows() == [("burst-1", False, said), ("burst-2", False, said)]
