"""The server as a program: auth, faults on the wire, compute, restarts, scale."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import requests
from emulator import Emulator

ZONE = f"projects/{Emulator.project}/locations/{Emulator.zone}"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}


def get(cloud: Emulator, path: str, **more: Any) -> requests.Response:
    return requests.get(f"{cloud.url}{path}", timeout=30, **more)


def create(cloud: Emulator, name: str = "n1") -> requests.Response:
    url = f"{cloud.url}v2/{ZONE}/nodes"
    return requests.post(url, params={"nodeId": name}, json=BODY, timeout=30)


def test_no_token_is_needed_unless_it_is_asked_for(cloud: Emulator) -> None:
    assert get(cloud, f"v2/{ZONE}/nodes").json() == {}
    cloud.control("auth", {"required": True})
    refused = get(cloud, f"v2/{ZONE}/nodes")
    assert (refused.status_code, refused.json()["error"]["status"]) == (401, "UNAUTHENTICATED")
    assert refused.headers["WWW-Authenticate"].startswith("Bearer ")
    token = {"Authorization": "Bearer t"}
    assert get(cloud, f"v2/{ZONE}/nodes", headers=token).status_code == 200


def test_a_request_id_makes_a_request_repeatable(cloud: Emulator) -> None:
    url = f"{cloud.url}v2alpha1/{ZONE}/nodes"
    params = {"nodeId": "n1", "requestId": "7f1c1c39-6a0c-4f8c-9f0e-0c3b1b1d7a55"}
    first, again = (requests.post(url, params=params, json=BODY, timeout=30) for _ in range(2))
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["name"] == again.json()["name"]
    params["requestId"] = "0d3f3e0e-55a5-4c0f-8a1e-3f0b8a7c2b11"
    assert requests.post(url, params=params, json=BODY, timeout=30).status_code == 409


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("v2/projects/other/locations/-/nodes", 403, "Permission 'tpu.nodes.list' denied on"),
        (
            "v2/projects/local-project/locations/mars-north1-a/nodes",
            403,
            "Permission denied on 'locations/mars-north1-a' (or it may not exist).",
        ),
        (f"v2/{ZONE}/nodes/none", 404, f"Resource '{ZONE}/nodes/none' was not found"),
        (f"v2/{ZONE}/nodes?pageSize=-1", 400, "Invalid argument: 'page_size'"),
        (f"v2/{ZONE}/nodes?pageToken=x", 400, "The request was invalid: invalid page token"),
    ],
)
def test_refusals(cloud: Emulator, path: str, status: int, text: str) -> None:
    error = get(cloud, path).json()["error"]
    assert error["code"] == status
    assert error["message"].startswith(text)


def test_the_projects_number_is_as_good_as_its_id(cloud: Emulator) -> None:
    create(cloud)
    by_number = f"v2/projects/123456789012/locations/{Emulator.zone}/nodes/n1"
    assert get(cloud, by_number).json()["name"] == f"{ZONE}/nodes/n1"
    cloud.fault("project_number")
    assert get(cloud, f"v2/{ZONE}/nodes/n1").json()["name"].startswith("projects/123456789012/")


@pytest.mark.parametrize(("after", "left"), [(False, 404), (True, 200)])
def test_a_cut_connection_before_and_after_the_work(
    cloud: Emulator, after: bool, left: int
) -> None:
    cloud.fault("drop", count=1, after=after)
    with pytest.raises(requests.RequestException):
        create(cloud).json()
    assert get(cloud, f"v2/{ZONE}/nodes/n1").status_code == left


def test_the_front_ends_page(cloud: Emulator) -> None:
    cloud.fault("bad_gateway", count=1)
    answer = get(cloud, f"v2/{ZONE}/nodes")
    assert (answer.status_code, answer.headers["Content-Type"][:9]) == (502, "text/html")
    assert get(cloud, f"v2/{ZONE}/nodes").status_code == 200


def test_rate_limit_and_quota_tell_themselves_apart(cloud: Emulator) -> None:
    cloud.fault("rate_limit", count=1, retry_after=7)
    rate = create(cloud)
    assert (rate.status_code, rate.headers["Retry-After"]) == (429, "7")
    assert rate.json()["error"]["details"][0]["reason"] == "RATE_LIMIT_EXCEEDED"
    cloud.fault("quota", count=1, limit=4)
    quota = create(cloud)
    assert (quota.status_code, "Retry-After" in quota.headers) == (429, False)
    assert quota.json()["error"]["details"][0]["@type"].endswith("google.rpc.QuotaFailure")
    assert "Limit: 4 in zone us-central2-b." in quota.json()["error"]["message"]


def test_the_projects_metadata(cloud: Emulator) -> None:
    url = f"{cloud.url}compute/v1/projects/{cloud.project}"
    before = requests.get(url, timeout=30).json()["commonInstanceMetadata"]
    base64.b64decode(before["fingerprint"], validate=True)
    body = {"fingerprint": before["fingerprint"], "items": [{"key": "ssh-keys", "value": "me:k"}]}
    done = requests.post(f"{url}/setCommonInstanceMetadata", json=body, timeout=30).json()
    assert done["status"] == "DONE"
    polled = requests.get(f"{url}/global/operations/{done['name']}", timeout=30).json()
    assert polled["status"] == "DONE"
    after = requests.get(url, timeout=30).json()["commonInstanceMetadata"]
    assert after["items"] == body["items"]
    # Somebody else's change in between is not overwritten.
    stale = requests.post(f"{url}/setCommonInstanceMetadata", json=body, timeout=30)
    assert stale.status_code in (400, 412)


def test_a_manual_clock(cloud: Emulator) -> None:
    cloud.control("clock", {"mode": "manual"})
    create(cloud)
    assert get(cloud, f"v2/{ZONE}/nodes/n1").json()["state"] == "CREATING"
    cloud.control("clock", {"advance": 3600})
    assert get(cloud, f"v2/{ZONE}/nodes/n1").json()["state"] == "READY"


def test_ten_thousand_nodes(cloud: Emulator) -> None:
    begun = time.monotonic()
    cloud.populate(10_000)
    cloud.populate(40, prefix="pod", acceleratorType="v4-2048")
    made = time.monotonic() - begun
    begun, names, workers, token = time.monotonic(), set(), 0, ""
    while True:
        query = {"pageSize": 1000, "pageToken": token}
        where = f"v2/projects/{cloud.project}/locations/-/nodes"
        answer = get(cloud, where, params=query).json()
        names |= {node["name"] for node in answer["nodes"]}
        workers += sum(len(node["networkEndpoints"]) for node in answer["nodes"])
        token = answer.get("nextPageToken", "")
        if not token:
            break
    listed = time.monotonic() - begun
    assert (len(names), workers) == (10_040, 20_240)
    # Measured 1 s and 0.6 s; the limits leave room for a busy computer.
    assert made < 20
    assert listed < 20


def test_another_server_goes_on_where_one_stopped(tmp_path: Path) -> None:
    first = Emulator(state_dir=str(tmp_path))
    begun = create(first).json()["name"]
    node = get(first, f"v2/{ZONE}/nodes/n1").json()
    first.stop()
    second = Emulator(state_dir=str(tmp_path))
    try:
        assert get(second, f"v2/{ZONE}/nodes/n1").json() == node
        assert get(second, f"v2/{begun}").json()["done"] is True
        seen = second.control("state", method="GET")["nodes"][0]
        assert seen["workers"][0]["power"] == "running"
    finally:
        second.stop()


class Process:
    """The server as `tpu-fleet cloud up` starts it."""

    def __init__(self, state_dir: Path) -> None:
        self.pid_file = state_dir / "server.pid"
        config = {"port": 0, "hosts": "none", "clock": "real", "state_dir": str(state_dir)}
        config["delays"] = {"create": 3.0}
        config["port"] = _free_port()
        self.url = f"http://127.0.0.1:{config['port']}/"
        file = state_dir / "config.json"
        file.write_text(json.dumps(config))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tpu_fleet.cloud.server", "--config", str(file)]
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                requests.get(f"{self.url}_cloud/state", timeout=5)
                return
            except requests.ConnectionError:
                assert self.process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.1)

    def end(self, number: signal.Signals) -> int:
        os.kill(self.process.pid, number)
        return self.process.wait(20)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_process_ends_and_comes_back(tmp_path: Path, number: signal.Signals) -> None:
    """Also when it is killed in the middle of an operation."""
    first = Process(tmp_path)
    assert int(first.pid_file.read_text()) == first.process.pid
    url = f"{first.url}v2/{ZONE}/nodes"
    begun = requests.post(url, params={"nodeId": "n1"}, json=BODY, timeout=30).json()["name"]
    code = first.end(number)
    if number is signal.SIGTERM:
        assert code == 0
        assert not first.pid_file.exists()
    second = Process(tmp_path)
    try:
        deadline = time.monotonic() + 20
        while not requests.get(f"{second.url}v2/{begun}", timeout=30).json()["done"]:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        node = requests.get(f"{second.url}v2/{ZONE}/nodes/n1", timeout=30).json()
        assert node["state"] == "READY"
    finally:
        second.end(signal.SIGTERM)
