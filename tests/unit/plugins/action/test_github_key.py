"""What the module github_key gets of the fleet, and what it does not."""

from __future__ import annotations

from typing import Any
from unittest import mock

from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar
from ansible_collections.tpu.fleet.plugins.action import github_key

KNOWN: dict[str, dict[str, Any]] = {
    "pair-w0": {"tpu_vm_name": "pair", "fleet_git_users": {"answer": {"alice": {}}}},
    "pair-w1": {"tpu_vm_name": "pair", "fleet_git_users": {"failed": True}},
    "pair-w2": {"tpu_vm_name": "pair"},
}
VARIABLES: dict[str, Any] = {
    "fleet_slices": [{"name": "pair", "zone": "z"}],
    "fleet_state_dir": "/state",
    "fleet_project": "p",
    "fleet_github_token": "",
    "fleet_git_keys": [{"name": "work", "users": ["alice"], "private_key": "hush"}],
    "fleet_users": [{"name": "alice", "slices": ["pair"], "password": "hush"}],
    "groups": {"tpu": [*KNOWN]},
    "hostvars": mock.Mock(raw_get=KNOWN.get),
}


def told(**arguments: Any) -> dict[str, Any]:
    """Return the options with which the module is run."""
    task = Task()
    task.action, task.args = "tpu.fleet.github_key", arguments
    action = github_key.ActionModule(
        task=task,
        connection=mock.Mock(transport="local"),
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader(), variables=VARIABLES),
        shared_loader_obj=None,
    )
    with mock.patch.object(action, "_execute_module", lambda **said: said["module_args"]):
        result: dict[str, Any] = action.run(task_vars=VARIABLES)
    return result


def test_it_is_told_of_the_fleet_and_of_no_secret() -> None:
    options = told()
    assert "hush" not in str(options)
    assert options["fleet"] == "managed p"
    assert options["keys"] == [{"name": "work", "users": ["alice"]}]
    assert options["people"] == [{"name": "alice", "slices": ["pair"]}]
    assert options["hosts"] == [{"host": "pair-w0", "slice": "pair", "users": {"alice": {}}}]
    assert (options["slices"], options["record"]) == (["pair"], "/state/github_keys.json")
    assert "token" not in options, "the module looks into the environment"


def test_what_the_task_says_comes_first() -> None:
    options = told(slices=[], hosts=[], state="ready")
    assert (options["slices"], options["hosts"], options["state"]) == ([], [], "ready")
