"""The commands by which the cloud's owner decides what becomes of what is queued."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner, Result
from emulator import Emulator

from tpu_local_cloud.commands.cloud import cloud as command

ZONE = f"projects/{Emulator.project}/locations/{Emulator.zone}"


@pytest.fixture(autouse=True)
def this_cloud(cloud: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TPU_FLEET_CLOUD_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU", cloud.url)
    cloud.fault("stock_out")


def run(*words: str, fails: bool = False) -> Result:
    result = CliRunner().invoke(command, words)
    assert (result.exit_code != 0) is fails, result.output
    return result


def create(cloud: Emulator, name: str = "q", zone: str = Emulator.zone, **more: Any) -> None:
    parent = ZONE.replace(Emulator.zone, zone)
    kind = "v4-8" if zone == Emulator.zone else "v5litepod-4"
    node = {"acceleratorType": kind, "runtimeVersion": "tpu-ubuntu2204-base"}
    spec = {"parent": parent, "nodeId": f"{name}-node", "node": node}
    body = {"tpu": {"nodeSpec": [spec]}, **more}
    url = f"{cloud.url}v2/{parent}/queuedResources?queuedResourceId={name}"
    requests.post(url, json=body, timeout=20).raise_for_status()


def shown(cloud: Emulator) -> dict[str, str]:
    found = cloud.control("state", method="GET")["queued_resources"]
    return {each["queued_resource"]: each["state"] for each in found}


def test_hold_grant_suspend_and_fail(cloud: Emulator) -> None:
    create(cloud)
    run("queue", "hold", "q")
    run("fault", "clear")
    assert shown(cloud) == {"q": "WAITING_FOR_RESOURCES"}
    run("queue", "grant", "q")
    assert shown(cloud) == {"q": "ACTIVE"}
    assert (
        "Queued resource q in us-central2-b: ACTIVE, on_demand, for q-node." in run("status").output
    )
    run("suspend", "q", "--by-user")
    assert shown(cloud) == {"q": "SUSPENDED"}
    create(cloud, "r")
    run("queue", "fail", "r", "--status", "PERMISSION_DENIED", "--message", "no")
    assert shown(cloud)["r"] == "FAILED"


def test_what_cannot_be_meant_is_said(cloud: Emulator) -> None:
    nothing = "there is no queued resource q; there is none at all"
    assert nothing in run("suspend", "q", fails=True).output
    create(cloud)
    assert "there is no queued resource x; there is q" in run("suspend", "x", fails=True).output
    # The words of a person, and neither an address nor a class of Python's.
    wrong = run("delays", "creat=1", fails=True).output
    assert wrong.startswith("Error: there is no delay 'creat'; there are: all, create, ")
    create(cloud, zone="us-central1-a")
    assert "choose by --zone" in run("suspend", "q", fails=True).output
    run("suspend", "q", "--zone", Emulator.zone)
    again = run("suspend", "q", "--zone", Emulator.zone, fails=True)
    assert "not supported while in state SUSPENDED" in again.output
    for verb in ("hold", "grant"):
        late = run("queue", verb, "q", "--zone", Emulator.zone, fails=True).output
        assert f"{verb} is not supported while in state SUSPENDED" in late
    fault = run("fault", "add", "unavailable", "--match", "zone=moon").output.strip()
    unknown = run("fault", "clear", "beef", fails=True).output
    assert unknown.startswith("Error: there is no fault beef; there is ")
    assert fault in unknown
    run("fault", "clear", fault)
    assert "NONSENSE" in run(
        "queue", "fail", "q", "--zone", "us-central1-a", "--status", "NONSENSE", fails=True
    ).output  # fmt: skip


def test_reservations(cloud: Emulator) -> None:
    run("reservation", "add", "big", "--zone", Emulator.zone, "--chips", "16", "--type", "v4")
    (big,) = json.loads(run("reservation", "list").output)["reservations"]
    assert (big["name"], big["chips"], big["used"]) == ("big", 16, 0)
    run("reservation", "remove", "big", "--zone", Emulator.zone)
    assert json.loads(run("reservation", "list").output) == {"reservations": []}
    assert "there is no reservation" in run(
        "reservation", "remove", "big", "--zone", Emulator.zone, fails=True
    ).output  # fmt: skip
    wrong = run("reservation", "add", "big", "--zone", "moon", "--chips", "1", fails=True)
    assert "zone 'moon' is none of" in wrong.output
    place = ("--zone", Emulator.zone, "--chips", "1")
    wrong = run("reservation", "add", "big", *place, "--type", "v44-16", fails=True)
    assert "type 'v44-16' is no type such as v4-8, and none of the generations v2, " in wrong.output
