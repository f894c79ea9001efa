"""The fleet of the stories: the demo's slices and people, with runs of its own."""

from __future__ import annotations

STEPS = 500
TRAIN = f"python train.py --steps {STEPS} --checkpoint-every 50"
# Longer than any suite takes, and light: the run that nothing may disturb.
STEADY = "python train.py --steps 1000000 --checkpoint-every 100 --step-seconds 0.5"
RUNS = [
    # The same training twice on the same slice: one is left alone, the other is not.
    {"name": "undisturbed", "command": TRAIN},
    {"name": "disturbed", "command": f"{TRAIN} --step-seconds 0.25"},
]
FLEET = {
    "training_run_runs": [
        *(
            {**run, "slices": ["pair"], "user": "bob", "venv": "jax", "code": "digits"}
            for run in RUNS
        ),
        *(
            {**run, "venv": "jax", "code": "digits", "command": STEADY}
            for run in (
                {"name": "alone", "slices": ["solo"], "user": "alice"},
                {"name": "together", "slices": ["pair"], "user": "bob"},
            )
        ),
    ],
    # Short, so that a lost worker is noticed while a test waits.
    "training_run_lost_seconds": 15,
}
