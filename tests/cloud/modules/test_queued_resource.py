"""The modules of the queue, run by Ansible over HTTP against the emulator."""

from __future__ import annotations

import json
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.queued_spec import queued_body
from emulator import Emulator

QUEUED = {
    "name": "q",
    "zone": Emulator.zone,
    "accelerator_type": "v4-8",
    "wait_sleep": 0.05,
    "wait_timeout": 30,
}
FLEX_ZONE = "us-east5-a"


def client_of(cloud: Emulator) -> Client:
    return Client(cloud.project, endpoint=cloud.url)


def raw_of(cloud: Emulator, version: str = "v2alpha1", zone: str = Emulator.zone) -> dict[str, Any]:
    path = f"{version}/projects/{cloud.project}/locations/{zone}/queuedResources/q"
    answer = requests.get(cloud.url + path, timeout=10)
    assert answer.ok, answer.text
    return dict(answer.json())


CHANGES: list[tuple[dict[str, Any], list[str]]] = [
    ({"tier": "spot", "labels": {"team": "x"}, "valid_until_duration": "6h"}, ["create"]),
    (
        {"tier": "on_demand", "valid_until_duration": "6h", "recreate": True, "force": True},
        ["delete", "create"],
    ),
    ({"state": "absent", "force": True}, ["delete"]),
]


def test_each_change_in_check_mode_for_real_and_again(cloud: Emulator, module: Any) -> None:
    client = client_of(cloud)

    def world() -> str:
        queued = [item.raw for item in client.queued_resources.list().items]
        nodes = [item.raw for item in client.nodes.list().items]
        return json.dumps([queued, nodes], sort_keys=True)

    for change, actions in CHANGES:
        before = world()
        dry = module("queued_resource", {**QUEUED, **change}, check=True)
        assert world() == before
        real = module("queued_resource", {**QUEUED, **change})
        assert world() != before
        for result in (dry, real):
            assert result["changed"], result
            assert [item["action"] for item in result["actions"]] == actions
            assert result["diff"]["before"] != result["diff"]["after"]
        assert dry.get("request") == real.get("request")
        assert "queueing_policy" in dry["diff"]["after"] or change.get("state") == "absent"
        after = world()
        for check in (True, False):
            again = module("queued_resource", {**QUEUED, **change}, check=check)
            assert not again["changed"], again
            assert again["diff"]["before"] == again["diff"]["after"]
        assert world() == after
    assert client.nodes.list().items == []


def test_active_one_has_its_nodes(cloud: Emulator, module: Any) -> None:
    args = {
        **QUEUED,
        "accelerator_type": "v4-16",
        "nodes": ["left", "right"],
        "tier": "spot",
        "owner": "alice",
        "valid_until_duration": "6h",
        "startup_script": "echo hello",
        "ssh_keys": ["ubuntu:ssh-ed25519 AAAA ubuntu"],
    }
    facts = module("queued_resource", args)["queued_resource"]
    assert (facts["state"], facts["tier"]) == ("ACTIVE", "spot")
    assert facts["valid_until"]
    assert facts["reason"] == "has made all its nodes"
    assert [(each["name"], each["exists"], each["state"]) for each in facts["nodes"]] == [
        ("left", True, "READY"),
        ("right", True, "READY"),
    ]
    assert [worker["host"] for worker in facts["nodes"][0]["workers"]] == ["left-w0", "left-w1"]
    node = client_of(cloud).nodes.get(cloud.zone, "left")
    assert (node.tier, node.queued_resource, node.labels["tpu-fleet"]) == ("spot", "q", "alice")
    assert node.metadata["startup-script"] == "echo hello"


def test_multislice(cloud: Emulator, module: Any) -> None:
    args = {**QUEUED, "node_count": 2, "node_prefix": "m"}
    facts = module("queued_resource", args)["queued_resource"]
    assert [each["name"] for each in facts["nodes"]] == ["m-0", "m-1"]
    assert not module("queued_resource", args)["changed"]
    refused = module("queued_resource", {**args, "node_count": 3})
    assert "nodes is ['m-0', 'm-1'], wanted ['m-0', 'm-1', 'm-2']" in refused["msg"]


ALPHA: list[tuple[dict[str, Any], str]] = [
    ({"tier": "best_effort"}, "best_effort"),
    ({"tier": "flex_start", "max_run_duration": "4h", "accelerator_type": "v6e-8"}, "flex_start"),
    ({"boot_disk_size": "200GiB"}, "on_demand"),
    ({"tier": "best_effort", "node_count": 2}, "best_effort"),
]


@pytest.mark.parametrize(("params", "tier"), ALPHA)
def test_what_only_v2alpha1_knows(
    cloud: Emulator, module: Any, params: dict[str, Any], tier: str
) -> None:
    zone = FLEX_ZONE if tier == "flex_start" else cloud.zone
    args = {**QUEUED, **params, "zone": zone}
    made = module("queued_resource", args)
    assert made["queued_resource"]["tier"] == tier, made
    assert made["queued_resource"]["state"] == "ACTIVE"
    raw = raw_of(cloud, zone=zone)
    for key in ("bestEffort", "provisioningModel", "runDuration"):
        assert (key in raw) == (key in made["request"])
    # It is compared with what it was asked for with, though v2 does not show it.
    assert not module("queued_resource", args)["changed"]
    listed = module("queued_resource_info", {"tiers": [tier]})["queued_resources"]
    assert [each["name"] for each in listed] == ["q"]


def test_boot_disk_of_a_node(cloud: Emulator, module: Any) -> None:
    args = {**QUEUED, "name": "n", "boot_disk_size": "200GiB"}
    assert module("tpu_vm", args)["changed"]
    node = client_of(cloud).nodes.get(cloud.zone, "n", "v2alpha1")
    assert node.raw["bootDiskConfig"]["diskSizeGb"] == "200"
    assert not module("tpu_vm", args)["changed"]
    refused = module("tpu_vm", {**args, "boot_disk_size": "300GiB"})
    assert "boot_disk_size is '200GiB', wanted '300GiB'" in refused["msg"]


def test_disk_of_one_worker(cloud: Emulator, module: Any) -> None:
    disks = f"{cloud.url}compute/v1/projects/{cloud.project}/zones/{cloud.zone}/disks"
    assert requests.post(disks, json={"name": "d", "sizeGb": "10"}, timeout=10).ok
    disk = {"source_disk": "d", "workers": [1]}
    args = {**QUEUED, "name": "n", "accelerator_type": "v4-16", "data_disks": [disk]}
    assert module("tpu_vm", args)["changed"]
    assert not module("tpu_vm", args)["changed"]
    moved = {**args, "data_disks": [{**disk, "workers": [0]}]}
    assert module("tpu_vm", moved)["changed"]
    assert not module("tpu_vm", moved)["changed"]
    node = client_of(cloud).nodes.get(cloud.zone, "n", "v2alpha1")
    assert [each["workerIds"] for each in node.data_disks] == [["0"]]


def test_what_waits_is_waited_for_and_said(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out")
    late = module("queued_resource", {**QUEUED, "wait_timeout": 5})
    assert late["kind"] == "timeout"
    assert "last seen: WAITING_FOR_RESOURCES" in late["msg"]
    assert "run this again" in late["remedy"]
    asked = module("queued_resource", {**QUEUED, "wait": False})
    assert not asked["changed"]
    assert asked["queued_resource"]["reason"] == "waits for capacity"
    assert asked["queued_resource"]["nodes"][0]["exists"] is False
    cloud.control("faults", method="DELETE")
    done = module("queued_resource", QUEUED)
    assert not done["changed"]
    assert done["queued_resource"]["state"] == "ACTIVE"


def test_one_that_waits_is_asked_for_anew(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out")
    first = {**QUEUED, "wait": False}
    module("queued_resource", first)
    refused = module("queued_resource", {**first, "tier": "spot", "labels": {"a": "b"}})
    assert refused["kind"] == "refused"
    assert "tier is 'on_demand', wanted 'spot'; labels is" in refused["msg"]
    assert "recreate: true" in refused["remedy"]
    made = module("queued_resource", {**first, "tier": "spot", "recreate": True})
    assert [item["action"] for item in made["actions"]] == ["delete", "create"]
    assert "tier differ" in made["actions"][0]["reason"]
    assert made["queued_resource"]["tier"] == "spot"


def test_one_that_failed_is_asked_for_again(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out")
    short = {**QUEUED, "valid_until_duration": "1s"}
    failed = module("queued_resource", short)
    assert failed["failed"]
    assert "the queued resource q in us-central2-b is FAILED" in failed["msg"]
    assert "recreate: true" in failed["remedy"]
    (listed,) = module("queued_resource_info", {"states": ["FAILED"]})["queued_resources"]
    assert listed["error"]["message"]
    assert listed["reason"].startswith("has failed for good")
    assert module("queued_resource", short)["kind"] == failed["kind"]
    cloud.control("faults", method="DELETE")
    made = module("queued_resource", {**short, "recreate": True})
    assert [item["action"] for item in made["actions"]] == ["delete", "create"], made
    assert made["queued_resource"]["state"] == "ACTIVE"


def test_preempted_one_is_cleared_and_asked_for_again(cloud: Emulator, module: Any) -> None:
    spot = {**QUEUED, "tier": "spot"}
    first = module("queued_resource", spot)["queued_resource"]
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/q:preempt")
    refused = module("queued_resource", spot)
    assert refused["kind"] == "node_lost"
    assert "by the service" in refused["msg"]
    made = module("queued_resource", {**spot, "recreate": True})
    assert made["actions"][-1]["action"] == "create", made
    assert made["queued_resource"]["state"] == "ACTIVE"
    assert made["queued_resource"]["nodes"][0]["uid"] != first["nodes"][0]["uid"]


def on_queued(cloud: Emulator, verb: str, **body: Any) -> None:
    """Do what only the cloud's owner can do."""
    cloud.control(f"queuedResources/{cloud.project}/{cloud.zone}/q:{verb}", body)


def test_suspended_while_somebody_waits(cloud: Emulator, module: Any) -> None:
    """While its nodes are being taken away it is waited for, then cleared and asked for again."""
    module("queued_resource", QUEUED)
    cloud.control("clock", {"mode": "manual"})
    on_queued(cloud, "suspend")
    (seen,) = module("queued_resource_info", {})["queued_resources"]
    assert (seen["state"], seen["initiator"]) == ("SUSPENDING", "SERVICE")
    refused = module("queued_resource", QUEUED)
    assert "SUSPENDING by the service" in refused["msg"]
    dry = module("queued_resource", {**QUEUED, "recreate": True}, check=True)
    assert [item["action"] for item in dry["actions"]] == ["delete", "create"]
    cloud.control("clock", {"mode": "immediate"})
    made = module("queued_resource", {**QUEUED, "recreate": True})
    assert made["queued_resource"]["state"] == "ACTIVE", made


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        ("RESOURCE_EXHAUSTED", "There is no more capacity in the zone", "stock_out"),
        ("PERMISSION_DENIED", "User does not have permission to submit requests", "permission"),
        ("INTERNAL", "an internal error has occurred", "operation_failed"),
    ],
)
def test_failure_says_its_kind(
    cloud: Emulator, module: Any, status: str, message: str, kind: str
) -> None:
    cloud.fault("stock_out")
    module("queued_resource", {**QUEUED, "wait": False})
    on_queued(cloud, "fail", status=status, message=message)
    result = module("queued_resource", QUEUED)
    assert result["kind"] == kind, result
    assert message in result["msg"]
    (seen,) = module("queued_resource_info", {})["queued_resources"]
    assert (seen["error"]["kind"], seen["nodes"][0]["exists"]) == (kind, False)
    gone = module("queued_resource", {**QUEUED, "state": "absent"})
    assert gone["changed"], gone


def test_living_nodes_need_force(cloud: Emulator, module: Any) -> None:
    module("queued_resource", QUEUED)
    for change in ({"state": "absent"}, {"tier": "spot", "recreate": True}):
        refused = module("queued_resource", {**QUEUED, **change})
        assert refused["kind"] == "refused"
        assert "q (READY)" in refused["msg"]
        assert "force: true" in refused["remedy"]
    assert client_of(cloud).nodes.get(cloud.zone, "q").is_ready


def test_what_others_made_is_left_alone(cloud: Emulator, module: Any) -> None:
    client = client_of(cloud)
    node = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
    operation = client.queued_resources.create(
        cloud.zone, "q", queued_body(cloud.project, cloud.zone, {"q": node})
    )
    client.queued_resources.wait_active(cloud.zone, "q", operation, 20)
    for state in ("present", "absent", "reset"):
        args = {**QUEUED, "state": state, "recreate": True, "force": True}
        refused = module("queued_resource", args)
        assert refused["kind"] == "refused"
        assert "adopt: true" in refused["msg"]
    gone = module("queued_resource", {**QUEUED, "state": "absent", "force": True, "adopt": True})
    assert gone["changed"]


def test_name_of_a_node_is_taken(cloud: Emulator, module: Any) -> None:
    cloud.populate(1, prefix="q")
    refused = module("queued_resource", {**QUEUED, "nodes": ["q-0"]})
    assert refused["kind"] == "refused"
    assert "cannot make nodes that exist: q-0 (READY)" in refused["msg"]


def test_reset(cloud: Emulator, module: Any) -> None:
    first = module("queued_resource", QUEUED)["queued_resource"]
    dry = module("queued_resource", {**QUEUED, "state": "reset"}, check=True)
    assert [item["action"] for item in dry["actions"]] == ["reset"]
    second = module("queued_resource", {**QUEUED, "state": "reset"})
    assert second["changed"], second
    assert second["queued_resource"]["state"] == "ACTIVE"
    assert second["queued_resource"]["nodes"][0]["uid"] != first["nodes"][0]["uid"]


def test_node_of_a_queued_resource(cloud: Emulator, module: Any) -> None:
    module("queued_resource", QUEUED)
    node = {**QUEUED, "name": "q"}
    stopped = module("tpu_vm", {**node, "state": "stopped"})
    assert "belongs to the queued resource q and cannot be stopped" in stopped["msg"]
    assert not module("tpu_vm", node)["changed"]
    assert module("tpu_vm", {**node, "labels": {"a": "b"}})["changed"]
    # What changed in place is not the queue's business any more.
    assert not module("queued_resource", QUEUED)["changed"]
    gone = module("tpu_vm", {**node, "state": "absent"})
    assert gone["changed"]
    over = module("queued_resource", QUEUED)
    assert "SUSPENDED by a user" in over["msg"]
    assert module("queued_resource", {**QUEUED, "recreate": True})["changed"]


FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("quota", {}, "quota", "has been exceeded"),
    ("queue_denied", {}, "permission", "repeating never helps"),
    ("billing_disabled", {}, "permission", "gcloud billing projects link"),
]


@pytest.mark.parametrize(("fault", "fields", "kind", "words"), FAULTS)
def test_failed_request(
    cloud: Emulator, module: Any, fault: str, fields: dict[str, Any], kind: str, words: str
) -> None:
    cloud.fault(fault, **fields)
    for wait in (True, False):
        result = module("queued_resource", {**QUEUED, "wait": wait})
        assert result["kind"] == kind, result
        assert words in result["msg"]
        assert "EID" not in result["msg"]


def test_reservation(cloud: Emulator, module: Any) -> None:
    small = {"zone": cloud.zone, "name": "ours", "accelerator_type": "v4-8", "chips": 4}
    cloud.control("reservations", small)
    args = {**QUEUED, "reservation": "ours"}
    facts = module("queued_resource", args)["queued_resource"]
    assert (facts["state"], facts["tier"]) == ("ACTIVE", "reserved")
    assert facts["reservation"].endswith("/reservations/ours")
    assert not module("queued_resource", args)["changed"]
    refused = module("queued_resource", {**args, "reservation": "theirs"})
    assert "reservation is 'ours', wanted 'theirs'" in refused["msg"]
    late = {**args, "name": "r", "wait_timeout": 1}
    assert module("queued_resource", late)["kind"] == "timeout"


def test_reservation_that_is_not_there(cloud: Emulator, module: Any) -> None:
    result = module("queued_resource", {**QUEUED, "reservation": "none"})
    assert result["kind"] == "not_found", result
    assert "Reservation not found" in result["msg"]


PASSING: list[tuple[str, dict[str, Any]]] = [
    ("unavailable", {"count": 2}),
    ("bad_gateway", {"count": 2}),
    ("rate_limit", {"count": 2}),
    ("busy", {"count": 1}),
    ("drop", {"count": 2}),
    ("drop", {"count": 2, "when": "after"}),
    ("reset", {"count": 2}),
    ("not_found_after_create", {"count": 2}),
    ("stuck_operation", {}),
    ("project_number", {}),
    ("unknown_fields", {}),
]


@pytest.mark.parametrize(("fault", "fields"), PASSING)
def test_trouble_on_the_way(
    cloud: Emulator, module: Any, fault: str, fields: dict[str, Any]
) -> None:
    """What passes by itself is waited for, and all is made once and deleted once."""
    cloud.fault(fault, **fields)
    made = module("queued_resource", QUEUED)
    assert made.get("queued_resource", {}).get("state") == "ACTIVE", made
    gone = module("queued_resource", {**QUEUED, "state": "absent", "force": True})
    assert gone["changed"], gone
    assert client_of(cloud).queued_resources.list(cloud.zone).items == []
    assert client_of(cloud).nodes.list(cloud.zone).items == []


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_answer_that_is_lost_after_the_work_was_done(
    cloud: Emulator, module: Any, method: str
) -> None:
    if method == "DELETE":
        module("queued_resource", QUEUED)
    cloud.fault("drop", count=1, match={"method": method}, when="after")
    state = "present" if method == "POST" else "absent"
    result = module("queued_resource", {**QUEUED, "state": state, "force": True})
    assert result["changed"], result
    assert len(client_of(cloud).nodes.list().items) == (1 if method == "POST" else 0)


def test_info(cloud: Emulator, module: Any) -> None:
    for name, tier, team in (("w10", "spot", "a"), ("w9", "on_demand", "a"), ("x", "spot", "b")):
        args = {**QUEUED, "name": name, "tier": tier, "labels": {"team": team}}
        assert module("queued_resource", args)["changed"]

    def names(**args: Any) -> list[str]:
        listed = module("queued_resource_info", args)["queued_resources"]
        return [each["name"] for each in listed]

    assert names() == ["w9", "w10", "x"]
    assert names(name="x") == ["x"]
    assert names(name="x", zone=cloud.zone) == ["x"]
    assert names(name="gone", zone=cloud.zone) == []
    assert names(states=["FAILED"]) == []
    assert names(tiers=["spot"]) == ["w10", "x"]
    assert names(labels={"team": "a"}) == ["w9", "w10"]


def test_info_says_which_zones_are_unknown(cloud: Emulator, module: Any) -> None:
    module("queued_resource", QUEUED)
    cloud.fault("unreachable", match={"zone": "us-east5-a"})
    result = module("queued_resource_info", {})
    assert len(result["queued_resources"]) == 1
    assert result["unreachable_zones"] == ["us-east5-a"]


def test_zone_that_cannot_be_asked_is_not_empty(cloud: Emulator, module: Any) -> None:
    cloud.fault("unreachable", match={"zone": cloud.zone})
    result = module("queued_resource", QUEUED)
    assert result["kind"] == "unavailable", result
    cloud.control("faults", method="DELETE")
    assert client_of(cloud).queued_resources.list().items == []


def test_what_a_zone_offers(module: Any) -> None:
    types = module("accelerator_type_info", {"zone": Emulator.zone})["accelerator_types"]
    names = [each["name"] for each in types]
    assert names.index("v4-8") < names.index("v4-16")
    (one,) = module("accelerator_type_info", {"zone": Emulator.zone, "name": "v4-16"})[
        "accelerator_types"
    ]
    assert (one["chips"], one["workers"], one["topologies"]) == (8, 2, ["2x2x2"])
    assert not module("accelerator_type_info", {"zone": Emulator.zone, "name": "v9-8"})[
        "accelerator_types"
    ]
    every = module("runtime_version_info", {"zone": Emulator.zone})
    fitting = module("runtime_version_info", {"zone": Emulator.zone, "accelerator_type": "v4-8"})
    assert set(fitting["runtime_versions"]) < set(every["runtime_versions"])
    assert fitting["default"] == "tpu-ubuntu2204-base"
    assert "default" not in every
