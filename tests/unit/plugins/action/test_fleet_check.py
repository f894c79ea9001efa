"""The check as Ansible runs it."""

from __future__ import annotations

import re
from typing import Any
from unittest import mock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible_collections.tpu.fleet.plugins.action import fleet_check
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.refused import Refused
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet import check as check_variables


def run(known: str = "", **variables: Any) -> dict[str, Any]:
    task = Task()
    task.action, task.args = "tpu.fleet.fleet_check", {"known": known}
    connection = mock.Mock(transport="local")
    action = fleet_check.ActionModule(
        task=task,
        connection=connection,
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader(), variables=variables),
        shared_loader_obj=None,
    )
    try:
        result: dict[str, Any] = action.run(task_vars=variables)
    except Refused as error:
        result = {**error.result, "failed": True}
    assert not connection.exec_command.called
    return result


def fields(result: dict[str, Any]) -> list[str]:
    """Return the fields with problems."""
    lines = result.get("msg", "").splitlines()[1:]
    return [re.split(r" = |: ", line.strip())[0] for line in lines]


SOLO = {"name": "solo", "accelerator_type": "v4-8", "zone": "us-central2-b"}


@pytest.fixture(autouse=True)
def _facts_are_no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_check, "facts_are_variables", lambda: False)


def test_workers_must_not_set_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet_check, "facts_are_variables", lambda: True)
    result = run(fleet_slices=[SOLO], fleet_allocations="unrestricted")
    assert result["failed"]
    assert "inject_facts_as_vars" in result["msg"]
    assert "ANSIBLE_INJECT_FACT_VARS=false" in result["msg"]


def test_a_good_file_passes() -> None:
    result = run(fleet_slices=[SOLO], fleet_allocations="unrestricted")
    assert fields(result) == []
    assert not result.get("failed")
    assert not result["changed"]


def test_what_was_right_and_is_the_same_is_not_checked_again() -> None:
    good: dict[str, Any] = {"fleet_slices": [SOLO], "fleet_allocations": "unrestricted"}
    first = run(**good)
    with mock.patch.object(check_variables, "check_fleet_file") as check:
        again = run(first["digest"], **good, fleet_checked=first)
        assert not check.called
    assert again["digest"] == first["digest"]
    assert run(first["digest"], **good, fleet_slcies=[])["failed"]
    assert run(first["digest"], **{**good, "fleet_slices": [SOLO, SOLO]})["failed"]
    nowhere = trust_as_template("{{ nowhere }}")
    assert run(first["digest"], **good, fleet_zone=nowhere)["failed"]


def test_what_is_in_buckets_is_said_also_by_a_check_that_knows_the_file() -> None:
    given: dict[str, Any] = {"fleet_slices": [SOLO], "fleet_allocations": "unrestricted"}
    assert not run(**given)["in_buckets"]
    board = {"name": "losses", "user": "alice", "port": 6006, "slices": ["solo"]}
    board |= {"logs": {"all": "gs://lab/digits"}}
    given |= {"fleet_users": [{"name": "alice", "uid": 2001}], "fleet_boards": [board]}
    first = run(**given)
    assert first["in_buckets"], first
    assert run(first["digest"], **given)["in_buckets"]


def test_a_wrong_file_is_never_a_known_one() -> None:
    assert "digest" not in run(fleet_slices=[SOLO, SOLO], fleet_allocations="unrestricted")


def test_all_problems_of_a_bad_file_are_told() -> None:
    twice = {**SOLO, "accelerator_type": "v4-9"}
    result = run(
        fleet_slices=[twice, twice],
        fleet_allocations="unrestricted",
        fleet_users="alice",
        fleet_slcies=[],
    )
    assert result["failed"]
    assert fields(result) == [
        "fleet_users",
        "fleet_slices[1].name",
        "fleet_slices[0].accelerator_type",
        "fleet_slices[1].accelerator_type",
        "fleet_slcies",
    ]
    assert "Did you mean fleet_slices?" in result["msg"]


def test_references_are_followed_and_those_to_nothing_are_told() -> None:
    zone = trust_as_template("{{ home }}")
    nowhere = trust_as_template("{{ nowhere }}")
    slices = {"fleet_slices": [{**SOLO, "zone": zone}], "fleet_allocations": "unrestricted"}
    assert run(home="us-central2-b", **slices).get("failed") is None
    result = run(home="us-central2-b", **slices, fleet_zone=nowhere)
    assert fields(result) == ["fleet_zone"]
    assert "nowhere" in result["msg"]


def test_what_only_a_worker_has_is_left_to_the_role() -> None:
    index = trust_as_template("{{ tpu_vm_worker_index }}")
    assert run(training_run_worker_index=index).get("failed") is None


@pytest.mark.parametrize("user", ["root", "nobody-knows"])
def test_the_environment_of_a_run_is_not_shown(user: str) -> None:
    entry = {"name": "r", "slices": [], "user": user, "command": "x", "env": {"TOKEN": "hush"}}
    assert "hush" not in str(run(fleet_runs=[entry]))


def test_a_grant_that_is_over_is_a_warning() -> None:
    entry = {"zone": "us-central2-b", "generation": "v4", "tier": "spot", "chips": 4}
    with mock.patch.object(fleet_check.display, "warning") as told:
        result = run(fleet_allocations=[{**entry, "ends": "2020-01-01"}, entry])
    assert not result.get("failed")
    assert "until 2020-01-01" in told.call_args.args[0]


def test_old_names_are_refused_all_at_once_with_the_new_ones() -> None:
    result = run(
        fleet_slices=[SOLO],
        fleet_allocations="unrestricted",
        training_run_runs=[],
        user_accounts_users=[{"name": "Über"}],
        python_env_index_credentials=[{"password": "hush"}],
    )
    assert result["failed"]
    assert result["msg"].splitlines()[1:] == [
        f"  {old}: is no variable of the fleet file. Rename it to {new}."
        for old, new in (
            ("user_accounts_users", "fleet_users"),
            ("python_env_index_credentials", "fleet_index_credentials"),
            ("training_run_runs", "fleet_runs"),
        )
    ]


def test_what_playbooks_take_on_the_command_line_is_no_misspelling() -> None:
    assert not run(fleet_slices=[SOLO], fleet_allocations="unrestricted", fleet_run="x").get(
        "failed"
    )
