"""The client of slices: what it asks, in which order, and what a lost answer or a crash leaves."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("requests")

import requests
from ansible_collections.tpu.fleet.plugins.module_utils._compute.groups import (
    slice_nodes,
    slice_requests,
)
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.answers import (
    ZONE,
    FakeCompute,
    bodies,
    group,
    instance,
    member,
    metadata,
    policy,
    refusal,
    template,
    waiting,
    whole,
)
from ansible_collections.tpu.fleet.tests.unit.plugins.module_utils._compute.fake_client import (
    slices_of,
)

FOUR = [member(number) for number in range(4)]
REGION_OF = "regions/us-central1"
POLICY = f"{REGION_OF}/resourcePolicies"
TEMPLATE = f"{REGION_OF}/instanceTemplates"
GROUPS = f"zones/{ZONE}/instanceGroupManagers"
MACHINES = f"zones/{ZONE}/instances"
ONE = {"instance": bodies()["template"]["properties"] | {"name": "one"}}


def lost() -> BaseException:
    return requests.exceptions.ReadTimeout("read timed out")


# -- lists ---------------------------------------------------------------------------------------


def test_lists_are_read_over_all_zones() -> None:
    fake = whole().put(instance())
    seen = slices_of(fake).list()
    assert sorted(node.name for node in slice_nodes(seen).items) == ["big", "one"]
    # Groups first: the machines of each group are then in the list of machines.
    kinds = [call.path.rpartition("/")[2] for call in fake.calls]
    assert kinds == [
        "instanceGroupManagers",
        "instances",
        "instanceTemplates",
        "resourcePolicies",
    ]
    assert all(call.params["returnPartialSuccess"] == "true" for call in fake.calls)


def test_an_inventory_needs_two_lists_of_a_project_without_groups() -> None:
    fake = FakeCompute().put(instance())
    slices_of(fake).list(leftovers=False)
    assert len(fake.calls) == 2


def test_scopes_that_do_not_answer() -> None:
    fake = FakeCompute().put(instance())
    fake.unreachable = {
        "instances": ("zones/us-east5-a",),
        "instanceGroupManagers": ("zones/us-east5-b", "regions/us-east5"),
    }
    found = slice_nodes(slices_of(fake).list())
    assert [node.name for node in found.items] == ["one"]
    assert sorted(found.unreachable) == ["us-east5-a", "us-east5-b"]


def test_a_list_that_never_ends_is_an_error() -> None:
    page = {"items": {}, "nextPageToken": "again"}
    fake = FakeCompute()
    fake.faults = [("GET aggregated", page), ("GET aggregated", page)]
    with pytest.raises(_errors.Unavailable, match="never ends"):
        slices_of(fake).list()


def test_pages_are_joined() -> None:
    fake = FakeCompute().put(instance())
    first = {"items": {f"zones/{ZONE}": {"instances": [instance("two")]}}, "nextPageToken": "t"}
    fake.faults = [("GET aggregated/instances", first)]
    found = slice_nodes(slices_of(fake).list()).items
    assert sorted(node.name for node in found) == ["one", "two"]


def test_a_group_is_asked_for_machines_that_do_not_name_it() -> None:
    """Membership of the group decides, not a label that every client can set."""
    fake = FakeCompute().put(group(), template(), policy())
    fake.put(*[member(n, labels={}, metadata=metadata(k="v")) for n in range(4)])
    node = slice_nodes(slices_of(fake).list()).items
    assert [(one.name, len(one.endpoints)) for one in node] == [("big", 4)]
    assert any("listManagedInstances" in call.path for call in fake.calls)


def test_a_group_whose_machines_are_all_there_is_not_asked() -> None:
    fake = whole()
    slices_of(fake).list()
    assert not any("listManagedInstances" in call.path for call in fake.calls)


def test_a_waiting_group_is_not_asked() -> None:
    fake = FakeCompute().put(waiting(), template(), policy())
    assert [q.name for q in slice_requests(slices_of(fake).list()).items] == ["big"]
    assert not any("listManagedInstances" in call.path for call in fake.calls)


# -- creation ------------------------------------------------------------------------------------


def test_a_group_is_made_of_three_requests() -> None:
    fake = FakeCompute()
    operation = slices_of(fake).create(ZONE, bodies())
    assert fake.changes == [f"POST {POLICY}", f"POST {TEMPLATE}", f"POST {GROUPS}"]
    assert operation.verb == "create"
    assert operation.target == f"projects/p/locations/{ZONE}/nodes/big"
    ids = [call.params["requestId"] for call in fake.calls if call.method == "POST"]
    assert len(set(ids)) == 3


def test_one_machine_is_made_of_one() -> None:
    fake = FakeCompute()
    operation = slices_of(fake).create(ZONE, ONE)
    assert fake.changes == [f"POST {MACHINES}"]
    assert operation.name
    assert not operation.done


@pytest.mark.parametrize("step", [POLICY, TEMPLATE, GROUPS])
def test_a_lost_answer_never_makes_a_second(step: str) -> None:
    fake = FakeCompute()
    fake.faults = [(f"POST {step}$", lost)]
    slices_of(fake).create(ZONE, bodies())
    same = [call.params["requestId"] for call in fake.calls if call.path.endswith(step)]
    assert len(same) == 2
    assert len(set(same)) == 1
    assert len(fake.resources) == 3


def test_a_request_whose_answers_are_all_lost_may_have_made_it() -> None:
    """The caller then looks; nothing is cleared away, because the group may need its parts."""
    fake = FakeCompute()
    fake.faults = [(f"POST {GROUPS}$", lost)] * 3
    with pytest.raises(_errors.Unavailable):
        slices_of(fake).create(ZONE, bodies())
    assert len(fake.resources) == 3


@pytest.mark.parametrize("times", [1, 3])
def test_a_group_that_may_still_appear_keeps_its_parts(times: int) -> None:
    exists = refusal(409, "alreadyExists", "The resource 'big' already exists")
    fake, answer = FakeCompute(), exists if times == 1 else lost()
    fake.faults = [(f"POST {GROUPS}$", answer) for _time in range(times)]
    with pytest.raises((_errors.AlreadyExists, _errors.Unavailable)):
        slices_of(fake).create(ZONE, bodies())
    assert sorted(fake.resources) == [f"{TEMPLATE}/big", f"{POLICY}/big"]


@pytest.mark.parametrize("left", [[policy], [policy, template], [template]])
def test_it_goes_on_where_a_controller_died(left: list[Any]) -> None:
    fake = FakeCompute().put(*[make() for make in left])
    slices_of(fake).create(ZONE, bodies())
    assert not any(change.startswith("DELETE") for change in fake.changes)
    assert f"{GROUPS}/big" in fake.resources


@pytest.mark.parametrize("make", [policy, template])
def test_what_was_made_for_another_shape_is_made_again(make: Any) -> None:
    fake = FakeCompute().put(policy(), template())
    old = make(startup_script="old")
    old["description"] = old["description"].replace(", ", ", 0")
    fake.put(old)
    slices_of(fake).create(ZONE, bodies())
    deleted = [change for change in fake.changes if change.startswith("DELETE")]
    assert len(deleted) == 1
    kind = "resourcePolicies" if make is policy else "instanceTemplates"
    assert fake.resources[f"{REGION_OF}/{kind}/big"]["description"] != old["description"]


def test_what_another_group_uses_is_not_made_again() -> None:
    old = template(startup_script="old")
    fake = FakeCompute().put(policy(), old)
    other = group(selfLink=group()["selfLink"].replace(ZONE, "us-central1-a"))
    fake.put(other)
    with pytest.raises(_errors.Busy, match="already being used"):
        slices_of(fake).create(ZONE, bodies())
    assert fake.resources[f"{TEMPLATE}/big"] == old


@pytest.mark.parametrize("description", ["for the web", "[tpu-fleet: others]"])
def test_what_others_made_is_left_alone(description: str) -> None:
    theirs = {**template(), "description": description}
    fake = FakeCompute().put(theirs)
    with pytest.raises(_errors.NameTaken, match="was not made by this collection"):
        slices_of(fake).create(ZONE, bodies())
    # The policy that was made for it goes again.
    assert fake.resources == {f"{TEMPLATE}/big": theirs}


def test_a_part_of_another_fleet_is_left_alone() -> None:
    theirs = template()
    theirs["description"] = theirs["description"].replace("lab", "others")
    with pytest.raises(_errors.NameTaken, match="belongs to 'others'"):
        slices_of(FakeCompute().put(theirs)).create(ZONE, bodies())


def test_parts_go_when_the_group_is_refused() -> None:
    fake = FakeCompute()
    text = "Invalid value for field 'resource.targetSize': '4'."
    fake.faults = [(f"POST {GROUPS}$", refusal(400, "invalid", text))]
    with pytest.raises(_errors.BadRequest, match="targetSize"):
        slices_of(fake).create(ZONE, bodies())
    assert fake.resources == {}


def test_a_part_that_fails_in_its_operation_ends_the_creation() -> None:
    fake = FakeCompute()
    fake.failures = {
        "POST .*instanceTemplates": {"code": "QUOTA_EXCEEDED", "message": "Quota 'X' exceeded."}
    }
    with pytest.raises(_errors.QuotaExceeded):
        slices_of(fake).create(ZONE, bodies())
    assert fake.resources == {}


def test_a_group_that_is_there_keeps_its_parts() -> None:
    fake = whole()
    with pytest.raises(_errors.AlreadyExists):
        slices_of(fake).create(ZONE, bodies())
    assert len(fake.resources) == 7


# -- deletion ------------------------------------------------------------------------------------


def test_a_group_goes_before_its_parts() -> None:
    fake = whole()
    operation = slices_of(fake).delete(ZONE, "big")
    assert fake.changes == [
        f"DELETE {GROUPS}/big",
        f"DELETE {TEMPLATE}/big",
        f"DELETE {POLICY}/big",
    ]
    assert fake.resources == {}
    assert (operation.done, operation.verb) == (True, "delete")


def test_what_is_gone_is_fine() -> None:
    fake = FakeCompute().put(policy())
    slices_of(fake).delete(ZONE, "big")
    assert fake.resources == {}
    with pytest.raises(_errors.NotFound):
        slices_of(fake).delete(ZONE, "big")


@pytest.mark.parametrize("step", [f"{GROUPS}/big", f"{TEMPLATE}/big", f"{POLICY}/big"])
def test_a_deletion_goes_on_after_a_lost_answer(step: str) -> None:
    fake = whole()
    fake.faults = [(f"DELETE {step}", lost)]
    slices_of(fake).delete(ZONE, "big")
    assert fake.resources == {}


def test_a_deletion_that_takes_longer_is_finished_by_the_next() -> None:
    fake = whole()
    slices = slices_of(fake)
    running = {"name": "slow", "status": "RUNNING", "operationType": "delete"}
    target = f"https://www.googleapis.com/compute/v1/projects/p/{GROUPS}/big"
    slow = {**running, "targetLink": target, "zone": f"https://x/projects/p/zones/{ZONE}"}
    fake.operations["slow"] = slow
    fake.faults = [(f"DELETE {GROUPS}/big", slow)]
    assert not slices.delete(ZONE, "big", patience=5.0).done
    assert f"{TEMPLATE}/big" in fake.resources
    for where in [one for one in fake.resources if "zones/" in one]:
        del fake.resources[where]
    assert slices.delete(ZONE, "big").done
    assert fake.resources == {}


def test_machines_of_a_group_that_is_gone_go_too() -> None:
    fake = FakeCompute().put(*FOUR, instance())
    slices_of(fake).delete(ZONE, "big")
    assert list(fake.resources) == [f"{MACHINES}/one"]


def test_parts_of_others_stay() -> None:
    theirs = {**template(), "description": "for the web"}
    fake = FakeCompute().put(group(), theirs, policy())
    slices_of(fake).delete(ZONE, "big")
    assert list(fake.resources) == [f"{TEMPLATE}/big"]


def test_parts_of_another_fleet_stay_with_all_that_was_made_beside_them() -> None:
    theirs = template()
    theirs["description"] = theirs["description"].replace("lab", "others")
    fake = FakeCompute().put(theirs, policy())
    slices_of(fake).delete(ZONE, "big", owner="lab")
    assert list(fake.resources) == [f"{TEMPLATE}/big"]
    with pytest.raises(_errors.NameTaken):
        slices_of(fake).create(ZONE, bodies())
    assert list(fake.resources) == [f"{TEMPLATE}/big"]


def test_of_two_with_one_name_goes_the_one_that_is_meant() -> None:
    alone = instance("big")
    fake = whole().put(alone)
    slices_of(fake).delete(ZONE, "big", uid=group()["id"])
    assert list(fake.resources) == [f"{MACHINES}/big"]
    fake = whole().put(alone)
    slices_of(fake).delete(ZONE, "big", uid=alone["id"])
    assert f"{GROUPS}/big" in fake.resources
    assert f"{TEMPLATE}/big" in fake.resources
    assert f"{MACHINES}/big" not in fake.resources


def test_what_is_left_goes_without_the_machine_of_that_name() -> None:
    fake = FakeCompute().put(template(), policy(), instance("big"))
    slices_of(fake).delete(ZONE, "big", uid="")
    assert list(fake.resources) == [f"{MACHINES}/big"]


def test_machines_of_a_group_that_seems_to_be_gone_stay() -> None:
    """The API may answer that a group that it has just listed does not exist."""
    fake = FakeCompute().put(*FOUR)
    with pytest.raises(_errors.NotFound):
        slices_of(fake).delete(ZONE, "big", uid=group()["id"])
    assert len(fake.resources) == 4


def test_of_two_with_one_name_the_meant_one_is_changed_and_stopped() -> None:
    alone = instance("big")
    slices = slices_of(whole().put(alone))
    assert [one.name for one in slices.workers(ZONE, "big", alone["id"])] == ["big"]
    assert len(slices.workers(ZONE, "big", group()["id"])) == 4
    assert slices.stop(ZONE, "big", alone["id"]).verb == "stop"
    with pytest.raises(_errors.BadRequest, match="group"):
        slices.stop(ZONE, "big", group()["id"])


def test_parts_that_another_zone_uses_stay() -> None:
    fake = whole()
    other = group(
        selfLink=group()["selfLink"].replace(ZONE, "us-central1-a"),
        zone=group()["zone"].replace(ZONE, "us-central1-a"),
    )
    fake.put(other)
    slices_of(fake).delete(ZONE, "big")
    assert sorted(fake.resources) == [
        f"{TEMPLATE}/big",
        f"{POLICY}/big",
        "zones/us-central1-a/instanceGroupManagers/big",
    ]


def test_one_machine_goes_by_one_request() -> None:
    fake = FakeCompute().put(instance())
    slices_of(fake).delete(ZONE, "one")
    assert fake.changes == [f"DELETE {MACHINES}/one"]


@pytest.mark.parametrize("owner", ["lab", "others"])
@pytest.mark.parametrize("name", ["big", "one"])
def test_what_nobody_decided_about_has_to_be_the_owners(name: str, owner: str) -> None:
    fake = whole().put(instance())
    before = len(fake.resources)
    slices = slices_of(fake)
    if owner == "lab":
        slices.delete(ZONE, name, owner=owner, decided=False)
        assert len(fake.resources) < before
    else:
        with pytest.raises(_errors.Refused, match="belongs to 'lab'"):
            slices.delete(ZONE, name, owner=owner, decided=False)
        assert len(fake.resources) == before


# -- changes -------------------------------------------------------------------------------------


def test_labels_are_changed_and_the_label_of_the_slice_is_kept() -> None:
    fake = FakeCompute().put(instance())
    slices = slices_of(fake)
    assert slices.set_labels(ZONE, "one", lambda _have: {"team": "a"})
    assert fake.resources[f"{MACHINES}/one"]["labels"] == {"team": "a", "tpu-fleet-slice": "one"}
    before = len(fake.changes)
    assert slices.set_labels(ZONE, "one", lambda have: have) is None
    assert len(fake.changes) == before


def test_metadata_keeps_what_google_wrote() -> None:
    fake = FakeCompute().put(member(2))
    slices_of(fake).set_metadata(ZONE, "big-bx2", lambda _have: {"k": "v", "tpu-env": "mine"})
    items = fake.resources[f"{MACHINES}/big-bx2"]["metadata"]["items"]
    found = {item["key"]: item["value"] for item in items}
    assert found["agent-worker-number"] == "2"
    assert found["tpu-env"].startswith("TPU_WORKER_ID: '2'")
    assert found["created-by"]
    assert found["k"] == "v"
    assert "startup-script" not in found


def test_a_change_by_another_is_not_undone() -> None:
    fake = FakeCompute().put(instance())
    slices, raced = slices_of(fake), []

    def alter(have: dict[str, str]) -> dict[str, str]:
        if not raced:
            # Between the look and the change somebody else writes.
            raced.append(have)
            raw = fake.resources[f"{MACHINES}/one"]
            raw["labels"] = {**raw["labels"], "theirs": "1"}
            raw["labelFingerprint"] = "changed"
        return {**have, "mine": "1"}

    slices.set_labels(ZONE, "one", alter)
    labels = fake.resources[f"{MACHINES}/one"]["labels"]
    assert (labels["theirs"], labels["mine"]) == ("1", "1")
    assert len([change for change in fake.changes if "setLabels" in change]) == 2


def test_one_machine_stops_and_starts() -> None:
    fake = FakeCompute().put(instance())
    slices = slices_of(fake)
    slices.stop(ZONE, "one")
    assert fake.resources[f"{MACHINES}/one"]["status"] == "TERMINATED"
    slices.start(ZONE, "one")
    assert fake.resources[f"{MACHINES}/one"]["status"] == "RUNNING"


@pytest.mark.parametrize("verb", ["start", "stop"])
def test_a_group_neither_stops_nor_starts(verb: str) -> None:
    with pytest.raises(_errors.BadRequest, match="group of machines"):
        getattr(slices_of(whole()), verb)(ZONE, "big")


# -- reading more --------------------------------------------------------------------------------


def test_operations_of_a_zone() -> None:
    fake = FakeCompute()
    fake.failures = {
        "POST .*instances": {"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "full"}
    }
    slices = slices_of(fake)
    operation = slices.create(ZONE, ONE)
    (found,) = slices.operations(ZONE)
    assert (found.name, found.done, found.error["code"]) == (operation.name, True, 8)
    with pytest.raises(_errors.StockOut):
        slices.refresh(operation)


def test_the_operations_of_disks_are_not_those_of_slices() -> None:
    fake = FakeCompute()
    link = "https://www.googleapis.com/compute/v1/projects/p/zones/z"
    kinds = ("disks", "instances", "instanceGroupManagers")
    items = [
        {"name": kind, "operationType": "insert", "targetLink": f"{link}/{kind}/one"}
        for kind in kinds
    ]
    fake.faults = [("GET .*operations", {"items": items})]
    names = [one.name for one in slices_of(fake).operations(ZONE)]
    assert names == ["instances", "instanceGroupManagers"]


def test_guest_attributes() -> None:
    fake = FakeCompute().put(instance())
    keys = {"queryValue": {"items": [{"namespace": "hostkeys", "key": "ssh-ed25519"}]}}
    fake.faults = [("getGuestAttributes", keys)]
    slices = slices_of(fake)
    assert slices.guest_attributes(ZONE, "one", "hostkeys/") == keys
    assert fake.calls[-1].params == {"queryPath": "hostkeys/"}
    # The API says that there is no such resource before the machine has written one.
    assert slices.guest_attributes(ZONE, "one", "hostkeys/") == {}


def test_workers_are_in_order() -> None:
    slices = slices_of(whole().put(instance()))
    assert [one.worker for one in slices.workers(ZONE, "big")] == [0, 1, 2, 3]
    assert [one.name for one in slices.workers(ZONE, "one")] == ["one"]
    assert slices.workers(ZONE, "none") == []
