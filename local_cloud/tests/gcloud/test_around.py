"""gcloud's own commands for what is around the slices."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator
from program import Run

# In CI local_cloud/tests/api asks the same of these services by Google's own libraries.
pytestmark = pytest.mark.night

ZONE = f"--zone={Emulator.zone}"
TPU_VM = ("compute", "tpus", "tpu-vm")
ACCOUNT = f"tpu-fleet@{Emulator.project}.iam.gserviceaccount.com"


def shown(text: str) -> Any:
    return json.loads(text)


def test_disks(run: Run) -> None:
    run("compute", "disks", "create", "d", ZONE, "--size=20GB", "--type=pd-balanced")
    assert "pd-balanced" in run("compute", "disks", "list")
    run(*TPU_VM, "create", "n", ZONE, "--accelerator-type=v4-8", "--version=tpu-ubuntu2204-base")
    attach = ("alpha", *TPU_VM, "attach-disk", "n", ZONE, "--mode=read-write")
    run(*attach, "--disk=d")
    disk = shown(run("compute", "disks", "describe", "d", ZONE, "--format=json"))
    assert len(disk["users"]) == 1
    assert "is already being used by" in run("compute", "disks", "delete", "d", ZONE, fails=True)
    assert "was not found" in run(*attach, "--disk=none", fails=True)
    run("alpha", *TPU_VM, "detach-disk", "n", ZONE, "--disk=d")
    run("compute", "disks", "resize", "d", ZONE, "--size=30")
    run("compute", "disks", "delete", "d", ZONE)


def test_firewall_rules(run: Run) -> None:
    rule = ("compute", "firewall-rules")
    run(*rule, "create", "m", "--allow=udp:60000-61000", "--source-ranges=203.0.113.0/24")
    assert "udp:60000-61000" in run(*rule, "list")
    run(*rule, "update", "m", "--source-ranges=198.51.100.0/24")
    seen = shown(run(*rule, "describe", "m", "--format=json"))
    assert seen["sourceRanges"] == ["198.51.100.0/24"]
    run(*rule, "delete", "m")


def test_services(run: Run) -> None:
    run("services", "disable", "tpu.googleapis.com", "--force")
    assert "has not been used in project" in run(*TPU_VM, "list", ZONE, fails=True)
    run("services", "enable", "tpu.googleapis.com")
    run(*TPU_VM, "list", ZONE)
    assert "tpu.googleapis.com" in run("services", "list", "--enabled")


def test_accounts_and_policies(run: Run) -> None:
    run("iam", "service-accounts", "create", "tpu-fleet", "--display-name=Machines")
    assert ACCOUNT in run("iam", "service-accounts", "list")
    binding = ("--member=serviceAccount:" + ACCOUNT, "--role=roles/logging.logWriter")
    project = ("projects", "add-iam-policy-binding", Emulator.project)
    run(*project, *binding, "--condition=None")
    assert ACCOUNT in run("projects", "get-iam-policy", Emulator.project)
    nobody = binding[0].replace("tpu-fleet", "nobody")
    assert "does not exist" in run(*project, nobody, binding[1], "--condition=None", fails=True)
    run("storage", "buckets", "create", "gs://lab-data")
    bucket = ("storage", "buckets", "add-iam-policy-binding", "gs://lab-data")
    run(*bucket, binding[0], "--role=roles/storage.objectUser")
    assert ACCOUNT in run("storage", "buckets", "get-iam-policy", "gs://lab-data")
    run("iam", "service-accounts", "delete", ACCOUNT)
    assert f"deleted:serviceAccount:{ACCOUNT}" in run(
        "projects", "get-iam-policy", Emulator.project
    )


def test_objects(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("two\nlines\n")
    run("storage", "buckets", "create", "gs://lab-data")
    run("storage", "cp", str(file), "gs://lab-data/fleet/file")
    assert "gs://lab-data/fleet/file" in run("storage", "ls", "gs://lab-data/fleet/")


def test_metadata(run: Run) -> None:
    run("compute", "project-info", "add-metadata", "--metadata=a=b")
    items = shown(run("compute", "project-info", "describe", "--format=json"))
    assert {"key": "a", "value": "b"} in items["commonInstanceMetadata"]["items"]
