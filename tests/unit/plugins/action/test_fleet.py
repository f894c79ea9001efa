"""What the action plugins take of the fleet file, and which mistakes end there."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible_collections.tpu.fleet.plugins.action import fleet
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.refused import Refused
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.stops import FILE
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.watch_settings import watch_settings

ZONE = "us-central2-b"
SOLO = {"name": "solo", "accelerator_type": "v4-8", "on_finish": "stop"}
RUN = {"name": "digits", "slices": ["solo"], "env": {"TOKEN": "hush"}, "command": "true"}
VARIABLES: dict[str, Any] = {
    "fleet_slices": [{**SOLO, "labels": {"team": trust_as_template("{{ team }}")}}],
    "fleet_zone": ZONE,
    "fleet_allocations": [
        {
            "zone": ZONE,
            "generation": "v4",
            "tier": "on_demand",
            "chips": 4,
            "ends": datetime.date(2027, 3, 31),
        }
    ],
    "fleet_owner": "lab",
    "fleet_prune": "true",
    "fleet_runs": [RUN],
    "team": "vision",
}


class Reached(Exception):
    """The work would begin here."""


def action_of(plugin: Any, arguments: dict[str, Any], variables: dict[str, Any]) -> Any:
    task = Task()
    task.action, task.args, task.check_mode = plugin.__name__, arguments, False
    # What it has to say is said before any connection is there.
    return plugin.ActionModule(
        task=task,
        connection=mock.Mock(transport="ssh"),
        play_context=mock.Mock(),
        loader=DataLoader(),
        templar=Templar(loader=DataLoader(), variables=variables),
        shared_loader_obj=None,
    )


def run(arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
    """Return the options that are carried out, or the failure before anything is."""
    action = action_of(fleet, arguments, variables)
    with mock.patch.object(fleet, "_Work", side_effect=Reached):
        try:
            action.run(task_vars=variables)
        except Refused as refused:
            return {**refused.result, "failed": True}
        except Reached:
            return dict(action.arguments(variables))
    raise AssertionError("the action ended without any work")


def test_the_fleet_file_says_what_the_task_does_not() -> None:
    given = run({"scope": "expiry", "warn_before": "3d"}, VARIABLES)
    assert given["slices"] == [{**SOLO, "labels": {"team": "vision"}}]
    assert (given["zone"], given["owner"], given["prune"]) == (ZONE, "lab", "true")
    assert (given["scope"], given["warn_before"]) == ("expiry", "3d")
    assert given["allocations"] == VARIABLES["fleet_allocations"]
    assert len(given["marks"]["solo"]) == 32
    files = {"rest_file": "/state/rest.json", "lock_file": "/state/fleet.lock"}
    assert files.items() <= run({}, {**VARIABLES, "fleet_state_dir": "/state"}).items()
    assert not files.keys() & given.keys(), "there is no folder for them"
    assert "self_setup" not in given, "what it does not say has the module's default"


def test_a_task_that_names_slices_takes_nothing_of_the_fleet_file() -> None:
    given = {"slices": [{**SOLO, "zone": ZONE}], "allocations": "unrestricted"}
    assert run(given, VARIABLES) == given


def test_without_a_fleet_file_there_are_no_slices() -> None:
    assert run({}, {}) == {"slices": [], "marks": {}}


TWO = [{**SOLO, "name": name, "zone": ZONE} for name in ("one", "two")]


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"fleet_slices": TWO}, "fleet_slices[1] = 'two': is outside of the grant"),
        (
            {"fleet_slices": [{**SOLO, "accelerator_type": "v4-9"}]},
            "fleet_slices[0].accelerator_type = 'v4-9': is not a known accelerator type",
        ),
        ({"fleet_allocations": None}, "fleet_allocations: is missing"),
        ({"fleet_slices": [{**SOLO, "self_setup": True}]}, "Set fleet_self_setup, or leave it out"),
        ({"fleet_zone": None}, "fleet_slices[0].zone: is missing"),
    ],
)
@pytest.mark.parametrize("by_name", [True, False])
def test_mistakes_end_before_the_work(variables: dict[str, Any], words: str, by_name: bool) -> None:
    declared = {**VARIABLES, **variables}
    given = {option: declared[f"fleet_{option}"] for option in ("slices", "allocations", "zone")}
    result = run({}, declared) if by_name else run(given, {})
    assert (result["failed"], result["kind"]) == (True, "bad_request")
    assert words in result["msg"]


def test_who_takes_down_needs_no_grant() -> None:
    given = {"slices": [{**SOLO, "zone": ZONE}], "teardown": ["solo"]}
    assert run(given, {}) == given


def test_the_watcher_is_told_the_same_and_no_secret_of_runs() -> None:
    more = {
        "fleet_project": "p",
        "fleet_state_dir": "/state",
        "fleet_ssh_user": "ubuntu",
        "fleet_ssh_public_key": "ssh-ed25519 AAAA",
        "fleet_shares": [{"slice": "solo", "path": "/data"}],
    }
    variables = {**VARIABLES, **more}
    template = Templar(loader=DataLoader(), variables=variables).template
    settings = watch_settings(variables, template)
    text = json.dumps(settings, default=lambda value: value.isoformat())
    said = json.loads(text)
    assert "hush" not in text
    assert said["runs"] == [{"name": "digits", "slices": ["solo"]}]
    assert said["shares"] == [{"slice": "solo"}]
    assert (said["project"], said["api_endpoint"], said["state_dir"]) == ("p", "", "/state")
    wanted = said["fleet"]
    # As the module has them: with its defaults, and of its types.
    assert (wanted["prune"], wanted["warn_before"], wanted["self_setup"]) == (True, "7d", None)
    assert wanted["allocations"][0]["ends"] == "2027-03-31"
    assert wanted["marks"] == run({}, VARIABLES)["marks"]
    assert wanted["ssh_keys"] == ["ubuntu:ssh-ed25519 AAAA"]


def test_a_plan_starts_no_run_that_is_kept_stopped(tmp_path: Path) -> None:
    runs = [RUN, {**RUN, "name": "words", "slices": ["solo", "pair"]}]
    # Not by the name of the variable, which is declared above.
    [name] = [key for key, value in VARIABLES.items() if value == [RUN]]
    variables = {**VARIABLES, name: runs, "fleet_state_dir": str(tmp_path)}
    action = action_of(fleet, {}, variables)
    assert action._declared_runs(variables) == {"solo": ["digits", "words"], "pair": ["words"]}
    (tmp_path / FILE).write_text(json.dumps({"solo": {"words": "eve@x"}}))
    assert action._declared_runs(variables) == {"solo": ["digits"], "pair": ["words"]}


class HostVars(dict[str, Any]):
    """The variables of hosts, as a task has them."""

    def raw_get(self, host: str) -> Any:
        return self[host]


SEEN = {"name": "solo", "uid": "4711", "workers": [{"host": "solo", "index": 0}]}
HOST = {"tpu_vm_name": "solo", "tpu_vm_uid": "4711", "tpu_vm_worker_index": 0}
AS_IT_WAS = {"settled": True, "slices": [{"phase": "ready", "tpu_vm": SEEN}]}


@pytest.mark.parametrize(
    ("result", "more", "same"),
    [
        (AS_IT_WAS, {}, True),
        # Whoever waits or changes something reads the inventory again.
        ({**AS_IT_WAS, "settled": False}, {}, False),
        (AS_IT_WAS, {"tpu_vm_from_cache": True}, False),
        (AS_IT_WAS, {"groups": {"tpu": []}}, False),
        ({**AS_IT_WAS, "slices": [{"phase": "ended", "tpu_vm": SEEN}]}, {}, False),
        ({**AS_IT_WAS, "slices": [{"phase": "ended", "tpu_vm": {}}]}, {"groups": {}}, True),
    ],
)
def test_the_inventory_is_as_it_was_where_nothing_was_done_and_all_is_the_same(
    result: dict[str, Any], more: dict[str, Any], same: bool
) -> None:
    variables = {"groups": {"tpu": ["solo"]}, "hostvars": HostVars(solo=HOST), **more}
    assert fleet.is_as_listed(result, variables) is same
