"""A role that is applied checks what is declared for it, by the rules of the fleet file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.work import (
    CHECK_LATER,
    CHECKS,
)
from ansible_collections.tpu.fleet.plugins.module_utils._roles.rules_by_role import ROLE_RULES
from ansible_collections.tpu.fleet.plugins.module_utils._schema.names import (
    FLEET_NAMES,
    in_fleet_file,
    renamed,
)
from role_templates import ROLES, expression, filled, read, variables_of

HEAD = {
    "ray_cluster_head": "pair-w0",
    "ray_cluster_user": "ray",
    "ray_cluster_head_address": "10.0.0.2",
}
DISK = {"name": "d", "path": "/mnt/d"}
KEY = {"name": "k", "users": ["alice"]}
VENV = {"name": "jax", "path": "/opt/venvs/jax"}
NOTEBOOK = {"name": "n", "user": "alice", "port": 8888}
RUN = {"name": "r", "slices": ["pair"], "user": "alice", "command": "c"}


def task(role: str, name: str) -> dict[str, Any]:
    """Return a task of the role, whichever of its files it is in."""
    files = (ROLES / role / "tasks").glob("*.yml")
    return next(
        found
        for file in files
        for found in read(file)
        if found["name"] == name and "ansible.builtin.assert" in found
    )


def problems(role: str, variables: dict[str, Any]) -> str:
    """Return what the role refuses to go on with; nothing, when it goes on."""
    check = task(role, "Check what is declared")
    known = {**variables_of(role, variables), **check["vars"]}
    if not expression(check.get("when", True), known):
        return ""
    arguments = check["ansible.builtin.assert"]
    told = str(filled(arguments["fail_msg"], known))
    assert expression(arguments["that"], known) is (told == "")
    return told


@pytest.mark.parametrize("role", sorted(set(ROLE_RULES) - CHECK_LATER))
def test_a_machine_that_applies_roles_to_itself_checks_them_all_by_one_task(role: str) -> None:
    assert CHECKS in task(role, "Check what is declared")["tags"]


def test_what_the_one_task_leaves_out_checks_itself() -> None:
    tasks = [found for role in CHECK_LATER for found in read(ROLES / role / "tasks" / "main.yml")]
    assert not any(CHECKS in found.get("tags", ()) for found in tasks)


@pytest.mark.parametrize("role", sorted(set(ROLE_RULES) - {"code_checkout"}))
def test_defaults_have_no_problems(role: str) -> None:
    assert problems(role, {}) == ""


@pytest.mark.parametrize(
    ("role", "variables"),
    [
        ("ray_cluster", HEAD),
        # What only the rest of the fleet file could tell is left to it.
        ("training_run", {"training_run_runs": [{**RUN, "code": "tree", "secrets": ["set"]}]}),
        ("python_env", {"python_env_venvs": [{**VENV, "user": "bob", "editable": ["tree"]}]}),
        ("notebook_server", {"notebook_server_notebooks": [{**NOTEBOOK, "slices": ["any"]}]}),
        (
            "notebook_server",
            {
                "notebook_server_notebooks": [{**NOTEBOOK, "venv": "jax", "kernels": ["jax"]}],
                "notebook_server_venvs": [{**VENV, "packages": ["ipykernel"]}],
            },
        ),
        ("data_disk", {"data_disk_disks": [{**DISK, "slices": [s]} for s in "ab"]}),
        ("git_access", {"git_access_keys": [KEY], "git_access_identities": [{"user": "root"}]}),
    ],
)
def test_what_is_right_is_not_refused(role: str, variables: dict[str, Any]) -> None:
    assert problems(role, variables) == ""


@pytest.mark.parametrize(
    ("role", "variables", "says"),
    [
        (role, {key: value for key, value in entry.items() if key != "says"}, entry["says"])
        for role, refused in read(Path(__file__).with_name("refused.yml")).items()
        for entry in refused
    ],
)
def test_what_is_wrong_is_told_with_field_value_and_remedy(
    role: str, variables: dict[str, Any], says: str
) -> None:
    told = problems(role, variables)
    assert says in told
    assert told.endswith((".", "?"))


@pytest.mark.parametrize(
    ("role", "variables", "says"),
    [
        (role, {key: value for key, value in entry.items() if key != "says"}, entry["says"])
        for role, refused in read(Path(__file__).with_name("refused.yml")).items()
        for entry in refused
    ],
)
def test_what_is_wrong_in_the_fleet_file_is_told_by_its_names(
    role: str, variables: dict[str, Any], says: str
) -> None:
    told = problems(role, in_fleet_file(variables))
    own = problems(role, variables)
    assert told == renamed(own, FLEET_NAMES)
    assert len(told) >= len(says)


def test_secrets_are_not_shown() -> None:
    entries = [{**RUN, "name": "no name", "env": {"KEY": "hush-hush", "bad key": "hush-hush"}}]
    told = problems("training_run", {"training_run_runs": entries})
    assert "env.bad key" in told
    assert "hush" not in told
