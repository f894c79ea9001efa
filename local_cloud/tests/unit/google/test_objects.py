"""Objects of buckets: what uploads and downloads answer, and what machines may read."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.google import api
from tpu_local_cloud.google.answers import Media
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.store import Store
from tpu_local_cloud.serve.metadata import MetadataApp

DEFAULT = "123456789012-compute@developer.gserviceaccount.com"
EVERYWHERE = ["https://www.googleapis.com/auth/cloud-platform"]
UPLOAD = "/upload/storage/v1/b/lab/o"
ONE = "/storage/v1/b/lab/o/fleet%2Fa.json"


def ask(
    cloud: Cloud, method: str, path: str, body: bytes = b"", kind: str = "", **query: str
) -> Any:
    try:
        found = api.answer(cloud, method, path, query, body, True, kind)
    except ApiError as error:
        return f"{error.http} {error.message}"
    return found.content if isinstance(found, Media) else found


def upload(cloud: Cloud, content: bytes, name: str = "fleet/a.json", **query: str) -> Any:
    return ask(cloud, "POST", UPLOAD, content, "text/plain", uploadType="media", name=name, **query)


@pytest.fixture
def cloud() -> Cloud:
    made = Cloud(NoMachines(), Store(None), Clock("immediate"))
    ask(made, "POST", "/storage/v1/b", b'{"name": "lab"}')
    return made


def test_what_goes_up_comes_down(cloud: Cloud) -> None:
    content = bytes(range(256))
    made = upload(cloud, content)
    assert made["size"] == "256"
    assert base64.b64decode(made["md5Hash"]) == hashlib.md5(content).digest()  # noqa: S324
    assert made["contentType"] == "text/plain"
    assert ask(cloud, "GET", ONE) == made
    assert ask(cloud, "GET", ONE, alt="media") == content
    assert ask(cloud, "GET", f"/download{ONE}", alt="media") == content
    again = upload(cloud, b"more")
    assert int(again["generation"]) > int(made["generation"])
    assert ask(cloud, "DELETE", ONE) == {}
    assert ask(cloud, "GET", ONE) == "404 No such object: lab/fleet/a.json"


def test_multipart_as_google_libraries_send_it(cloud: Cloud) -> None:
    about = json.dumps({"name": "b", "metadata": {"a": "b"}})
    body = (
        f"--==1==\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}\r\n"
        "--==1==\r\nContent-Type: text/x-own\r\n\r\n\0two\r\nlines\r\n--==1==--"
    ).encode()
    kind = 'multipart/related; boundary="==1=="'
    made = ask(cloud, "POST", UPLOAD, body, kind, uploadType="multipart")
    assert (made["name"], made["contentType"], made["metadata"]) == ("b", "text/x-own", {"a": "b"})
    assert ask(cloud, "GET", "/storage/v1/b/lab/o/b", alt="media") == b"\0two\r\nlines"


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        ({"name": ""}, "400 Required"),
        ({"uploadType": "resumable"}, "400 Value"),
        ({"ifGenerationMatch": "0"}, "412 At least one of the pre-conditions"),
        ({"ifGenerationMatch": "1"}, "412 At least one of the pre-conditions"),
    ],
)
def test_refused_uploads(cloud: Cloud, query: dict[str, str], answer: str) -> None:
    upload(cloud, b"first")
    words = {"uploadType": "media", "name": "fleet/a.json", **query}
    assert str(ask(cloud, "POST", UPLOAD, b"second", **words)).startswith(answer)
    assert ask(cloud, "GET", ONE, alt="media") == b"first"


def test_lists(cloud: Cloud) -> None:
    for name in ("fleet/b", "fleet/a", "other", "fleet-of-others"):
        upload(cloud, b"", name)
    path = "/storage/v1/b/lab/o"
    found = ask(cloud, "GET", path, prefix="fleet/")
    assert [item["name"] for item in found["items"]] == ["fleet/a", "fleet/b"]
    folders = ask(cloud, "GET", path, delimiter="/")
    assert folders["prefixes"] == ["fleet/"]
    assert [item["name"] for item in folders["items"]] == ["fleet-of-others", "other"]
    page = ask(cloud, "GET", path, maxResults="3")
    rest = ask(cloud, "GET", path, maxResults="3", pageToken=page["nextPageToken"])
    assert len(page["items"]) == 3
    assert len(rest["items"]) == 1
    assert ask(cloud, "DELETE", "/storage/v1/b/lab") == (
        "409 The bucket you tried to delete is not empty."
    )


@pytest.mark.parametrize(
    ("email", "scopes", "answer"),
    [
        (DEFAULT, EVERYWHERE, b"content"),
        (DEFAULT, ["https://www.googleapis.com/auth/devstorage.read_only"], b"content"),
        (DEFAULT, ["https://www.googleapis.com/auth/logging.write"], b"403 Request had insuff"),
        ("other@example.com", EVERYWHERE, b"403 other@example.com does not have storage.obj"),
    ],
)
def test_machines_read_what_their_account_may(
    cloud: Cloud, email: str, scopes: list[str], answer: bytes
) -> None:
    upload(cloud, b"content")
    try:
        found = api.answer_machine(cloud, ONE, {"alt": "media"}, email, scopes)
        told = found.content if isinstance(found, Media) else b""
    except ApiError as error:
        told = f"{error.http} {error.message}".encode()
    assert told.startswith(answer)


def test_nobody_reads_without_a_token(cloud: Cloud) -> None:
    upload(cloud, b"content")
    client = TestClient(MetadataApp(cloud).asgi)
    assert client.get(f"{ONE}?alt=media").status_code == 401
