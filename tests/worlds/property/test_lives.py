"""Random fleets, grants, faults and deaths of controllers: what must always be true of them.

A state machine, not a list of scenarios: a failing run is printed as the calls that lead to it,
followed by the story of what happened. To repeat it, set TPU_FLEET_PROPERTY_SEED to what the end
says; TPU_FLEET_PROPERTY_RUNS is how many there are in all. Shrinking takes minutes, and has to be
asked for: TPU_FLEET_PROPERTY_SHRINK=1.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from simulation.lives import BothLives, Lives

# Several parts, so that two workers share the runs; each has its own seed. Each other one has lives
# with both APIs.
PARTS = 16
PHASES = [Phase.generate] + ([Phase.shrink] if os.environ.get("TPU_FLEET_PROPERTY_SHRINK") else [])
RUNS = int(os.environ["TPU_FLEET_PROPERTY_RUNS"])


@pytest.mark.parametrize("part", range(PARTS))
def test_rules_hold_whatever_happens(part: int) -> None:
    number = int(os.environ["TPU_FLEET_PROPERTY_SEED"]) * PARTS + part
    print(f"seed {number}")
    machine = seed(number)(type(f"Lives{part}", (BothLives if part % 2 else Lives,), {}))
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=-(-RUNS // PARTS),
            stateful_step_count=5,
            deadline=None,
            database=None,
            print_blob=True,
            phases=PHASES,
            suppress_health_check=list(HealthCheck),
        ),
    )
