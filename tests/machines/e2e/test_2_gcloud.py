"""The unmodified gcloud on the machines of the local cloud."""

from __future__ import annotations

import json
import os
import shlex
import shutil

import pytest
from fleet import Fleet


@pytest.fixture
def gcloud_env(fleet: Fleet) -> dict[str, str]:
    """The exports of `tpu-fleet cloud env`, and a home that is gcloud's alone."""
    if shutil.which("gcloud") is None:
        if os.environ.get("TPU_FLEET_NO_GCLOUD") == "1":
            pytest.skip("TPU_FLEET_NO_GCLOUD=1 says that this machine has no gcloud")
        pytest.fail("gcloud is missing: install it, or say TPU_FLEET_NO_GCLOUD=1")
    home = fleet.folder / "gcloud-home"
    home.mkdir(exist_ok=True)
    exports = fleet.run("tpu-fleet", "cloud", "env").splitlines()
    words = [shlex.split(line)[1].split("=", 1) for line in exports if line.startswith("export ")]
    # gcloud asks for the place of its ssh files through HOME.
    return {**dict(words), "HOME": str(home), "CLOUDSDK_CONFIG": str(home / "config")}


def test_gcloud_runs_a_command_on_all_workers(fleet: Fleet, gcloud_env: dict[str, str]) -> None:
    out = fleet.run(
        "gcloud", "compute", "tpus", "tpu-vm", "ssh", "tester@pair", "--zone=us-central2-b",
        "--worker=all", "--command=hostname; sudo id -u", **gcloud_env,
    )  # fmt: skip
    machines = [worker["machine"] for worker in fleet.cloud()["pair"]["workers"]]
    lines = out.splitlines()
    assert all(machine in lines for machine in machines)
    assert lines.count("0") == 2  # sudo needs no password


def test_gcloud_makes_a_machine_that_one_can_log_in_to(
    fleet: Fleet, gcloud_env: dict[str, str]
) -> None:
    tpu_vm = ("gcloud", "compute", "tpus", "tpu-vm")
    zone = "--zone=us-central2-b"
    fleet.run(
        *tpu_vm, "create", "by-hand", zone, "--accelerator-type=v4-8",
        "--version=tpu-ubuntu2204-base", **gcloud_env,
    )  # fmt: skip
    listed = json.loads(fleet.run(*tpu_vm, "list", zone, "--format=json", **gcloud_env))
    assert "by-hand" in {node["name"].rsplit("/", 1)[-1] for node in listed}
    fleet.run(*tpu_vm, "update", "by-hand", zone, "--update-labels=team=vision", **gcloud_env)
    seen = json.loads(
        fleet.run(*tpu_vm, "describe", "by-hand", zone, "--format=json", **gcloud_env)
    )
    assert seen["labels"] == {"team": "vision"}
    out = fleet.run(*tpu_vm, "ssh", "tester@by-hand", zone, "--command=whoami", **gcloud_env)
    assert "tester" in out.splitlines()

    # It is not ours: it carries no label of the fleet.
    refused = fleet.run(
        "ansible", "localhost", "-m", "tpu.fleet.tpu_vm", "-a",
        "name=by-hand zone=us-central2-b state=absent project=local-project "
        f"api_endpoint=http://127.0.0.1:{fleet.port}/", ok=False,
    )  # fmt: skip
    assert "adopt" in refused
    fleet.run(*tpu_vm, "delete", "by-hand", zone, "--quiet", **gcloud_env)
    assert "by-hand" not in fleet.cloud()
