"""`gcloud compute tpus` as people type it."""

from __future__ import annotations

import json
from collections.abc import Callable
from subprocess import CompletedProcess
from typing import Any

import pytest
from emulator import Emulator

Gcloud = Callable[..., CompletedProcess[str]]
TPU_VM = ("compute", "tpus", "tpu-vm")
ZONE = f"--zone={Emulator.zone}"
VERSION = "--version=tpu-ubuntu2204-base"


def shown(done: CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)


def describe(gcloud: Gcloud, name: str = "n1") -> Any:
    return shown(gcloud(*TPU_VM, "describe", name, ZONE, "--format=json"))


def test_create_describe_list_delete(gcloud: Gcloud) -> None:
    gcloud(*TPU_VM, "create", "n1", ZONE, "--accelerator-type=v4-16", VERSION, "--labels=a=b")
    node = describe(gcloud)
    assert (node["state"], node["health"]) == ("READY", "HEALTHY")
    assert node["labels"] == {"a": "b"}
    assert len({e["accessConfig"]["externalIp"] for e in node["networkEndpoints"]}) == 2
    listed = shown(gcloud(*TPU_VM, "list", "--zone=-", "--format=json"))
    assert [item["name"] for item in listed] == [node["name"]]
    assert "n1" in gcloud(*TPU_VM, "list", ZONE).stdout
    gcloud(*TPU_VM, "delete", "n1", ZONE)
    assert gcloud(*TPU_VM, "list", ZONE).stdout == ""
    assert "NOT_FOUND" in gcloud(*TPU_VM, "describe", "n1", ZONE, fails=True).stderr


def test_create_by_topology(gcloud: Gcloud) -> None:
    gcloud(*TPU_VM, "create", "n1", ZONE, "--type=v4", "--topology=2x2x2", VERSION)
    assert describe(gcloud)["acceleratorType"] == "v4-16"


def test_update(gcloud: Gcloud) -> None:
    gcloud(*TPU_VM, "create", "n1", ZONE, "--accelerator-type=v4-8", VERSION, "--labels=a=b")
    gcloud(
        *TPU_VM, "update", "n1", ZONE, "--update-labels=x=y", "--add-tags=t", "--description=new",
        "--update-metadata=foo=bar",
    )  # fmt: skip
    node = describe(gcloud)
    assert node["labels"] == {"a": "b", "x": "y"}
    assert (node["tags"], node["description"]) == (["t"], "new")
    assert node["metadata"]["foo"] == "bar"
    gcloud(*TPU_VM, "update", "n1", ZONE, "--internal-ips")
    endpoint = describe(gcloud)["networkEndpoints"][0]
    assert "externalIp" not in endpoint.get("accessConfig", {})


def test_stop_and_start(gcloud: Gcloud) -> None:
    gcloud(*TPU_VM, "create", "n1", ZONE, "--accelerator-type=v4-8", VERSION)
    gcloud(*TPU_VM, "stop", "n1", ZONE)
    assert describe(gcloud)["state"] == "STOPPED"
    gcloud(*TPU_VM, "start", "n1", ZONE)
    assert describe(gcloud)["state"] == "READY"


def test_guest_attributes(cloud: Emulator, gcloud: Gcloud) -> None:
    cloud.populate(1, acceleratorType="v4-32")
    found = shown(
        gcloud(*TPU_VM, "get-guest-attributes", "node-0", ZONE, "--query-path=hostkeys/",
               "--format=json")
    )  # fmt: skip
    assert [item["worker_id"] for item in found] == [0, 1, 2, 3]
    assert {item["key"] for item in found} == {"ssh-ed25519"}


def test_simulated_maintenance_gives_another_address(gcloud: Gcloud) -> None:
    gcloud(*TPU_VM, "create", "n1", ZONE, "--accelerator-type=v4-8", VERSION)
    before = describe(gcloud)
    gcloud("alpha", *TPU_VM, "simulate-maintenance-event", "n1", ZONE, "--workers=0")
    after = describe(gcloud)
    assert (after["state"], after["health"]) == ("READY", "HEALTHY")
    assert after["id"] == before["id"]
    old, new = (n["networkEndpoints"][0] for n in (before, after))
    assert new["ipAddress"] == old["ipAddress"]
    assert new["accessConfig"] != old["accessConfig"]


def test_what_the_zones_offer(gcloud: Gcloud) -> None:
    types = gcloud(*TPU_VM, "accelerator-types", "list", ZONE).stdout.split()
    assert "v4-8" in types
    assert "v6e-8" not in types
    assert "tpu-ubuntu2204-base" in gcloud(*TPU_VM, "versions", "list", ZONE).stdout
    assert Emulator.zone in gcloud("compute", "tpus", "locations", "list").stdout


def test_the_old_list(cloud: Emulator, gcloud: Gcloud) -> None:
    cloud.populate(1)
    assert "node-0" in gcloud("compute", "tpus", "list", ZONE).stdout


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("api_disabled", "Cloud TPU API has not been used in project"),
        (
            "location_denied",
            "Permission denied on 'locations/us-central2-b' (or it may not exist).",
        ),
        ("iam_denied", "Permission 'tpu.nodes.list' denied on"),
        ("rate_limit", "RESOURCE_EXHAUSTED"),
    ],
)
def test_refusals_reach_the_person(cloud: Emulator, gcloud: Gcloud, fault: str, words: str) -> None:
    cloud.fault(fault)
    assert words in gcloud(*TPU_VM, "list", ZONE, fails=True).stderr


def test_stock_out_reaches_the_person(cloud: Emulator, gcloud: Gcloud) -> None:
    cloud.fault("stock_out")
    done = gcloud(*TPU_VM, "create", "n1", ZONE, "--accelerator-type=v4-8", VERSION, fails=True)
    assert "There is no more capacity in the zone" in done.stderr
    assert '"code": 8' in done.stderr


def test_ssh_goes_to_every_worker(cloud: Emulator, gcloud: Gcloud) -> None:
    cloud.populate(1, acceleratorType="v4-32")
    node = describe(gcloud, "node-0")
    done = gcloud(
        *TPU_VM, "ssh", "me@node-0", ZONE, "--worker=all", "--command=hostname", "--dry-run"
    )
    lines = [line for line in done.stdout.splitlines() if "HostKeyAlias=" in line]
    assert len(lines) == 4
    for worker, (line, endpoint) in enumerate(zip(lines, node["networkEndpoints"], strict=True)):
        assert f"HostKeyAlias=tpu.{node['id']}-{worker}-" in line
        assert f"me@{endpoint['accessConfig']['externalIp']} " in line


def test_ssh_to_one_worker_over_the_internal_address(cloud: Emulator, gcloud: Gcloud) -> None:
    cloud.populate(1, acceleratorType="v4-32")
    node = describe(gcloud, "node-0")
    done = gcloud(*TPU_VM, "ssh", "me@node-0", ZONE, "--worker=2", "--internal-ip", "--dry-run")
    assert f"me@{node['networkEndpoints'][2]['ipAddress']}" in done.stdout


def test_ssh_to_a_preempted_node_is_refused(cloud: Emulator, gcloud: Gcloud) -> None:
    cloud.populate(1)
    cloud.control(f"nodes/{cloud.project}/{cloud.zone}/node-0:preempt")
    done = gcloud(*TPU_VM, "ssh", "me@node-0", ZONE, "--dry-run", fails=True)
    assert 'terminal state "PREEMPTED"' in done.stderr
