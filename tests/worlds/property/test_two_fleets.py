"""Two fleets of one project and one grant: whichever way their requests alternate, one stays."""

from __future__ import annotations

from typing import Any

import pytest
from simulation.lives import controller
from simulation.rules import DEAD_QUEUED, used
from simulation.things import NEIGHBOUR, OWNER, things_of
from simulation.world import Beside, Process, World

ZONE = "us-central1-a"
ENTRY = {"accelerator_type": "v5litepod-8", "zones": [ZONE], "tier": "spot"}
GRANT = [{"zone": ZONE, "generation": "v5e", "tier": "spot", "chips": 8}]


def fleet(name: str, owner: str, queued: bool) -> dict[str, Any]:
    entry = {**ENTRY, "name": name, "queued": queued}
    return {"slices": [entry], "allocations": GRANT, "owner": owner}


def alternate(
    ours: dict[str, Any], theirs: dict[str, Any], timeouts: tuple[float, float], turns: list[int]
) -> tuple[World, Any, Any]:
    """Let both work at the same time: before each of our requests so many steps of theirs."""
    world = World()
    beside = Beside(world, lambda p: controller(p, theirs, timeouts[1]).apply(), NEIGHBOUR)

    def go_on(steps: int) -> None:
        for _step in range(steps):
            beside.go_on()

    during = {n: (lambda steps=steps: go_on(steps)) for n, steps in enumerate(turns, 1)}
    result = controller(Process(world, during=during), ours, timeouts[0]).apply()
    other = beside.finish()
    world.pass_time(600.0)
    world.close()
    return world, result, other


# Theirs comes wholly before one of our requests, or step by step between them.
TURNS = [[0] * n + [steps] for n in range(6) for steps in (1, 3, 9)] + [[1] * 9, [0, 1, 2, 1]]


@pytest.mark.parametrize("timeouts", [(600.0, 600.0), (0.0, 600.0), (600.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("queued", [(False, False), (True, True), (False, True), (True, False)])
def test_one_of_two_stays(queued: tuple[bool, bool], timeouts: tuple[float, float]) -> None:
    taken_back = 0
    for turns in TURNS:
        mine, other = fleet("mine", OWNER, queued[0]), fleet("other", NEIGHBOUR, queued[1])
        world, *results = alternate(mine, other, timeouts, turns)
        things = [t for t in things_of(world.cloud) if t.state not in DEAD_QUEUED]
        assert sum(chips for _pool, _type, chips in used(things)) == 8, (turns, world.story())
        lines = [str(action) for result in results for action in result.actions]
        gone = [line for line in lines if "another was made first: the grant holds 8" in line]
        assert len(gone) <= 1, lines
        taken_back += len(gone)
        # Nobody deletes what another one made, or asks twice.
        assert len([line for line in lines if line.startswith("+")]) <= 2, lines
    assert taken_back
