"""The modules for Compute Engine's VMs and slices, over HTTP against the emulator."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import requests
from ansible_collections.tpu.fleet.plugins.module_utils._compute.slices import ComputeSlices
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import Emulator

HERE = Path(__file__).parent
ZONE = "us-central1-b"
SOON = {"zone": ZONE, "wait_sleep": 0.05, "wait_timeout": 30}
ONE = {**SOON, "name": "one", "machine_type": "ct6e-standard-4t"}
WIDE = {**SOON, "name": "wide", "machine_type": "ct6e-standard-4t", "topology": "4x4"}
FLEX = {"tier": "flex_start", "max_run_duration": "1h", "valid_for": "2h"}
KEY = "ubuntu:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI ubuntu"
KINDS = ("instances", "instanceGroupManagers", "instanceTemplates", "resourcePolicies")

both = pytest.mark.parametrize(("name", "args"), [("tpu_instance", ONE), ("tpu_slice", WIDE)])


def ask(cloud: Emulator, method: str, path: str, body: Any = None) -> Any:
    url = f"{cloud.url}compute/v1/projects/{cloud.project}/{path}"
    answer = requests.request(method, url, json=body, timeout=60)
    assert answer.ok, answer.text
    return answer.json()


def raw(cloud: Emulator, name: str = "one") -> Any:
    return ask(cloud, "GET", f"zones/{ZONE}/instances/{name}")


def slices_of(cloud: Emulator) -> ComputeSlices:
    return ComputeSlices(Client(cloud.project, endpoint=cloud.url))


def left(cloud: Emulator) -> dict[str, int]:
    """Return how many resources of each kind there are."""
    counts = {}
    for kind in KINDS:
        scopes = ask(cloud, "GET", f"aggregated/{kind}")["items"].values()
        counts[kind] = sum(len(scope.get(kind, [])) for scope in scopes)
    return {kind: count for kind, count in counts.items() if count}


def disk(cloud: Emulator, name: str) -> None:
    ask(cloud, "POST", f"zones/{ZONE}/disks", {"name": name, "sizeGb": "10"})


def network(cloud: Emulator, name: str) -> None:
    ask(cloud, "POST", "global/networks", {"name": name, "autoCreateSubnetworks": True})


def stop_time(cloud: Emulator) -> None:
    """Let time pass only when a test says so; policies and templates are made at once."""
    cloud.control("delays", {"update": 0.0})
    cloud.control("clock", {"mode": "manual"})


def actions(result: dict[str, Any]) -> list[str]:
    assert "actions" in result, result["msg"]
    return [item["action"] for item in result["actions"]]


def change(cloud: Emulator, module: Any, name: str, args: dict[str, Any], action: str) -> Any:
    """Make a change in check mode, for real, and both again: only the second changes anything."""
    before = ask(cloud, "GET", "aggregated/instances")["items"]
    dry = module(name, args, check=True)
    assert ask(cloud, "GET", "aggregated/instances")["items"] == before
    real = module(name, args)
    for result in (dry, real):
        assert actions(result) == [action], args
        assert result["changed"]
        assert result["diff"]["before"] != result["diff"]["after"]
    if action != "create":
        assert dry["diff"] == real["diff"]
    for check in (True, False):
        again = module(name, args, check=check)
        assert (again["rc"], again["changed"]) == (0, False), again
        assert again["diff"]["before"] == again["diff"]["after"]
    return real


# In CI test_tpu_vm.py has a module as Ansible runs it; the tests below call these in this process.
@pytest.mark.night
def test_as_ansible_runs_them(cloud: Emulator, tmp_path: Path) -> None:
    done = subprocess.run(
        ["ansible-playbook", str(HERE / "compute_engine.yml")],
        env=cloud.env(HOME=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert left(cloud) == {}


EVERYTHING = {
    "labels": {"team": "speech"},
    "metadata": {"note": "two"},
    "tags": ["a"],
    "external_ips": False,
    "data_disks": [{"source_disk": "data", "read_only": True}],
}


@both
def test_each_change_in_check_mode_for_real_and_again(
    cloud: Emulator, module: Any, name: str, args: dict[str, Any]
) -> None:
    disk(cloud, "data")
    changes: list[tuple[dict[str, Any], str]] = [
        ({"labels": {"team": "vision"}, "description": "first"}, "create"),
        (EVERYTHING, "patch"),
        ({"purge": ["data_disks", "tags"]}, "patch"),
        *([({"state": "stopped"}, "stop"), ({"state": "started"}, "start")] if args is ONE else []),
        ({"state": "absent"}, "delete"),
    ]
    for options, action in changes:
        change(cloud, module, name, {**args, **options}, action)
    assert left(cloud) == {}


def test_what_is_asked_for_a_vm(cloud: Emulator, module: Any) -> None:
    disk(cloud, "data")
    network(cloud, "lab")
    wanted = {
        **ONE,
        "tier": "spot",
        "owner": "alice",
        "labels": {"team": "x"},
        "startup_script": "echo hello",
        "ssh_keys": [KEY],
        "tags": ["a"],
        "data_disks": [{"source_disk": "data"}],
        "max_run_duration": "4h",
        "network": "lab",
        "service_account": "robot@p.iam.gserviceaccount.com",
    }
    facts = module("tpu_instance", wanted)["tpu_instance"]
    assert (facts["state"], facts["api"], facts["tier"]) == ("READY", "compute", "spot")
    (worker,) = facts["workers"]
    assert (worker["host"], worker["instance"]) == ("one", "one")
    assert worker["external_ip"]
    made = raw(cloud)
    assert made["labels"]["tpu-fleet"] == "alice"
    assert made["scheduling"]["onHostMaintenance"] == "TERMINATE"
    assert made["scheduling"]["maxRunDuration"] == {"seconds": "14400"}
    assert [each["diskSizeGb"] for each in made["disks"]] == ["100", "10"]
    assert made["networkInterfaces"][0]["network"].endswith("/networks/lab")
    assert made["serviceAccounts"][0]["scopes"] == [
        "https://www.googleapis.com/auth/cloud-platform"
    ]
    assert not module("tpu_instance", wanted)["changed"]


def test_what_others_put_there_stays(cloud: Emulator, module: Any) -> None:
    module("tpu_instance", {**ONE, "metadata": {"a": "1"}})
    slices = slices_of(cloud)
    slices.set_metadata(ZONE, "one", lambda have: {**have, "theirs": "2"})
    before = {item["key"]: item["value"] for item in raw(cloud)["metadata"]["items"]}
    assert module("tpu_instance", {**ONE, "metadata": {"a": "3"}, "ssh_keys": [KEY]})["changed"]
    after = {item["key"]: item["value"] for item in raw(cloud)["metadata"]["items"]}
    assert after == {**before, "a": "3", "ssh-keys": KEY}
    assert "tpu-env" in after
    purged = {**ONE, "metadata": {"a": "3"}, "purge": ["metadata"]}
    assert module("tpu_instance", purged)["changed"]
    rest = {item["key"] for item in raw(cloud)["metadata"]["items"]}
    assert rest == {*before, "ssh-keys"} - {"theirs"}


@both
def test_two_passes_ask_and_wait(
    cloud: Emulator, module: Any, name: str, args: dict[str, Any]
) -> None:
    """Slices are asked for one after the other and waited for together."""
    stop_time(cloud)
    first = module(name, {**args, "wait": False})
    assert first["changed"]
    assert first[name]["state"] in ("CREATING", "WAITING_FOR_RESOURCES")
    cloud.control("clock", {"mode": "immediate"})
    second = module(name, args)
    assert not second["changed"]
    assert second[name]["state"] == "READY"
    # And the same for the end, which for a slice has three parts.
    stop_time(cloud)
    assert module(name, {**args, "state": "absent", "wait": False})["changed"]
    cloud.control("clock", {"mode": "immediate"})
    assert module(name, {**args, "state": "absent"})["rc"] == 0
    assert left(cloud) == {}


@both
def test_what_others_made_is_left_alone(
    cloud: Emulator, module: Any, name: str, args: dict[str, Any]
) -> None:
    module(name, {**args, "owner": "alice"})
    before = left(cloud)
    for more in ({}, {"state": "absent"}, {"labels": {"a": "b"}}):
        refused = module(name, {**args, "owner": "bob", **more})
        assert refused["kind"] == "refused"
        assert "belongs to 'alice', not to 'bob'" in refused["msg"]
        assert "adopt: true" in refused["remedy"]
    assert left(cloud) == before
    adopted = {**args, "owner": "bob", "adopt": True}
    assert actions(module(name, adopted)) == ["patch"]
    assert module(name, {**args, "owner": "bob", "state": "absent"})["changed"]


FIXED: list[tuple[dict[str, Any], str]] = [
    ({"machine_type": "ct6e-standard-1t"}, "machine_type is 'ct6e-standard-4t', wanted"),
    ({"tier": "spot"}, "tier is 'on_demand', wanted 'spot'"),
    ({"description": "second"}, "description is '', wanted 'second'"),
    ({"max_run_duration": "2h"}, "max_run_duration is '', wanted '2h'"),
    ({"boot_disk_size": "200GiB"}, "boot_disk_size is '100GiB', wanted '200GiB'"),
    ({"network": "lab"}, "network is 'default', wanted 'lab'"),
]


@pytest.mark.parametrize(("options", "words"), FIXED)
def test_what_is_fixed_is_never_changed(
    cloud: Emulator, module: Any, options: dict[str, Any], words: str
) -> None:
    module("tpu_instance", ONE)
    number = raw(cloud)["id"]
    for check in (True, False):
        refused = module("tpu_instance", {**ONE, **options, "recreate": True}, check=check)
        assert refused["kind"] == "refused"
        assert words in refused["msg"]
    assert raw(cloud)["id"] == number


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("tpu_instance", {"machine_type": "e2-medium"}, "no machine type with TPUs"),
    ("tpu_instance", {"machine_type": None}, "no option says what to create"),
    ("tpu_instance", {"machine_type": None, "accelerator_type": "v4-8"}, "tpu.fleet.tpu_vm"),
    ("tpu_instance", {"machine_type": None, "accelerator_type": "v6e-16"}, "tpu.fleet.tpu_slice"),
    ("tpu_instance", {"tier": "reserved"}, "reservation is None"),
    ("tpu_instance", {"tier": "flex_start", "max_run_duration": "8d"}, "10 minutes to 7 days"),
    ("tpu_instance", {"valid_for": "2h"}, "whose requests do not wait"),
    ("tpu_instance", {**FLEX, "valid_for": "soon"}, "valid_for is 'soon'"),
    ("tpu_instance", {"zone": "us-west1-c"}, "does not offer the machine type"),
    ("tpu_instance", {"state": "stopped"}, "There is no instance one in us-central1-b to stop"),
    ("tpu_instance", {"name": "One"}, "'One' is no name"),
    ("tpu_slice", {"topology": "3x3"}, "Use one of 2x2, 2x4, 4x4"),
    ("tpu_slice", {"topology": None}, "tpu.fleet.tpu_instance"),
    ("tpu_slice", {"topology": "2x2"}, "ct6e-standard-4t in 2x2 is one machine"),
]


@pytest.mark.parametrize(("name", "options", "words"), WRONG)
def test_wrong_options(
    cloud: Emulator, module: Any, name: str, options: dict[str, Any], words: str
) -> None:
    base = ONE if name == "tpu_instance" else WIDE
    args = {key: value for key, value in {**base, **options}.items() if value is not None}
    result = module(name, args, check=True)
    assert result["rc"] != 0
    assert words in result["msg"], result["msg"]
    assert left(cloud) == {}


def test_a_name_serves_one_thing_only(cloud: Emulator, module: Any) -> None:
    module("tpu_instance", ONE)
    module("tpu_slice", WIDE)
    worker = slices_of(cloud).workers(ZONE, "wide")[0].name
    before = left(cloud)
    taken = [
        ("tpu_slice", {**WIDE, "name": "one"}, "tpu.fleet.tpu_instance"),
        ("tpu_instance", {**ONE, "name": "wide"}, "tpu.fleet.tpu_slice"),
        ("tpu_instance", {**ONE, "name": worker}, "is a worker of wide"),
    ]
    for name, args, words in taken:
        for state in ("present", "absent"):
            refused = module(name, {**args, "state": state, "adopt": True})
            assert refused["kind"] == "refused"
            assert words in refused["msg"]
    assert left(cloud) == before


def test_a_vm_that_was_taken_back(cloud: Emulator, module: Any) -> None:
    spot = {**ONE, "tier": "spot"}
    number = module("tpu_instance", spot)["tpu_instance"]["uid"]
    place = f"nodes/{cloud.project}/{ZONE}/one"
    cloud.control(f"{place}:preempt")
    refused = module("tpu_instance", spot)
    assert "is PREEMPTED" in refused["msg"]
    assert "recreate: true, start it with state: started" in refused["remedy"]
    assert not module("tpu_instance", {**spot, "state": "stopped"})["changed"]
    started = module("tpu_instance", {**spot, "state": "started"})
    assert (actions(started), started["tpu_instance"]["uid"]) == (["start"], number)
    cloud.control(f"{place}:preempt")
    made = module("tpu_instance", {**spot, "recreate": True})
    assert actions(made) == ["delete", "create"]
    assert made["tpu_instance"]["uid"] != number
    assert made["tpu_instance"]["state"] == "READY"


def test_a_slice_that_lost_a_machine_is_made_again_when_asked(cloud: Emulator, module: Any) -> None:
    spot = {**WIDE, "tier": "spot"}
    module("tpu_slice", spot)
    worker = slices_of(cloud).workers(ZONE, "wide")[2].name
    cloud.control(f"nodes/{cloud.project}/{ZONE}/{worker}:preempt")
    assert "recreate: true" in module("tpu_slice", spot)["msg"]
    made = module("tpu_slice", {**spot, "recreate": True})
    assert actions(made) == ["delete", "create"]
    assert made["tpu_slice"]["state"] == "READY"
    assert len(made["tpu_slice"]["workers"]) == 4


def test_disks_of_single_workers_are_attached_after_the_slice_is_made(
    cloud: Emulator, module: Any
) -> None:
    disk(cloud, "data")
    disk(cloud, "own")
    disks = [{"source_disk": "data", "read_only": True}, {"source_disk": "own", "workers": [3]}]
    wanted = {**WIDE, "data_disks": disks}
    assert actions(module("tpu_slice", wanted)) == ["create"]
    counts = [len(one.raw["disks"]) for one in slices_of(cloud).workers(ZONE, "wide")]
    assert counts == [2, 2, 2, 3]
    assert not module("tpu_slice", wanted)["changed"]


def test_a_vm_waits_is_granted_and_expires(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out", match={"zone": ZONE})
    stop_time(cloud)
    asked = module("tpu_instance", {**ONE, **FLEX, "wait": False})
    facts = asked["tpu_instance"]
    assert (facts["state"], facts["tier"]) == ("WAITING_FOR_RESOURCES", "flex_start")
    assert "whether capacity or quota is missing" in facts["reason"]
    late = module("tpu_instance", {**ONE, **FLEX, "wait_timeout": 0})
    assert late["kind"] == "timeout"
    assert "whether capacity or quota is missing" in late["msg"]
    (shown,) = module("tpu_instance_info", {"states": ["WAITING_FOR_RESOURCES"]})["tpu_instances"]
    assert shown["name"] == "one"
    cloud.control("faults", method="DELETE")
    cloud.control("clock", {"advance": 600})
    again = module("tpu_instance", {**ONE, **FLEX})
    assert (again["changed"], again["tpu_instance"]["state"]) == (False, "READY")
    cloud.control("clock", {"advance": 3700})
    assert left(cloud) == {}
    assert actions(module("tpu_instance", {**ONE, **FLEX}, check=True)) == ["create"]


def test_a_waiting_request_is_taken_back(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out", match={"zone": ZONE})
    stop_time(cloud)
    for name, args in (("tpu_instance", ONE), ("tpu_slice", WIDE)):
        assert module(name, {**args, **FLEX, "wait": False})["changed"]
        cloud.control("clock", {"mode": "immediate"})
        assert actions(module(name, {**args, "state": "absent"})) == ["delete"]
        stop_time(cloud)
    assert left(cloud) == {}


def test_a_slice_that_waited_in_vain(cloud: Emulator, module: Any) -> None:
    cloud.fault("stock_out", match={"zone": ZONE})
    stop_time(cloud)
    flex = {**WIDE, **FLEX, "valid_for": "30m"}
    assert module("tpu_slice", {**flex, "wait": False})["tpu_slice"]["valid_until"]
    cloud.control("clock", {"advance": 1900})
    failed = module("tpu_slice", flex)
    assert "is FAILED (The request waited until its valid until time" in failed["msg"]
    assert actions(module("tpu_slice", {**flex, "recreate": True}, check=True)) == [
        "delete",
        "create",
    ]
    # Google never ends the wait of a group, which therefore may still get its capacity.
    cloud.control("faults", method="DELETE")
    cloud.control("clock", {"mode": "immediate"})
    assert module("tpu_slice", flex)["tpu_slice"]["state"] == "READY"


FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("stock_out", {}, "stock_out", "does not have enough resources available"),
    ("quota", {"match": {"service": "compute"}, "limit": 1}, "quota", "Limit: 1.0"),
]


@both
@pytest.mark.parametrize(("fault", "fields", "kind", "words"), FAULTS)
def test_failed_creation(
    cloud: Emulator,
    module: Any,
    name: str,
    args: dict[str, Any],
    fault: str,
    fields: dict[str, Any],
    kind: str,
    words: str,
) -> None:
    cloud.fault(fault, **fields)
    result = module(name, args)
    assert result["kind"] == kind, result
    assert words in result["msg"]
    if name == "tpu_slice":
        assert "Its group stays" in result["remedy"]


def test_a_second_run_tells_why_the_vm_of_the_first_is_gone(cloud: Emulator, module: Any) -> None:
    """It did not ask itself, so it finds the operation of the other process."""
    cloud.fault("stock_out")
    cloud.control("delays", {"create": 1.0, "fail": 1.0})
    cloud.control("clock", {"mode": "real"})
    assert module("tpu_instance", {**ONE, "wait": False})["tpu_instance"]["state"] == "CREATING"
    failed = module("tpu_instance", ONE)
    assert failed["kind"] == "stock_out", failed
    (shown,) = module("tpu_instance_info", {"zone": ZONE})["failures"]
    assert (shown["name"], shown["kind"]) == ("one", "stock_out")


PASSING: list[tuple[str, dict[str, Any]]] = [
    ("unavailable", {"count": 2}),
    ("bad_gateway", {"count": 2}),
    ("rate_limit", {"count": 2}),
    ("drop", {"count": 2}),
    ("drop", {"count": 2, "when": "after"}),
    ("not_found_after_create", {"count": 2}),
]


@both
@pytest.mark.parametrize(("fault", "fields"), PASSING)
def test_trouble_on_the_way(
    cloud: Emulator,
    module: Any,
    name: str,
    args: dict[str, Any],
    fault: str,
    fields: dict[str, Any],
) -> None:
    """What passes by itself is waited for, and one slice is made once and deleted once."""
    cloud.fault(fault, **fields)
    made = module(name, args)
    assert made.get(name, {}).get("state") == "READY", made
    gone = module(name, {**args, "state": "absent"})
    assert gone["changed"], gone
    assert left(cloud) == {}


def test_info_lists_and_filters(cloud: Emulator, module: Any) -> None:
    module("tpu_instance", {**ONE, "labels": {"team": "a"}})
    module("tpu_slice", {**WIDE, "labels": {"team": "b"}})
    module("tpu_instance", {**ONE, "name": "far", "zone": "us-east5-a"})

    def names(**args: Any) -> list[str]:
        return [item["name"] for item in module("tpu_instance_info", args)["tpu_instances"]]

    assert names() == ["far", "one", "wide"]
    assert names(name="one") == ["one"]
    assert names(name="none", zone=ZONE) == []
    assert names(zone=ZONE) == ["one", "wide"]
    assert names(states=["STOPPED"]) == []
    assert names(labels={"team": "b"}) == ["wide"]
    assert names(several=True) == ["wide"]
    assert names(several=False) == ["far", "one"]
    assert names(machine_types=["ct6e-standard-1t"]) == []
    cloud.fault("unreachable", match={"zone": ZONE, "service": "compute"})
    result = module("tpu_instance_info", {})
    assert [item["name"] for item in result["tpu_instances"]] == ["far"]
    assert result["unreachable_zones"] == [ZONE]
    assert module("tpu_instance_info", {"zone": "us-east5-a"})["unreachable_zones"] == []


def test_info_of_a_slice_in_parts(cloud: Emulator, module: Any) -> None:
    """What an interrupted creation left is shown, used, and can be deleted."""
    policy = {
        "name": "wide",
        "description": f"Slice wide in {ZONE}, 0123456789abcdef [tpu-fleet: managed]",
        "workloadPolicy": {"type": "HIGH_THROUGHPUT", "acceleratorTopology": "4x4"},
    }
    for state in ("present", "absent"):
        ask(cloud, "POST", "regions/us-central1/resourcePolicies", policy)
        (shown,) = module("tpu_instance_info", {})["tpu_instances"]
        assert (shown["name"], shown["state"]) == ("wide", "TERMINATED")
        assert module("tpu_slice", {**WIDE, "state": state})["changed"]
        module("tpu_slice", {**WIDE, "state": "absent"})
        assert left(cloud) == {}
