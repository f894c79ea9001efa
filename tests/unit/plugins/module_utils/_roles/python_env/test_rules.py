"""What is wrong with venvs in a fleet file."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env.rules import (
    check_python_env,
)

FLEET: dict[str, Any] = {
    "fleet_slices": [{"name": "solo"}],
    "fleet_users": [{"name": "alice"}],
    "fleet_code": [{"name": "models"}],
}


def venv(**changes: Any) -> dict[str, Any]:
    return {"name": "a", "path": "/opt/venvs/a", **changes}


@pytest.mark.parametrize(
    ("entry", "field", "words"),
    [
        ({"path": "venv"}, "path", "Begin it with /"),
        ({"user": "alise"}, "user", "Did you mean alice?"),
        ({"slices": ["sola"]}, "slices[0]", "Did you mean solo?"),
        ({"requirements": "model/requirements.txt"}, "requirements", "Did you mean models?"),
        ({"editable": ["/code", "nomodel[dev]"]}, "editable[1]", "is not a tree"),
        ({"python": "latest"}, "python", "quotation marks"),
        ({"framework": "jax", "framework_version": "new"}, "framework_version", "like 0.12.0.1"),
        ({"framework": "jax", "python": "3.10"}, "python", "framework_version 0.6.2"),
        ({"framework": "torch_xla", "packages": ["torch==2.13.0"]}, "packages", "torch 2.9.0"),
    ],
)
def test_one_wrong_key(entry: dict[str, Any], field: str, words: str) -> None:
    data = {**FLEET, "fleet_venvs": [venv(**entry)]}
    (problem,) = check_python_env(data)
    assert problem.field == f"fleet_venvs[0].{field}"
    assert words in str(problem)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"fleet_queue": {}}, "there is no fleet_queue. Declare it, or leave it out"),
        ({"fleet_apply": "push"}, "apply roles to themselves, and fleet_apply is push"),
        ({"fleet_runs": [{"name": "x", "venv": "a"}]}, "too late for fleet_runs[0].venv"),
        ({"fleet_notebooks": [{"kernels": ["b", "a"]}]}, "late for fleet_notebooks[0].kernels[1]"),
        ({"fleet_boards": [{"venv": "a"}]}, "too late for fleet_boards[0].venv"),
        ({"fleet_ray_venv": "a"}, "comes too late for fleet_ray_venv. Name another venv there"),
    ],
)
def test_one_that_is_built_on_need_is_for_submitted_runs(more: dict[str, Any], words: str) -> None:
    venvs = [venv(on_need=True), {"name": "b", "path": "/opt/venvs/b"}]
    data = {**FLEET, "fleet_venvs": venvs, "fleet_queue": {"bucket": "gs://lab/queue"}}
    assert check_python_env(data) == []
    (problem,) = check_python_env({**data, **more})
    assert problem.field == "fleet_venvs[0].on_need"
    assert words in str(problem)


def test_defaults_of_the_fleet_count() -> None:
    data = {**FLEET, "fleet_venvs": [venv(framework="jax")]}
    assert check_python_env(data) == []
    assert check_python_env({**data, "fleet_jax_version": "0.7.0", "fleet_python": "3.14"})
    fits = {"fleet_jax_version": "0.11.0", "fleet_python": 3.12}
    assert check_python_env({**data, **fits}) == []


def test_conda_has_to_come_from_somewhere() -> None:
    data = {**FLEET, "fleet_venvs": [venv()], "fleet_python_source": "conda"}
    (problem,) = check_python_env(data)
    assert (problem.field, problem.value) == ("fleet_python_source", "conda")
    assert "startup_script of the slices and set fleet_conda to it" in problem.remedy
    assert check_python_env({**data, "fleet_conda": "/opt/conda/bin/conda"}) == []


def test_what_is_right_is_not_reported() -> None:
    entry = venv(
        user="alice",
        slices=["solo"],
        requirements="models/requirements.txt",
        editable=["models[dev]", "/code"],
        activate_for=["alice"],
    )
    for_all = venv(name="b", path="/opt/venvs/b", activate_for=["*", "root"])
    assert check_python_env({**FLEET, "fleet_venvs": [entry, for_all]}) == []


@pytest.mark.parametrize("user", ["bob", "root", "*"])
def test_nobody_else_begins_in_the_venv_of_a_user(user: str) -> None:
    entry = venv(user="alice", activate_for=["alice", user])
    (problem,) = check_python_env({**FLEET, "fleet_venvs": [entry]})
    assert (problem.field, problem.value) == ("fleet_venvs[0].activate_for[1]", user)
    assert problem.remedy == "Name alice only, or let root own the venv"


def test_a_user_begins_in_one_venv() -> None:
    second = venv(name="b", path="/opt/venvs/b", activate_for=["alice"])
    data = {**FLEET, "fleet_venvs": [venv(activate_for=["alice"]), second]}
    (problem,) = check_python_env(data)
    assert problem.field == "fleet_venvs[1].activate_for[0]"


@pytest.mark.parametrize(
    ("variable", "value", "field"),
    [
        ("fleet_index_url", "https://robot:canary@host/simple", "fleet_index_url"),
        ("fleet_extra_index_urls", ["https://canary@h/"], "fleet_extra_index_urls[0]"),
        ("fleet_build_secret_env", {"A": "canary"}, "fleet_build_secret_env.A"),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_shown(variable: str, value: Any, field: str) -> None:
    (problem,) = check_python_env({variable: value})
    assert problem.field == field
    assert "canary" not in str(problem)


def test_a_shared_cache_has_an_address() -> None:
    shared = {"fleet_shared_cache": "http://10.0.0.2:880"}
    (problem,) = check_python_env(shared)
    assert problem.field == "fleet_shared_cache_clients"
    clients = ["10.128.0.0/9", "10.0.0.7", "10.0.0.1/8", "all", 7]
    named = check_python_env({**shared, "fleet_shared_cache_clients": clients})
    assert [problem.field[-3:] for problem in named] == ["[2]", "[3]", "[4]"]
    assert check_python_env({**shared, "fleet_shared_cache_clients": clients[:2]}) == []
    (problem,) = check_python_env({"fleet_shared_cache": "10.0.0.2"})
    assert "http://10.0.0.2:880" in problem.remedy
