"""The node modules, run by Ansible over HTTP against the emulator."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import errors as _errors
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client
from emulator import Emulator

HERE = Path(__file__).parent
NODE = {
    "name": "n",
    "zone": Emulator.zone,
    "accelerator_type": "v4-8",
    "wait_sleep": 0.05,
    "wait_timeout": 30,
}


def client_of(cloud: Emulator) -> Client:
    return Client(cloud.project, endpoint=cloud.url)


def test_as_ansible_runs_it(cloud: Emulator, tmp_path: Path) -> None:
    done = subprocess.run(
        ["ansible-playbook", str(HERE / "as_ansible_runs_it.yml")],
        env=cloud.env(HOME=str(tmp_path)),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("TASK [Compare]") == 1
    assert client_of(cloud).nodes.list().items == []


EVERYTHING = {
    "labels": {"team": "speech"},
    "metadata": {"note": "two"},
    "tags": ["a"],
    "description": "second",
    "external_ips": False,
    "data_disks": [{"source_disk": "disk-1"}],
}


def test_each_change_in_check_mode_for_real_and_again(cloud: Emulator, module: Any) -> None:
    """Only the second changes anything, and the first says so."""
    module("disk", {"name": "disk-1", "zone": Emulator.zone, "size": "10GiB"})
    changes: tuple[tuple[str, dict[str, Any]], ...] = (
        ("create", {"labels": {"team": "vision"}}),
        ("patch", EVERYTHING),
        ("patch", {"purge": ["data_disks", "tags"]}),
        ("stop", {"state": "stopped"}),
        ("start", {"state": "started"}),
        ("delete", {"state": "absent"}),
    )
    for action, options in changes:
        args = {**NODE, **options}
        before = there(module)
        dry = module("tpu_vm", args, check=True)
        assert there(module) == before
        real = module("tpu_vm", args)
        for result in (dry, real):
            assert result["changed"]
            assert [one["action"] for one in result["actions"]] == [action]
            assert result["diff"]["before"] != result["diff"]["after"]
        assert dry["diff"]["before"] == real["diff"]["before"]
        for check in (True, False):
            again = module("tpu_vm", args, check=check)
            assert (again["rc"], again["changed"]) == (0, False), again
        assert [real["tpu_vm"]] == (there(module) or [{}])
    assert there(module) == []


def there(module: Any) -> Any:
    return module("tpu_vm_info", {})["tpu_vms"]


def test_created_node_is_as_wanted(cloud: Emulator, module: Any) -> None:
    key = "ubuntu:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI ubuntu"
    wanted = {
        **NODE,
        "accelerator_type": "v4-16",
        "tier": "spot",
        "owner": "alice",
        "labels": {"team": "x"},
        "startup_script": "echo hello",
        "ssh_keys": [key],
        "tags": ["a"],
    }
    facts = module("tpu_vm", wanted)["tpu_vm"]
    assert facts["state"] == "READY"
    assert [worker["host"] for worker in facts["workers"]] == ["n-w0", "n-w1"]
    assert all(worker["external_ip"] for worker in facts["workers"])
    node = client_of(cloud).nodes.get(Emulator.zone, "n")
    assert node.tier == "spot"
    assert node.labels["tpu-fleet"] == "alice"
    assert node.labels["team"] == "x"
    assert node.metadata == {
        "enable-guest-attributes": "TRUE",
        "ssh-keys": key,
        "startup-script": "echo hello",
    }


def test_two_passes_ask_and_wait(cloud: Emulator, module: Any) -> None:
    """Nodes are asked for one after the other and waited for together."""
    cloud.control("clock", {"mode": "manual"})
    first = module("tpu_vm", {**NODE, "wait": False})
    assert first["changed"]
    assert first["tpu_vm"]["state"] == "CREATING"
    cloud.control("clock", {"mode": "immediate"})
    second = module("tpu_vm", NODE)
    assert not second["changed"]
    assert second["tpu_vm"]["state"] == "READY"


def test_node_made_by_others_is_left_alone(cloud: Emulator, module: Any) -> None:
    cloud.populate(1, prefix="theirs")
    name = client_of(cloud).nodes.list().items[0].name
    for state in ("present", "absent"):
        refused = module("tpu_vm", {**NODE, "name": name, "state": state})
        assert refused["kind"] == "refused"
        assert "adopt: true" in refused["msg"]
    assert module("tpu_vm", {**NODE, "name": name, "adopt": True})["changed"]
    assert module("tpu_vm", {**NODE, "name": name, "state": "absent"})["changed"]


def test_preempted_node_is_made_again_when_asked(cloud: Emulator, module: Any) -> None:
    spot = {**NODE, "tier": "spot"}
    uid = module("tpu_vm", spot)["tpu_vm"]["uid"]
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/n:preempt")
    refused = module("tpu_vm", spot)
    assert "PREEMPTED and will never run again" in refused["msg"]
    assert "recreate: true" in refused["remedy"]
    made = module("tpu_vm", {**spot, "recreate": True})
    assert [item["action"] for item in made["actions"]] == ["delete", "create"]
    assert made["tpu_vm"]["uid"] != uid
    assert made["tpu_vm"]["state"] == "READY"


FAULTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("stock_out", {}, "stock_out", "There is no more capacity in the zone"),
    ("quota", {}, "quota", "has been exceeded"),
    ("queue_denied", {}, "permission", "repeating never helps"),
    ("billing_disabled", {}, "permission", "gcloud billing projects link"),
    ("iam_denied", {}, "permission", "add-iam-policy-binding"),
]


@pytest.mark.parametrize(("fault", "fields", "kind", "words"), FAULTS)
def test_failed_creation(
    cloud: Emulator, module: Any, fault: str, fields: dict[str, Any], kind: str, words: str
) -> None:
    cloud.fault(fault, **fields)
    result = module("tpu_vm", NODE)
    assert result["kind"] == kind, result
    assert words in result["msg"]
    assert "EID" not in result["msg"]


PASSING: list[tuple[str, dict[str, Any]]] = [
    ("unavailable", {"count": 2}),
    ("bad_gateway", {"count": 2}),
    ("rate_limit", {"count": 2}),
    ("busy", {"count": 1}),
    ("drop", {"count": 2}),
    ("drop", {"count": 2, "when": "after"}),
    ("not_found_after_create", {"count": 2}),
    ("stuck_operation", {}),
    ("project_number", {}),
    ("unknown_fields", {}),
]


@pytest.mark.parametrize(("fault", "fields"), PASSING)
def test_trouble_on_the_way(
    cloud: Emulator, module: Any, fault: str, fields: dict[str, Any]
) -> None:
    """What passes by itself is waited for, and one node is made once and deleted once."""
    cloud.fault(fault, **fields)
    made = module("tpu_vm", NODE)
    assert made.get("tpu_vm", {}).get("state") == "READY", made
    gone = module("tpu_vm", {**NODE, "state": "absent"})
    assert gone["changed"], gone
    assert client_of(cloud).nodes.list(Emulator.zone).items == []


@pytest.mark.parametrize("method", ["create", "delete"])
def test_answer_that_is_lost_after_the_work_was_done(cloud: Emulator, method: str) -> None:
    client = client_of(cloud)
    body = {
        "acceleratorType": "v4-8",
        "runtimeVersion": "tpu-ubuntu2204-base",
        "labels": {"tpu-fleet-spec": "abc"},
    }
    if method == "delete":
        client.nodes.wait_ready(cloud.zone, "n", client.nodes.create(cloud.zone, "n", body))
    cloud.fault("drop", count=1, when="after")
    if method == "create":
        client.nodes.wait_ready(cloud.zone, "n", client.nodes.create(cloud.zone, "n", body))
        with pytest.raises(_errors.AlreadyExists):
            client.nodes.create(cloud.zone, "n", body)
    else:
        client.nodes.wait_gone(cloud.zone, "n", client.nodes.delete(cloud.zone, "n"))
        with pytest.raises(_errors.NotFound):
            client.nodes.delete(cloud.zone, "n")


def test_info_says_which_zones_are_unknown(cloud: Emulator, module: Any) -> None:
    cloud.populate(1)
    cloud.fault("unreachable", match={"zone": "us-east5-a"})
    result = module("tpu_vm_info", {})
    assert len(result["tpu_vms"]) == 1
    assert result["unreachable_zones"] == ["us-east5-a"]
