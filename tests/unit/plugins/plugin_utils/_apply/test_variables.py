"""What is sent to hosts that apply themselves, and what each role has to do with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply import bundle as apply_bundle
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.variables import (
    controllers_own,
    is_for_the_controller,
    uses_of,
)
from ansible_collections.tpu.fleet.plugins.plugin_utils._apply.wish import after_of


@pytest.mark.parametrize(
    ("value", "here"),
    [
        ("plain", False),
        ("a lookup without a template", False),
        ("{{ tpu_vm_name }}", False),
        ("{{ lookup('ansible.builtin.env', 'TOKEN') }}", True),
        ({"deep": [{"key": "{{ hostvars['solo'].tpu_vm_internal_ip }}"}]}, True),
        ({"{{ groups.tpu }}": 1}, True),
        ("{{ my_lookups }}", False),
        ("{% for host in groups['tpu'] %}{% endfor %}", True),
        (None, False),
        (7, False),
    ],
)
def test_who_evaluates(value: Any, here: bool) -> None:
    assert is_for_the_controller(value) is here


def test_what_is_made_of_the_controllers_is_the_controllers() -> None:
    variables = {
        "token": "{{ lookup('ansible.builtin.env', 'TOKEN') }}",
        "sets": [{"value": "{{ token }}"}],
        "more": "{{ sets | length }}",
        "name": "{{ tpu_vm_name }}",
        "plain": "token",
    }
    assert controllers_own(variables) == {"token", "sets", "more"}


def test_a_role_has_to_do_with_what_it_names_and_what_that_is_made_of(tmp_path: Path) -> None:
    for role, text in (("one", "a: '{{ one_list }}'"), ("two", "b: two_text")):
        (tmp_path / role / "tasks").mkdir(parents=True)
        (tmp_path / role / "tasks" / "main.yml").write_text(text)
    variables = {
        "one_list": ["{{ shared }}"],
        "shared": "{{ deeper }}",
        "deeper": 1,
        "two_text": "x",
        "unused": 1,
    }
    assert uses_of(tmp_path, ["one", "two"], variables) == {
        "one": ["deeper", "one_list", "shared"],
        "two": ["two_text"],
    }


def test_where_a_controller_keeps_its_state_changes_no_machine() -> None:
    """Two computers that apply have two folders; what they make of them is what counts."""
    variables = {
        "fleet_state_dir": "/home/alice/state",
        "training_run_keys": "{{ lookup('password', fleet_state_dir ~ '/gang_secret') }}",
    }
    for role in ("training_run", "code_checkout", "ray_cluster"):
        uses = uses_of(apply_bundle.ROOT / "roles", [role], variables)
        assert "fleet_state_dir" not in uses[role]
    # A machine that evaluates a template with it needs it.
    variables["training_run_runs"] = [{"env": {"STATE": "{{ fleet_state_dir }}"}}]
    uses = uses_of(apply_bundle.ROOT / "roles", ["training_run"], variables)
    assert "fleet_state_dir" in uses["training_run"]


def test_roles_of_the_collection() -> None:
    """People concern what they log in to; a run concerns no other role."""
    variables: dict[str, Any] = {
        "fleet_users": [],
        "fleet_runs": [],
        "fleet_venvs": [],
        "tpu_vm_slice_hosts": [],
    }
    order = ["host_base", "user_accounts", "python_env", "notebook_server", "training_run"]
    uses = uses_of(apply_bundle.ROOT / "roles", order, variables)
    assert "fleet_runs" in uses["training_run"]
    assert "fleet_runs" not in uses["user_accounts"]
    assert {"fleet_venvs", "fleet_users"} & set(uses["host_base"]) == set()
    # It runs in a venv that another role makes.
    assert "fleet_venvs" in uses["notebook_server"]
    assert "tpu_vm_slice_hosts" in uses["training_run"]


@pytest.mark.parametrize(
    ("role", "code", "declared"),
    [
        ("python_env", "fleet_code", "fleet_venvs"),
        ("training_run", "fleet_code", "fleet_runs"),
        ("training_run", "code_checkout_trees", "training_run_runs"),
    ],
)
def test_what_is_made_of_code_is_applied_after_the_code(
    role: str, code: str, declared: str
) -> None:
    """Another version of a tree is another definition of a run, and other requirements."""
    order = ["user_accounts", "code_checkout", role]
    variables: dict[str, Any] = {code: [], declared: []}
    uses = uses_of(apply_bundle.ROOT / "roles", order, variables)
    assert after_of(order, uses) == {role: ["code_checkout"]}


def test_bundles_are_the_same_for_the_same_content(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        root = tmp_path / folder
        (root / "roles" / "r" / "tasks").mkdir(parents=True)
        (root / "roles" / "r" / "tasks" / "main.yml").write_text("- debug:\n")
        (root / "roles" / "r" / "README.md").write_text(folder)
        (root / "galaxy.yml").write_text("version: 1\n")
    packed = [apply_bundle.collection(tmp_path / name) for name in ("one", "two")]
    assert packed[0] == packed[1]
    (tmp_path / "two" / "galaxy.yml").write_text("version: 2\n")
    apply_bundle.collection.cache_clear()
    assert apply_bundle.collection(tmp_path / "two") != packed[0]
