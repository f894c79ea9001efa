"""The main job on slices of both APIs: one run of JAX on each, and nothing left in the end.

Each machine gets what the demo's do: all packages, an environment of its own, code, secrets. The
slice of flex-start has a data disk, which stays.
"""

from __future__ import annotations

import re
from typing import Any

from compute_fleet import (
    CODE,
    JAX,
    KINDS,
    PEOPLE,
    PYTHON,
    SHARE,
    SHARES,
    USER,
    A,
    ComputeFleet,
    trainer,
)
from fleet import changes, wait_until, what_changed

WORKERS = {"old": 2, "flex": 1, "wide": 4, "new": 2}
SLICES = [
    {"name": "old", "accelerator_type": "v4-16", "zone": "us-central2-b"},
    {
        "name": "flex",
        "api": "compute",
        "accelerator_type": "v6e-1",
        "zone": A,
        "tier": "flex_start",
        "max_run_duration": "4h",
        "valid_for": "2h",
    },
    {"name": "wide", "machine_type": "ct6e-standard-4t", "topology": "4x4", "zone": A},
    {
        "name": "new",
        "machine_type": "tpu7x-standard-4t",
        "topology": "2x2x2",
        "zone": "us-central1-c",
    },
]
STEPS = "python train.py --every 10 --steps 20"
FLEET: dict[str, Any] = {
    **{key: value for key, value in PEOPLE.items() if key != "fleet_base_packages"},
    "fleet_disks": [
        {"name": "kept", "size": "10GiB", "slices": ["flex"], "path": "/mnt/kept", "user": USER},
    ],
    "fleet_slices": [{**one, **SHARES} for one in SLICES],
    "fleet_git_identities": [{"user": USER, "name": "Alice", "email": "alice@example.org"}],
    "fleet_shells": [{"user": USER}],
    "fleet_secrets": [
        {"name": "wandb", "user": USER, "preset": "wandb", "values": {"api_key": "k" * 40}}
    ],
    "fleet_venvs": [{"name": "jax", "path": "/opt/venvs/jax", "python": PYTHON, "packages": [JAX]}],
    "fleet_code": [CODE],
    "fleet_runs": [
        trainer(
            name,
            [name],
            "/mnt/kept/flex" if name == "flex" else f"{SHARE}/main/{name}",
            command=STEPS,
            venv="jax",
            env={},
            secrets=["wandb"],
        )
        for name in WORKERS
    ],
}


def test_slices_of_both_apis_train_stay_and_go(fleet: ComputeFleet) -> None:
    fleet.declare(FLEET)
    planned = fleet.play("site.yml", "--check")
    assert f"+ create Compute Engine slice wide (v6e-16, on demand) in {A}" in planned
    assert "+ create node old (v4-16, on demand) in us-central2-b" in planned
    assert fleet.cloud() == {}

    fleet.play("site.yml")
    for name, workers in WORKERS.items():
        hosts = [name] if workers == 1 else [f"{name}-w{index}" for index in range(workers)]

        def over(name: str = name, hosts: list[str] = hosts) -> bool:
            found = {fleet.status(host, name).get("state") for host in hosts}
            assert "failed" not in found, fleet.log(hosts[0], name)
            return found == {"succeeded"}

        wait_until(f"the end of {name}", over, 240)
        # All workers made the same steps, each with the same loss: it was one job.
        losses = {tuple(re.findall(r"step (\d+ loss \S+)", fleet.log(h, name))) for h in hosts}
        assert len(losses) == 1
        assert len(losses.pop()) == 20

    again = fleet.play("site.yml")
    assert {changed for changed, *_bad in changes(again).values()} == {0}, what_changed(again)
    fleet.play("tpu.fleet.teardown", "-e", "teardown=all")
    assert fleet.cloud() == {}
    assert not any(fleet.there(kind) for kind in KINDS)
    assert list(fleet.there("disks")) == ["kept"]
