"""What the fleet file may not say of the Ray cluster."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.ray_cluster.rules import (
    check_ray_cluster,
)

FLEET: dict[str, Any] = {
    "fleet_slices": [{"name": "solo"}, {"name": "pair"}],
    "fleet_users": [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}],
    "fleet_venvs": [{"name": "jax", "path": "/opt/venvs/jax"}],
    "fleet_secrets": [{"name": "wandb", "user": "bob"}],
    "fleet_ray_head": "pair-w0",
    "fleet_ray_user": "alice",
}


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"head": "pear-w0"}, "head", "Did you mean pair-w0"),
        ({"head": "pair-x"}, "head", "is not a worker"),
        ({"slices": ["solo"]}, "head", "is not a worker"),
        ({"user": ""}, "user", "is missing"),
        ({"user": "alcie"}, "user", "Did you mean alice"),
        ({"slices": ["pair", "pear"]}, "slices[1]", "Did you mean pair"),
        ({"venv": "jaxx"}, "venv", "Did you mean jax"),
        ({"secrets": ["wandb"]}, "secrets[0]", "belongs to bob"),
        ({"port": 80}, "port", "1024"),
        ({"worker_ports": "20600"}, "worker_ports", "the first and the last"),
        ({"worker_ports": "20600-20605"}, "worker_ports", "at least ten"),
        ({"object_store_size": "74MiB"}, "object_store_size", "75MiB"),
        ({"chips": -1}, "chips", "Use 0 or more"),
        ({"state_dir": "ray"}, "state_dir", "not a whole path"),
    ],
)
def test_a_wrong_cluster(change: dict[str, Any], field: str, words: str) -> None:
    data = {**FLEET, **{f"fleet_ray_{key}": value for key, value in change.items()}}
    problems = check_ray_cluster(data)
    assert [problem.field for problem in problems] == [f"fleet_ray_{field}"]
    assert words in str(problems[0])


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"head": ""},
        {"head": "solo", "slices": ["solo"]},
        {"venv": "/opt/ray", "memory_max": "50%", "worker_ports": "20600-20999"},
    ],
)
def test_a_right_cluster(change: dict[str, Any]) -> None:
    data = {**FLEET, **{f"fleet_ray_{key}": value for key, value in change.items()}}
    assert check_ray_cluster(data) == []
