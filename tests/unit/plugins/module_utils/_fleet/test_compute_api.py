"""Compute Engine as the fleet's cloud."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

pytest.importorskip("requests")

from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._core.error_table import Reaction
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import row_of
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.compute_api import (
    ComputeApi,
    compute_creation,
    machine_type_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Action
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.grant import Place
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.node_plan import Difference
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    ZONE,
    FakeCompute,
    instance,
    policy,
    refusal,
    spec,
    template,
    waiting,
    whole,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.fake_client import (
    slices_of,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils.fake_api import (
    FakeSession,
    client_with,
)

MACHINES = f"zones/{ZONE}/instances"
GROUPS = f"zones/{ZONE}/instanceGroupManagers"


@dataclass(frozen=True)
class Want:
    """A declared slice."""

    name: str = "big"
    machine_type: str = ""
    topology: str = ""
    tier: str = "on_demand"
    valid_for: float | None = None
    max_run_duration: str | None = None
    reservation: str | None = None


def api_of(fake: FakeCompute, *wanted: str) -> ComputeApi:
    client, _clock = client_with(FakeSession(answer=fake))
    return ComputeApi(client, wanted, slices_of(fake))


def act(kind: str, name: str = "big", **rest: Any) -> Action:
    return Action(kind, name, ZONE, name, "a test", **rest)


def creation(
    want: Want, kind: str = "v6e-16", until: str | None = None, **rest: Any
) -> dict[str, Any]:
    wanted = spec(want.name, accelerator_type=kind, **rest)
    verb, found = compute_creation(want, Place(ZONE, kind, "compute"), wanted, until)
    assert verb == "create_node"
    return found


# -- what a creation asks for --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "machine_type", "topology", "machine", "vms"),
    [
        ("v6e-1", "", "", "ct6e-standard-1t", 1),
        ("v6e-8", "", "", "ct6e-standard-8t", 1),
        ("v6e-8", "ct6e-standard-4t", "2x4", "ct6e-standard-4t", 2),
        ("v6e-16", "", "", "ct6e-standard-4t", 4),
        ("v7x-16", "", "", "tpu7x-standard-4t", 2),
        ("v7x-8", "tpu7x-standard-4t", "", "tpu7x-standard-4t", 1),
        ("v5p-16", "", "2x2x2", "ct5p-hightpu-4t", 2),
    ],
)
def test_shapes(kind: str, machine_type: str, topology: str, machine: str, vms: int) -> None:
    found = creation(Want(machine_type=machine_type, topology=topology), kind)
    assert machine_type_of(found) == machine
    assert found.get("group", {}).get("targetSize", 1) == vms


def test_a_type_that_compute_engine_does_not_have_is_refused() -> None:
    with pytest.raises(_errors.BadRequest, match="machine_type"):
        creation(Want(), "v4-8")


def test_what_the_slice_says_is_asked_for() -> None:
    want = Want("one", tier="flex_start", valid_for=600.0, max_run_duration="4h")
    instance_body = creation(want, "v6e-1")["instance"]
    assert instance_body["params"]["requestValidForDuration"] == {"seconds": "600"}
    assert instance_body["scheduling"]["maxRunDuration"] == {"seconds": "14400"}
    reserved = Want("one", tier="reserved", reservation="res1")
    assert creation(reserved, "v6e-1")["instance"]["reservationAffinity"]["values"] == ["res1"]


# -- looking -------------------------------------------------------------------------------------


def test_nodes_and_requests_are_of_one_moment() -> None:
    """A slice that gets its capacity between two looks would be in neither list."""
    fake = FakeCompute().put(instance(status="PENDING"))
    api = api_of(fake)
    assert api.nodes().items == []
    fake.put(instance(status="RUNNING"))
    assert [queued.name for queued in api.queued({"flex_start"}).items] == ["one"]
    assert [node.name for node in api.nodes().items] == ["one"]
    assert api.queued({"flex_start"}).items == []


def test_requests_alone_are_read_too() -> None:
    api = api_of(FakeCompute().put(waiting(), template(), policy()))
    assert [queued.name for queued in api.queued(set()).items] == ["big"]


def test_what_is_left_of_a_slice_is_shown_unless_it_is_to_be_made() -> None:
    fake = FakeCompute().put(template(), policy())
    assert [(node.name, node.state) for node in api_of(fake).nodes().items] == [
        ("big", "TERMINATED")
    ]
    assert api_of(fake, "big").nodes().items == []


def test_what_does_not_answer_is_unknown() -> None:
    fake = whole()
    fake.unreachable = {"instanceGroupManagers": ("zones/us-east5-a",)}
    api = api_of(fake)
    assert api.nodes().unreachable == ["us-east5-a"]
    assert api.queued(set()).unreachable == ["us-east5-a"]


def test_what_a_zone_does_not_list_is_not_offered() -> None:
    action = act("create_node", body=creation(Want()))
    fake = FakeCompute()
    error = api_of(fake).not_offered(action)
    assert error is not None
    assert row_of(error).reaction is Reaction.NEVER_HERE
    assert f"--zones={ZONE}" in error.remedy
    fake.resources[f"zones/{ZONE}/machineTypes/ct6e-standard-4t"] = {"selfLink": ""}
    assert api_of(fake).not_offered(action) is None


def test_who_may_not_read_the_catalogue_may_create_all_the_same() -> None:
    fake = FakeCompute()
    text = "Required 'compute.machineTypes.get' permission for 'x'"
    fake.faults = [("GET .*machineTypes", refusal(403, "forbidden", text))]
    api = api_of(fake)
    action = act("create_node", body=creation(Want()))
    assert api.not_offered(action) is None
    assert api.not_offered(action) is None
    assert len(fake.calls) == 1


def test_the_time_is_that_of_the_api() -> None:
    api = api_of(FakeCompute())
    assert api.now().tzinfo is not None
    assert api.clock.now() == 0.0


# -- acting --------------------------------------------------------------------------------------


def test_a_slice_is_made_and_taken_down() -> None:
    fake = FakeCompute()
    api = api_of(fake)
    asked = act("create_node", body=creation(Want()))
    api.prepare(asked, 15.0)
    made = api.do(asked, 15.0)
    assert made.target.endswith("/nodes/big")
    assert [operation.name for operation in api.operations(ZONE)] == [made.name]
    assert f"{GROUPS}/big" in fake.resources
    api.do(act("delete_node"), 15.0)
    assert fake.resources == {}


@pytest.mark.parametrize("kind", ["delete_node", "delete_queued"])
def test_a_request_is_deleted_like_a_slice(kind: str) -> None:
    fake = FakeCompute().put(instance(status="PENDING"))
    api_of(fake).do(act(kind, "one"), 15.0)
    assert fake.resources == {}


def test_a_machine_that_is_deleted_does_not_look_as_if_it_were_stopped() -> None:
    fake = FakeCompute().put(instance())
    api = api_of(fake)
    slow = {"name": "slow", "status": "RUNNING", "operationType": "delete"}
    fake.faults = [(f"DELETE {MACHINES}/one", slow)]
    api.do(act("delete_node", "one"), 15.0)
    fake.put(instance(status="STOPPING"))
    assert api.nodes().items[0].state == "DELETING"
    assert api_of(fake).nodes().items[0].state == "STOPPING"
    # Another of the same name is not being deleted.
    del fake.resources[f"{MACHINES}/one"]
    assert api.nodes().items == []
    fake.put(instance(status="STOPPING"))
    assert api.nodes().items[0].state == "STOPPING"


def test_a_request_waits_no_longer_than_it_may() -> None:
    fake = FakeCompute()
    api = api_of(fake)
    until = (api.now() + timedelta(seconds=1000)).strftime("%Y-%m-%dT%H:%M:%SZ")
    body = creation(Want("one", tier="flex_start"), "v6e-1", until)
    api.do(act("create_node", "one", body=body), 15.0)
    there = fake.resources[f"{MACHINES}/one"]
    seconds = there["params"]["requestValidForDuration"]["seconds"]
    assert 900 < int(seconds) <= 1000
    # What it says of itself is all that the API shows of that later.
    assert there["labels"]["tpu-fleet-wait"] == seconds


def test_a_request_that_may_not_wait_any_more_is_not_sent() -> None:
    fake = FakeCompute()
    body = creation(Want("one", tier="flex_start"), "v6e-1", "2026-01-01T00:00:00Z")
    api = api_of(fake)
    if api.now().year < 2026:  # pragma: no cover - the clock of the computer is wrong
        pytest.skip("this computer lives in the past")
    with pytest.raises(_errors.Busy, match="ended at 2026-01-01"):
        api.do(act("create_node", "one", body=body), 15.0)
    assert fake.resources == {}


def test_a_group_says_until_when_it_may_wait() -> None:
    """Google never ends its wait, so it is written down for the next look."""
    fake = FakeCompute().put(template(), policy())
    api = api_of(fake)
    body = creation(Want(tier="flex_start"), until="2026-12-24T00:00:00Z")
    api.do(act("create_node", body=body), 15.0)
    fake.resources[f"{GROUPS}/big"]["status"] = {"bulkInstanceOperation": {"inProgress": True}}
    assert [queued.valid_until for queued in api.queued(set()).items] == ["2026-12-24T00:00:00Z"]


def test_labels_and_metadata_of_all_machines_change() -> None:
    fake = whole()
    differences = (
        Difference("labels", {"old": "1"}, {"team": "a"}, "labels"),
        Difference("metadata", {"startup-script": "true"}, {"k": "v"}, "metadata"),
        Difference("tags", ["ssh"], ["ssh", "web"], "tags"),
    )
    api_of(fake).do(act("patch_node", differences=differences), 15.0)
    for number in range(4):
        raw = fake.resources[f"{MACHINES}/big-{'dcba'[number]}x{number}"]
        values = {item["key"]: item["value"] for item in raw["metadata"]["items"]}
        assert raw["labels"]["team"] == "a"
        # What a machine has beside it, and what finds it, stay.
        assert raw["labels"]["tpu-fleet"] == "lab"
        assert raw["labels"]["tpu-fleet-slice"] == "big"
        assert values["agent-worker-number"] == str(number)
        assert values["k"] == "v"
        assert "startup-script" not in values
        assert raw["tags"]["items"] == ["ssh", "web"]


def test_disks_are_attached_to_the_workers_that_are_to_have_them() -> None:
    fake = whole()
    home = f"projects/p/zones/{ZONE}/disks"
    want = [
        {"sourceDisk": f"{home}/mine", "mode": "READ_WRITE", "workerIds": ["2"]},
        {"sourceDisk": f"{home}/all", "mode": "READ_ONLY"},
    ]
    have = [{"sourceDisk": f"{home}/data", "mode": "READ_WRITE"}]
    change = Difference("data_disks", have, want, "data_disks")
    api_of(fake).do(act("patch_node", differences=(change,)), 15.0)
    found = {
        number: [
            disk["deviceName"]
            for disk in fake.resources[f"{MACHINES}/big-{'dcba'[number]}x{number}"]["disks"]
            if not disk["boot"]
        ]
        for number in range(4)
    }
    assert found == {0: ["all"], 1: ["all"], 2: ["mine", "all"], 3: ["all"]}


@pytest.mark.parametrize(("want", "verb"), [(False, "deleteAccessConfig"), (True, None)])
def test_external_addresses(want: bool, verb: str | None) -> None:
    fake = FakeCompute().put(instance())
    change = Difference("external_ips", not want, want, "network_config")
    api_of(fake).do(act("patch_node", "one", differences=(change,)), 15.0)
    assert [one.rpartition("/")[2] for one in fake.changes] == ([verb] if verb else [])


def test_what_cannot_change_is_refused_with_the_remedy() -> None:
    change = Difference("description", "old", "new", "description")
    with pytest.raises(_errors.BadRequest, match="recreate: true"):
        api_of(whole()).do(act("patch_node", differences=(change,)), 15.0)


def test_a_slice_is_stopped_and_started() -> None:
    fake = FakeCompute().put(instance())
    api = api_of(fake)
    api.do(act("stop_node", "one"), 15.0)
    assert api.nodes().items[0].state == "STOPPED"
    api.do(act("start_node", "one"), 15.0)
    assert api.nodes().items[0].state == "READY"


def test_a_start_that_failed_is_told_at_the_next() -> None:
    fake = FakeCompute().put(instance(status="TERMINATED"))
    fake.failures = {"POST .*/one$": {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "full"}}
    api = api_of(fake)
    api.do(act("start_node", "one"), 15.0)
    with pytest.raises(_errors.StockOut):
        api.do(act("start_node", "one"), 15.0)
