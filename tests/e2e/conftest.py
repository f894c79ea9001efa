"""One fleet for all stories: a single-host slice and a two-worker slice, as in the demo."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fleet import Fleet  # noqa: E402

STEPS = 700
TRAIN = f"python train.py --steps {STEPS} --checkpoint-every 50"
RUNS = [
    # The same training twice on the same slice: one is left alone, the other is not.
    {"name": "undisturbed", "command": TRAIN},
    {"name": "disturbed", "command": f"{TRAIN} --step-seconds 0.15"},
]
FLEET = {
    "training_run_runs": [
        *({**run, "slices": ["pair"], "user": "bob", "venv": "jax", "code": "digits"} for run in RUNS),
        {
            "name": "alone",
            "slices": ["solo"],
            "user": "alice",
            "venv": "jax",
            "code": "digits",
            "command": "python train.py --steps 200000 --checkpoint-every 100 --step-seconds 0.2",
        },
    ],
    # Short, so that a lost worker is noticed while a test waits.
    "training_run_lost_seconds": 15,
}


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The fleet, which site.yml has brought to training."""
    fleet = Fleet(tmp_path_factory.mktemp("story"), 8473, FLEET)
    fleet.up()
    try:
        fleet.first_site = fleet.play("site.yml")
        yield fleet
    finally:
        fleet.down()
