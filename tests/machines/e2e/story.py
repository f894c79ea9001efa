"""The fleet of the stories: the demo's slices and people, with runs of its own."""

from __future__ import annotations

import shlex
from pathlib import Path

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
DIGITS = {"name": "digits", "user": "root", "local_path": "../examples/jax"}
# The same program in a folder, which the conftest writes beside the inventory.
COUNT_CODE = {"name": "count", "user": "root", "local_path": "../count", "slices": ["pair"]}
RUNS = [
    # The same training twice on the same slice: one is left alone, the other is not.
    {"name": "undisturbed", "command": TRAIN},
    {"name": "disturbed", "command": f"{TRAIN} --step-seconds 0.25"},
]


def write_count(folder: Path, first_line: str) -> None:
    """Write the code of the run `together`, whose log begins with that line, and a large file."""
    (folder / "count").mkdir(exist_ok=True)
    (folder / "count" / "count.py").write_text(f"print({first_line!r})\n{COUNT}")
    (folder / "count" / "words.txt").write_text("".join(map(str, range(9999))))


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
            "framework": "jax",
            "packages": "{{ demo_packages.jax | reject('match', 'gcsfs|google-cloud') }}",
        }
    ],
    "fleet_code": [DIGITS, COUNT_CODE],
    "fleet_runs": [
        *(
            {**run, "slices": ["pair"], "user": "bob", "venv": "jax", "code": "digits"}
            for run in RUNS
        ),
        {"name": "alone", "slices": ["solo"], "user": "alice", "command": STEADY},
        {
            "name": "together",
            "slices": ["pair"],
            "user": "bob",
            "code": "count",
            "command": "exec python3 -u count.py",
        },
    ],
    # Short, so that a lost worker is noticed while a test waits.
    "fleet_run_lost_after": "15s",
}
