"""Which slices a watcher brings for submitted runs, and which it gives up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from slices_seen import slice_seen

from tpu_fleet.queue.demand import RESTS, STUCK, UP, Need
from tpu_fleet.watch.decide import SliceSeen
from tpu_fleet.watch.on_queue import changes, occupied, offers

QUEUE = FleetQueue("lab", "queue/")
ASLEEP = Rest("delete", "m", why="unused for 30 min", at=5.0, done=True)
AWAKE = replace(ASLEEP, awake=True, by_queue=True)
NEED = {"solo": Need("lr", 2, "v4-8")}


def solo(phase: str, **more: Any) -> SliceSeen:
    declared = {"on_queue": True, "on_finish": "delete", "mark": "m", "types": ("v4-8",)}
    return slice_seen("solo", phase, **{**declared, **more})


@pytest.mark.parametrize(
    ("seen", "how"),
    [
        (solo("ended", rests=True), RESTS),
        (solo("ended", rests=True, rest=ASLEEP), RESTS),
        (solo("ended", rests=True, rest=replace(ASLEEP, held=True)), None),
        (solo("ended", rests=True, on_queue=False), None),
        (solo("clearing", rests=True), None),
        (solo("unknown", rests=True), None),
        (solo("ready", rests=True), UP),
        (solo("ready", on_queue=False), UP),
        (solo("coming", rest=AWAKE), UP),
        (solo("waiting", rest=AWAKE), UP),
        (solo("refused", rest=AWAKE), STUCK),
        (solo("refused", on_queue=False), None),
        (solo("ended", rest=AWAKE), STUCK),
    ],
)
def test_what_a_slice_is_to_the_queue(seen: SliceSeen, how: int | None) -> None:
    assert [one.how for one in offers([seen], QUEUE, [], ())] == ([] if how is None else [how])


def test_an_offer_has_its_environments_and_its_other_use() -> None:
    venvs = [{"name": "jax"}, {"name": "torch", "slices": ["pair"]}]
    [one] = offers([solo("ready")], QUEUE, venvs, {"solo"})
    assert (one.types, one.venvs, one.used) == (("v4-8",), {"jax"}, True)
    assert offers([solo("ready")], replace(QUEUE, slices=("pair",)), venvs, ()) == []


def test_only_active_runs_that_were_not_submitted_are_another_use() -> None:
    runs = [
        {"run": "lr", "slice": "a", "state": "running"},
        {"run": "declared", "slice": "b", "state": "running"},
        {"run": "over", "slice": "c", "state": "succeeded"},
    ]
    assert occupied(runs, {"lr"}) == {"b"}


@pytest.mark.parametrize(
    ("seen", "needed", "may", "awake"),
    [
        (solo("ended", rests=True), NEED, True, True),
        (solo("ended", rests=True, rest=ASLEEP), NEED, True, True),
        (solo("ended", rests=True), {}, True, None),
        # A spent budget.
        (solo("ended", rests=True), NEED, False, None),
        # The run went elsewhere before the slice was there.
        (solo("waiting", rest=AWAKE), {}, True, False),
        (solo("refused", rest=AWAKE), {}, False, False),
        (solo("waiting", rest=AWAKE), NEED, True, None),
        (solo("unknown", rest=AWAKE), {}, True, None),
        # It is there, and rests when it was idle; a user wants it.
        (solo("coming", rest=AWAKE, uid="u"), {}, True, None),
        (solo("ready", rest=AWAKE, uid="u"), {}, True, None),
        (solo("waiting", rest=replace(AWAKE, by_queue=False)), {}, True, None),
        (solo("ended", rests=True, on_queue=False, rest=ASLEEP), NEED, True, None),
    ],
)
def test_what_is_recorded(
    seen: SliceSeen, needed: dict[str, Need], may: bool, awake: bool | None
) -> None:
    found = changes([seen], needed, may)
    assert [(one.awake, one.by_queue) for one in found.values()] == (
        [] if awake is None else [(awake, awake)]
    )


def test_what_comes_says_why() -> None:
    [rest] = changes([solo("ended", rests=True)], NEED, True).values()
    assert rest == Rest(
        "delete", "m", why="2 submitted runs wait for v4-8", awake=True, by_queue=True
    )
