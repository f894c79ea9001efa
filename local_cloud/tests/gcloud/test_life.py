"""What one command of gcloud did, another one shows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from program import Gcloud
from recording import RecordingEmulator

# Eighteen starts of gcloud. In CI test_commands.py has each of these commands, test_2_gcloud.py of
# tests/machines/e2e a node from creation to deletion on machines, test_google_cloud_tpu.py queued
# resources that get their nodes, and the unit test_maintenance.py the addresses after one.
pytestmark = pytest.mark.night

TPU_VM = ("compute", "tpus", "tpu-vm")
ZONE = f"--zone={RecordingEmulator.zone}"


def done(gcloud: Gcloud, *words: str) -> str:
    ended = gcloud.run(*words)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def described(gcloud: Gcloud, name: str) -> Any:
    return json.loads(done(gcloud, *TPU_VM, "describe", name, ZONE, "--format=json"))


def test_a_node_from_creation_to_deletion(gcloud: Gcloud) -> None:
    done(
        gcloud, *TPU_VM, "create", "n1", ZONE, "--type=v4", "--topology=2x2x2",
        "--version=tpu-ubuntu2204-base", "--labels=a=b",
    )  # fmt: skip
    made = described(gcloud, "n1")
    assert (made["acceleratorType"], made["state"], made["labels"]) == (
        "v4-16",
        "READY",
        {"a": "b"},
    )
    assert len({e["accessConfig"]["externalIp"] for e in made["networkEndpoints"]}) == 2
    done(
        gcloud, *TPU_VM, "update", "n1", ZONE, "--internal-ips", "--update-labels=x=y",
        "--add-tags=t", "--description=new", "--update-metadata=foo=bar",
    )  # fmt: skip
    updated = described(gcloud, "n1")
    assert updated["labels"] == {"a": "b", "x": "y"}
    assert (updated["tags"], updated["description"]) == (["t"], "new")
    assert updated["metadata"]["foo"] == "bar"
    assert not any("accessConfig" in endpoint for endpoint in updated["networkEndpoints"])
    done(gcloud, *TPU_VM, "delete", "n1", ZONE)
    assert done(gcloud, *TPU_VM, "list", ZONE) == ""


def test_a_queued_resource_from_creation_to_deletion(
    cloud: RecordingEmulator, gcloud: Gcloud
) -> None:
    queued = ("compute", "tpus", "queued-resources")
    done(
        gcloud, *queued, "create", "q1", ZONE, "--node-count=2", "--node-prefix=ms", "--spot",
        "--accelerator-type=v4-8", "--runtime-version=tpu-ubuntu2204-base",
    )  # fmt: skip
    cloud.control("clock", {"mode": "immediate"})
    assert "ACTIVE" in done(gcloud, *queued, "list", ZONE)
    nodes = done(gcloud, *TPU_VM, "list", "--zone=-", "--format=value(name.basename(),state)")
    assert nodes.split() == ["ms-0", "READY", "ms-1", "READY"]
    done(gcloud, *queued, "delete", "q1", ZONE, "--force")
    assert done(gcloud, *queued, "list", ZONE) == ""
    assert done(gcloud, *TPU_VM, "list", ZONE) == ""


def test_simulated_maintenance_gives_another_address(gcloud: Gcloud) -> None:
    done(
        gcloud, *TPU_VM, "create", "n1", ZONE, "--accelerator-type=v4-8",
        "--version=tpu-ubuntu2204-base",
    )  # fmt: skip
    before = described(gcloud, "n1")
    done(gcloud, "alpha", *TPU_VM, "simulate-maintenance-event", "n1", ZONE, "--workers=0")
    after = described(gcloud, "n1")
    assert (after["state"], after["health"]) == ("READY", "HEALTHY")
    assert after["id"] == before["id"]
    (old,), (new,) = before["networkEndpoints"], after["networkEndpoints"]
    assert new["ipAddress"] == old["ipAddress"]
    assert new["accessConfig"] != old["accessConfig"]
