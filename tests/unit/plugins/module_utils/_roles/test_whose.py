"""No user runs what another can change: runs, notebooks, boards, Ray, what is installed."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._roles.rules_by_role import ROLE_RULES
from ansible_collections.tpu.fleet.plugins.module_utils._schema.keys import UNREADABLE

FLEET: dict[str, Any] = {
    "fleet_slices": [{"name": "pair"}],
    "fleet_ssh_user": "ubuntu",
    "fleet_users": [
        {"name": "alice", "uid": 2001},
        {"name": "bob", "uid": 2002, "home": "/srv/bob"},
    ],
    "fleet_venvs": [
        {"name": "roots", "path": "/opt/venvs/roots"},
        {"name": "alices", "path": "/opt/alices", "user": "alice"},
        {"name": "hidden", "path": "/opt/hidden", "user": UNREADABLE},
    ],
    "fleet_code": [
        {"name": "tool", "user": "root", "local_path": "/x", "path": "/opt/tool"},
        {"name": "toy", "user": "alice", "local_path": "/x", "path": "/opt/code/toy"},
    ],
}


def refused(**data: Any) -> list[str]:
    """Return the fields that are refused for this reason."""
    found = [problem for rule in ROLE_RULES.values() for problem in rule({**FLEET, **data})]
    ours = [problem for problem in found if "can change at any time" in problem.message]
    assert all("alice" in p.message or "bob" in p.message for p in ours)
    assert all("Let root own it, or let" in problem.remedy for problem in ours)
    return [problem.field for problem in ours]


# What runs code: a user, an environment and a tree, with the fields for the two.
def run(user: str, venv: str, code: str) -> tuple[dict[str, Any], str, str]:
    entry = {"name": "r", "command": "x", "user": user, "venv": venv, "code": code}
    where = "fleet_runs[0]"
    return {"fleet_runs": [entry]}, f"{where}.venv", f"{where}.code"


def notebook(user: str, venv: str, _code: str) -> tuple[dict[str, Any], str, str]:
    entry = {"name": "n", "user": user, "venv": venv, "port": 8888}
    return {"fleet_notebooks": [entry]}, "fleet_notebooks[0].venv", ""


def kernel(user: str, venv: str, _code: str) -> tuple[dict[str, Any], str, str]:
    entry = {"name": "n", "user": user, "kernels": [venv], "port": 8888}
    return {"fleet_notebooks": [entry]}, "fleet_notebooks[0].kernels[0]", ""


def board(user: str, venv: str, _code: str) -> tuple[dict[str, Any], str, str]:
    entry = {"name": "b", "user": user, "venv": venv, "port": 6006, "logs": {"x": "/x"}}
    return {"fleet_boards": [entry]}, "fleet_boards[0].venv", ""


def ray(user: str, venv: str, _code: str) -> tuple[dict[str, Any], str, str]:
    data = {"fleet_ray_head": "pair-w0", "fleet_ray_user": user, "fleet_ray_venv": venv}
    return data, "fleet_ray_venv", ""


RUNNERS = [run, notebook, kernel, board, ray]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize(
    ("user", "venv", "is_refused"),
    [
        ("root", "alices", True),
        ("bob", "alices", True),
        ("ubuntu", "alices", True),
        ("alice", "alices", False),
        ("root", "roots", False),
        ("bob", "roots", False),
        # By path: of an environment, in a home, and where the fleet file does not tell.
        ("root", "/opt/alices", True),
        ("root", "/home/alice/env", True),
        ("alice", "/srv/bob/env", True),
        ("bob", "/srv/bob/env", False),
        ("bob", "/opt/venvs/roots", False),
        ("root", "/opt/elsewhere", False),
        ("root", "/home/alicette/env", False),
        ("root", "hidden", False),
    ],
)
def test_environments(runner: Any, user: str, venv: str, is_refused: bool) -> None:
    data, field, _code = runner(user, venv, "")
    assert refused(**data) == ([field] if is_refused else [])


@pytest.mark.parametrize(
    ("user", "code", "is_refused"),
    [
        ("root", "toy", True),
        ("bob", "toy", True),
        ("alice", "toy", False),
        ("bob", "tool", False),
        ("root", "/opt/code/toy/sub", True),
        ("root", "/opt/tool", False),
        ("root", "/home/alice/code", True),
    ],
)
def test_code(user: str, code: str, is_refused: bool) -> None:
    data, _venv, field = run(user, "roots", code)
    assert refused(**data) == ([field] if is_refused else [])


@pytest.mark.parametrize(
    ("owner", "more", "fields"),
    [
        ("root", {"editable": ["toy"]}, [".editable[0]"]),
        ("root", {"editable": ["toy[tpu]", "/opt/code/toy[x]"]}, [".editable[0]", ".editable[1]"]),
        ("bob", {"editable": ["tool", "toy/sub"]}, [".editable[1]"]),
        ("root", {"requirements": "toy/requirements.txt"}, [".requirements"]),
        ("root", {"requirements": "/home/alice/requirements.txt"}, [".requirements"]),
        ("alice", {"editable": ["toy", "tool"], "requirements": "toy/requirements.txt"}, []),
        ("root", {"editable": ["tool"], "requirements": "tool/requirements.txt"}, []),
    ],
)
def test_what_is_installed_into_an_environment(
    owner: str, more: dict[str, Any], fields: list[str]
) -> None:
    venvs = [*FLEET["fleet_venvs"], {"name": "new", "path": "/opt/n", "user": owner, **more}]
    assert refused(fleet_venvs=venvs) == [f"fleet_venvs[3]{field}" for field in fields]


@pytest.mark.parametrize(
    ("user", "logs", "more", "owner"),
    [
        ("bob", "/home/alice/logs", {}, "alice"),
        ("alice", "/srv/bob", {}, "bob"),
        ("bob", "/srv/bob/logs", {}, ""),
        ("root", "/home/alice/logs", {}, ""),
        ("bob", "/home/alicette/logs", {}, ""),
        ("bob", "/mnt/logs", {}, ""),
        ("bob", "/var/lib/tpu-fleet/checkpoints/r", {}, "alice"),
        ("alice", "/var/lib/tpu-fleet/checkpoints/r/logs", {}, ""),
        ("bob", "/var/lib/tpu-fleet/checkpoints/other", {}, ""),
        # What is declared lets others in.
        ("bob", "/home/alice/logs", {"home_permissions": "0755"}, ""),
        ("bob", "/home/alice/logs", {"home_permissions": "0700"}, "alice"),
        ("bob", "/home/alice/logs", {"groups": ["alice"]}, ""),
    ],
)
def test_a_board_of_one_user_in_a_folder_of_another(
    user: str, logs: str, more: dict[str, Any], owner: str
) -> None:
    alice, bob = FLEET["fleet_users"]
    people = [{**alice, **more}, bob] if "groups" not in more else [alice, {**bob, **more}]
    data = {
        **FLEET,
        "fleet_users": people,
        "fleet_runs": [{"name": "r", "user": "alice", "command": "x"}],
        "fleet_boards": [{"name": "b", "user": user, "port": 6006, "logs": {"x": logs}}],
    }
    found = [p for p in ROLE_RULES["tensorboard_server"](data) if "does not get" in p.message]
    assert len(found) == bool(owner)
    assert all(f"is in a folder of {owner}" in problem.message for problem in found)
