"""The fleet of the stories: the demo's slices and people, with runs of its own."""

from __future__ import annotations

import shlex

STEPS = 500
TRAIN = f"python train.py --steps {STEPS} --checkpoint-every 50"
# The run that nothing may disturb lasts longer than any suite. It is no JAX, which takes seconds of
# a core to start on each worker, and is started again whenever a worker of its slice reboots.
COUNT = """
import itertools, time
for step in itertools.count():
    print("step", step, "loss 0", flush=True)
    time.sleep(0.5)
"""
STEADY = shlex.join(["exec", "python3", "-uc", COUNT])
RUNS = [
    # The same training twice on the same slice: one is left alone, the other is not.
    {"name": "undisturbed", "command": TRAIN},
    {"name": "disturbed", "command": f"{TRAIN} --step-seconds 0.25"},
]
FLEET = {
    # What a person would miss is a fifth of setting a machine up; molecule's machines have it.
    "fleet_base_packages": ["sudo", "tmux", "tzdata"],
    "fleet_shell_packages": [],
    # Only where something trains: on each machine, JAX is unpacked and compiled. No run saves in a
    # bucket, which the stage `buckets` has.
    "fleet_venvs": [
        {
            "name": "jax",
            "path": "/opt/venvs/jax",
            "slices": ["pair"],
            "python": "3.11",
            "framework": "jax",
            "packages": "{{ demo_packages.jax | reject('match', 'gcsfs|google-cloud') }}",
        }
    ],
    "fleet_runs": [
        *(
            {**run, "slices": ["pair"], "user": "bob", "venv": "jax", "code": "digits"}
            for run in RUNS
        ),
        {"name": "alone", "slices": ["solo"], "user": "alice", "command": STEADY},
        {"name": "together", "slices": ["pair"], "user": "bob", "command": STEADY},
    ],
    # Short, so that a lost worker is noticed while a test waits.
    "fleet_run_lost_after": "15s",
}
