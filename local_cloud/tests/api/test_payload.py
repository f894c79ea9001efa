"""Requests that no answer may die of: bad characters, deep nesting, huge and half bodies."""

from __future__ import annotations

import json
import logging
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from emulator import Emulator

ZONE = f"projects/{Emulator.project}/locations/{Emulator.zone}"
NODES = f"v2/{ZONE}/nodes"
INSTANCES = f"compute/v1/projects/{Emulator.project}/zones/us-east5-a/instances"
BODY = {"acceleratorType": "v4-8", "runtimeVersion": "tpu-ubuntu2204-base"}
# A startup script in Latin-1, as Python reads it with surrogateescape.
LATIN = "echo caf\udce9"


def error(answer: requests.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("path", "method", "body"),
    [
        (f"{NODES}?nodeId=s", "POST", {**BODY, "description": "\ud800"}),
        (f"{NODES}?nodeId=s", "POST", {**BODY, "metadata": {"startup-script": LATIN}}),
        (f"{NODES}/n1?updateMask=labels", "PATCH", {"labels": {"\udfff": "x"}}),
        (f"v2/{ZONE}/queuedResources?queuedResourceId=q", "POST", {"tpu": LATIN}),
        (INSTANCES, "POST", {"name": LATIN}),
        (f"compute/v1/projects/{Emulator.project}/zones/us-east5-a/disks", "POST", {"name": LATIN}),
        ("storage/v1/b", "POST", {"name": "b", "labels": {"a": LATIN}}),
        ("_cloud/delays", "POST", {LATIN: 1}),
    ],
)
def test_half_of_a_surrogate_pair_is_no_character(
    cloud: Emulator, path: str, method: str, body: Any
) -> None:
    answer = requests.request(method, f"{cloud.url}{path}", data=json.dumps(body), timeout=30)
    status, text = error(answer)
    assert (status, text.partition("\n")[0]) == (
        400,
        "Invalid JSON payload received. Missing low surrogate.",
    )
    for listed in (NODES, f"v2/{ZONE}/operations", INSTANCES):
        assert requests.get(f"{cloud.url}{listed}", timeout=30).status_code == 200


@pytest.mark.parametrize("path", [f"{NODES}?nodeId=n1", INSTANCES])
def test_deep_nesting_is_a_refusal(cloud: Emulator, path: str) -> None:
    answer = requests.post(f"{cloud.url}{path}", data='{"a": ' * 100_000, timeout=30)
    text = "Invalid JSON payload received. Message too deep. Max recursion depth reached"
    assert error(answer) == (400, f"{text} for key 'a'")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_is_as_large_as_google_reads(cloud: Emulator, chunked: bool) -> None:
    most = 10_485_760
    for size in (most, most + 1):
        data: Any = b'"' + b"x" * (size - 2) + b'"'
        sent = iter([data[:100], data[100:]]) if chunked else data
        answer = requests.post(f"{cloud.url}{NODES}?nodeId=n1", data=sent, timeout=60)
        assert answer.status_code == 400
        too_large = f"Request payload size exceeds the limit: {most} bytes."
        assert (answer.json()["error"]["message"] == too_large) is (size > most)
    assert requests.get(f"{cloud.url}{NODES}", timeout=30).json() == {}


def test_an_upload_may_be_larger(cloud: Emulator) -> None:
    url = f"{cloud.url}storage/v1/b"
    requests.post(url, json={"name": "bucket"}, timeout=30).raise_for_status()
    url = f"{cloud.url}upload/storage/v1/b/bucket/o?uploadType=media&name=large"
    assert requests.post(url, data=b"x" * 11_000_000, timeout=60).status_code == 200


def test_a_client_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    cloud = Emulator()
    where = urlsplit(cloud.url)
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(caplog.handler)
    try:
        for _ in range(5):
            with socket.create_connection((where.hostname, where.port)) as line:
                head = f"POST /{NODES}?nodeId=n1 HTTP/1.1\r\nHost: localhost\r\n"
                line.sendall(f"{head}Content-Length: 1000\r\n\r\nhalf".encode())
                line.shutdown(socket.SHUT_WR)
                assert line.recv(1000) == b""
        assert requests.get(f"{cloud.url}{NODES}", timeout=30).status_code == 200
    finally:
        # It ends when all requests have.
        cloud.stop()
        logger.removeHandler(caplog.handler)
    assert caplog.text == ""


def test_a_full_disk_is_said(tmp_path: Path) -> None:
    cloud = Emulator(state_dir=str(tmp_path))
    rows: Any = cloud.server.cloud.store._rows
    url = f"{cloud.url}{NODES}"
    try:
        rows._db.execute("PRAGMA max_page_count = 1")
        asked = {**BODY, "metadata": {"a": "x" * 200_000}}
        refused = requests.post(url, params={"nodeId": "n1"}, json=asked, timeout=30)
        status, text = error(refused)
        assert status == 500
        assert text.startswith("The local cloud cannot save the change: the disk of this computer")
        assert requests.get(url, timeout=30).status_code == 200
    finally:
        rows._db.execute("PRAGMA max_page_count = 100000")
        cloud.stop()
