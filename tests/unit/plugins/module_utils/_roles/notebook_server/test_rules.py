"""What the fleet file may not say of notebooks and boards."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.notebook_server.rules import (
    check_notebook_server,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.tensorboard_server.rules import (
    check_tensorboard_server,
)

FLEET: dict[str, Any] = {
    "fleet_slices": [{"name": "solo"}, {"name": "pair"}],
    "fleet_users": [{"name": "alice", "uid": 2001}, {"name": "bob", "uid": 2002}],
    "fleet_venvs": [
        {"name": "jax", "path": "/opt/venvs/jax", "packages": ["ipykernel"]},
    ],
    "fleet_secrets": [{"name": "wandb", "user": "alice"}],
}
NOTEBOOK = {"name": "a", "user": "alice", "port": 8888}
BOARD = {"name": "b", "user": "alice", "port": 6006, "logs": {"run": "/home/alice/logs"}}


def notebooks(*entries: dict[str, Any]) -> dict[str, Any]:
    return {**FLEET, "fleet_notebooks": [{**NOTEBOOK, **entry} for entry in entries]}


def boards(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        **FLEET,
        "fleet_boards": [{**BOARD, **entry} for entry in entries],
        **more,
    }


@pytest.mark.parametrize(
    ("entries", "field", "words"),
    [
        ([{"name": "A b"}], "[0].name", "not a name for a service"),
        ([{"name": "n" * 34}], "[0].name", "longer than 33 characters"),
        ([{}, {"port": 8889}], "[1].name", "used twice"),
        ([{"user": "alcie"}], "[0].user", "Did you mean alice"),
        ([{"slices": ["pear"]}], "[0].slices[0]", "Did you mean pair"),
        ([{"venv": "jaxx"}], "[0].venv", "Did you mean jax"),
        ([{"kernels": ["jax", "jaxx"]}], "[0].kernels[1]", "Did you mean jax"),
        ([{"port": 80}], "[0].port", "1024 to 65535"),
        ([{}, {"name": "b"}], "[1].port", "is the port of fleet_notebooks[0]"),
        (
            [{"slices": ["solo", "pair"]}, {"name": "b", "slices": ["pair"]}],
            "[1].port",
            "on the same host",
        ),
        ([{"path": "notebooks"}], "[0].path", "not a whole path"),
        ([{"env": {"A-B": "1"}}], "[0].env.A-B", "not the name"),
        ([{"token": "secret"}], "[0].token", "JUPYTER_TOKEN"),
        ([{"secrets": ["wandbb"]}], "[0].secrets[0]", "Did you mean wandb"),
        ([{"user": "bob", "secrets": ["wandb"]}], "[0].secrets[0]", "belongs to alice"),
    ],
)
def test_a_wrong_notebook(entries: list[dict[str, Any]], field: str, words: str) -> None:
    problems = check_notebook_server(notebooks(*entries))
    assert [problem.field for problem in problems] == [f"fleet_notebooks{field}"]
    assert words in str(problems[0])


@pytest.mark.parametrize(
    ("venv", "usable"),
    [
        ({"framework": "jax"}, False),
        ({"packages": ["flax==0.10", "optax"]}, False),
        ({"packages": ["flax", "ipykernel==7.4.0"]}, True),
        ({"packages": ["jupyterlab"]}, True),
        ({"packages": ["spyder-kernels"]}, True),
        # What these install is known on the machine only.
        ({"requirements": "toy/requirements.txt"}, True),
        ({"editable": ["toy"]}, True),
        ({"packages": ["-r /srv/requirements.txt"]}, True),
        ({"packages": ["toy @ git+https://example.com/toy"]}, True),
        ({"packages": ["{{ mine }}"]}, True),
        ({"path": "/opt/tpu-fleet/venvs/notebook_server", "framework": "jax"}, True),
    ],
)
def test_a_kernel_needs_ipykernel(venv: dict[str, Any], usable: bool) -> None:
    data = notebooks({"kernels": ["lab"]})
    data["fleet_venvs"] = [{"name": "lab", "path": "/opt/venvs/lab", **venv}]
    problems = [str(problem) for problem in check_notebook_server(data)]
    assert problems == (
        []
        if usable
        else [
            "fleet_notebooks[0].kernels[0] = 'lab': has no ipykernel, without which a "
            "notebook cannot use it. Add ipykernel to fleet_venvs[0].packages."
        ]
    )


def test_right_notebooks() -> None:
    entries: list[dict[str, Any]] = [
        {"slices": ["solo"], "kernels": ["jax"], "venv": "/opt/venvs/lab", "memory_max": "8GiB"},
        {"name": "b", "slices": ["pair"]},
        {"name": "c", "slices": ["pair"], "worker": 1},
        {"name": "d", "port": 8889, "token": "secret", "secrets": ["wandb"], "memory_max": "25%"},
    ]
    assert check_notebook_server(notebooks(*entries)) == []


@pytest.mark.parametrize(
    ("data", "field", "words"),
    [
        (boards({"logs": {}}), "[0].logs", "is empty"),
        (boards({"logs": {"run": "logs"}}), "[0].logs.run", "not a folder or bucket"),
        (boards({"logs": {"run": "/a,b"}}), "[0].logs.run", "comma"),
        (boards({"logs": {"a:b": "/a"}}), "[0].logs.a:b", "colon"),
        (
            boards({"port": 8888}, fleet_notebooks=[NOTEBOOK]),
            "[0].port",
            "is the port of fleet_notebooks[0]",
        ),
    ],
)
def test_a_wrong_board(data: dict[str, Any], field: str, words: str) -> None:
    problems = check_tensorboard_server(data)
    assert [problem.field for problem in problems] == [f"fleet_boards{field}"]
    assert words in str(problems[0])


def test_right_boards() -> None:
    logs = {"run": "/home/alice/logs", "all": "gs://bucket/logs"}
    assert check_tensorboard_server(boards({"logs": logs}, {"name": "c", "port": 6007})) == []
