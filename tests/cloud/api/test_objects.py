"""Objects of buckets through Google's own client, with answers as its document has them."""

from __future__ import annotations

import io
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
from ansible_collections.tpu.fleet.plugins.module_utils._google.storage import Bucket
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import AuthOptions, Client
from emulator import Emulator
from google_clients import Renewable
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from googleapiclient.http import MediaIoBaseUpload

from tpu_fleet.page.publish import put

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def storage(cloud: Emulator) -> Any:
    """The generic client, from the discovery document that comes with it."""
    service = build(
        "storage",
        "v1",
        credentials=Renewable(),
        client_options={"api_endpoint": f"{cloud.url}storage/v1/"},
        static_discovery=True,
    )
    service.buckets().insert(project=cloud.project, body={"name": "lab"}).execute()
    return service


def media(content: bytes = CONTENT) -> MediaIoBaseUpload:
    return MediaIoBaseUpload(io.BytesIO(content), "application/octet-stream")


def upload(objects: Any, **words: Any) -> Any:
    """Upload something; the client knows no other way for that than TLS."""
    request = objects.insert(bucket="lab", **words)
    request.uri = request.uri.replace("https://", "http://")
    return request.execute()


def test_googles_client_reads_what_it_wrote(storage: Any) -> None:
    objects = storage.objects()
    words = {"name": "fleet/a b.bin", "media_body": media(), "ifGenerationMatch": 0}
    made = upload(objects, **words)
    known = storage._schema.get("Object")["properties"]
    assert set(made) <= set(known)
    with pytest.raises(HttpError, match="pre-conditions"):
        upload(objects, **words)
    one = {"bucket": "lab", "object": "fleet/a b.bin"}
    assert objects.get_media(**one).execute() == CONTENT
    assert objects.get(**one).execute() == made
    # With something said about it, it goes as two parts.
    told = {"metadata": {"of": "lab"}, "name": "fleet/c"}
    both = upload(objects, body=told, media_body=media(b"\r\n--x\r\n\0"))
    assert both["metadata"] == {"of": "lab"}
    assert objects.get_media(bucket="lab", object="fleet/c").execute() == b"\r\n--x\r\n\0"
    page = objects.list(bucket="lab", prefix="fleet/", maxResults=1).execute()
    assert [item["name"] for item in page["items"]] == ["fleet/a b.bin"]
    rest = objects.list_next(objects.list(bucket="lab", prefix="fleet/", maxResults=1), page)
    assert [item["name"] for item in rest.execute()["items"]] == ["fleet/c"]
    objects.delete(**one).execute()
    with pytest.raises(HttpError, match=r"No such object: lab/fleet/a b\.bin"):
        objects.get(**one).execute()


def test_what_we_publish_googles_client_finds(cloud: Emulator, storage: Any) -> None:
    auth = AuthOptions()
    client = Client(cloud.project, endpoint=cloud.url, auth=auth)
    place = Bucket(GoogleApis(client), auth, "lab", "fleet/")
    assert place.names("files/") == set()
    nowhere = Bucket(GoogleApis(client), auth, "none", "")
    with pytest.raises(TpuError, match="There is no bucket none"):
        nowhere.names("files/")
    assert place.read("slices/a.json") is None
    place.put("files/b", CONTENT)
    place.put("slices/a.json", b'{"a": 1}')
    assert place.names("files/") == {"files/b"}
    assert place.read("slices/a.json") == {"a": 1}
    get = storage.objects().get_media(bucket="lab", object="fleet/files/b")
    assert get.execute() == CONTENT
    put("gs://lab/fleet", "<p>é", lambda: client)
    about = storage.objects().get(bucket="lab", object="fleet/index.html").execute()
    assert about["contentType"] == "text/html; charset=utf-8"
    assert place.names("") >= {"index.html"}
