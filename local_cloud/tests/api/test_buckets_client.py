"""What Google's own library for Cloud Storage does with a bucket, unmodified."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from emulator import Emulator
from google.api_core.exceptions import (
    BadRequest,
    Conflict,
    NotFound,
    PreconditionFailed,
    RequestRangeNotSatisfiable,
)
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage
from google.cloud.storage import transfer_manager

# More than 8 MiB, from which on the library uploads resumably.
BIG = os.urandom(9 * 1024 * 1024 + 17)


@pytest.fixture
def client(cloud: Emulator) -> Any:
    options = {"api_endpoint": cloud.url.rstrip("/")}
    credentials = AnonymousCredentials()  # type: ignore[no-untyped-call]
    return storage.Client(cloud.project, credentials, client_options=options)


@pytest.fixture
def bucket(client: Any) -> Any:
    return client.create_bucket("lab")


def put(bucket: Any, name: str, content: bytes | str = b"x", **more: Any) -> Any:
    blob = bucket.blob(name)
    blob.upload_from_string(content, retry=None, **more)
    return blob


def get(bucket: Any, name: str, **more: Any) -> bytes:
    content: bytes = bucket.blob(name).download_as_bytes(retry=None, **more)
    return content


def names(found: Any) -> list[str]:
    return [blob.name for blob in found]


# Uploads and downloads --------------------------------------------------------------------------


def test_multipart(bucket: Any) -> None:
    blob = bucket.blob("a/one.txt")
    blob.metadata = {"k": "v"}
    blob.upload_from_string(b"hello", content_type="text/plain", retry=None)
    assert (blob.size, blob.content_type, blob.metadata) == (5, "text/plain", {"k": "v"})
    assert blob.generation
    assert (blob.crc32c, blob.md5_hash) == ("mnG7TA==", "XUFAKrxLKna5cZ2REBfFkg==")
    assert get(bucket, "a/one.txt") == b"hello"
    [listed] = bucket.list_blobs(prefix="a/")
    assert (listed.crc32c, listed.md5_hash) == (blob.crc32c, blob.md5_hash)
    assert listed.time_created == listed.updated


def test_resumable_in_chunks(bucket: Any) -> None:
    blob = bucket.blob("big", chunk_size=1 << 20)
    blob.upload_from_file(io.BytesIO(BIG), size=len(BIG), retry=None)
    assert get(bucket, "big") == BIG
    assert get(bucket, "big", start=100, end=199) == BIG[100:200]
    with bucket.blob("big").open("rb", chunk_size=256 * 1024) as file:
        file.seek(1_000_000)
        assert file.read(10) == BIG[1_000_000:1_000_010]


def test_resumable_of_unknown_size(bucket: Any) -> None:
    with bucket.blob("written").open("wb", chunk_size=256 * 1024, ignore_flush=True) as file:
        for place in range(0, len(BIG), 700_000):
            file.write(BIG[place : place + 700_000])
    assert get(bucket, "written") == BIG


def test_in_parts_by_the_xml_api(bucket: Any, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(BIG * 2)
    how = {"chunk_size": 5 << 20, "max_workers": 2, "worker_type": transfer_manager.THREAD}
    transfer_manager.upload_chunks_concurrently(str(path), bucket.blob("parts"), **how)
    assert get(bucket, "parts") == BIG * 2


def test_a_range_behind_the_end(bucket: Any) -> None:
    put(bucket, "a", b"hello")
    with pytest.raises(RequestRangeNotSatisfiable):
        get(bucket, "a", start=100, end=199)


def test_another_content_than_announced(bucket: Any) -> None:
    blob = bucket.blob("a")
    blob.crc32c = "AAAAAA=="
    with pytest.raises(BadRequest, match="CRC32C"):
        blob.upload_from_string(b"hello", checksum=None, retry=None)
    assert bucket.get_blob("a") is None


def test_what_is_stored_packed(bucket: Any) -> None:
    blob = bucket.blob("packed")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(b"text " * 1000), retry=None)
    assert get(bucket, "packed") == b"text " * 1000
    assert len(get(bucket, "packed", raw_download=True)) < 1000


# Preconditions ----------------------------------------------------------------------------------

Write = Callable[[Any, int], None]


def by_multipart(bucket: Any, generation: int) -> None:
    put(bucket, "lock", b"2", if_generation_match=generation)


def by_chunks(bucket: Any, generation: int) -> None:
    blob = bucket.blob("lock", chunk_size=256 * 1024)
    more = {"if_generation_match": generation, "retry": None}
    blob.upload_from_file(io.BytesIO(BIG), size=len(BIG), **more)


def by_composition(bucket: Any, generation: int) -> None:
    source = put(bucket, "source")
    bucket.blob("lock").compose([source], if_generation_match=generation, retry=None)


def by_copy(bucket: Any, generation: int) -> None:
    source = put(bucket, "source")
    bucket.copy_blob(source, bucket, "lock", if_generation_match=generation, retry=None)


def by_deletion(bucket: Any, generation: int) -> None:
    bucket.blob("lock").delete(if_generation_match=generation, retry=None)


@pytest.mark.parametrize("write", [by_multipart, by_chunks, by_composition, by_copy, by_deletion])
def test_generation_match(bucket: Any, write: Write) -> None:
    first = put(bucket, "lock", b"1", if_generation_match=0)
    for wrong in {0, first.generation - 1} - ({0} if write is by_deletion else set()):
        with pytest.raises(PreconditionFailed):
            write(bucket, wrong)
    assert get(bucket, "lock") == b"1"
    write(bucket, first.generation)
    after = bucket.get_blob("lock")
    assert after is None if write is by_deletion else after.generation > first.generation


def test_metageneration(bucket: Any) -> None:
    blob = put(bucket, "meta")
    assert blob.metageneration == 1
    blob.metadata = {"lease": "7"}
    blob.patch(if_metageneration_match=1, retry=None)
    found = bucket.get_blob("meta")
    assert (found.metageneration, found.metadata) == (2, {"lease": "7"})
    found.metadata = {"lease": "8"}
    with pytest.raises(PreconditionFailed):
        found.patch(if_metageneration_match=1, retry=None)
    assert found.generation == blob.generation


def test_deletion_and_recreation(bucket: Any) -> None:
    first = put(bucket, "again").generation
    bucket.blob("again").delete(retry=None)
    with pytest.raises(NotFound):
        bucket.blob("again").delete(retry=None)
    assert put(bucket, "again").generation > first


# Copies -----------------------------------------------------------------------------------------


def test_copies(bucket: Any, client: Any) -> None:
    other = client.create_bucket("other")
    blob = put(bucket, "a", BIG[: 3 << 20], content_type="text/x")
    blob.metadata = {"k": "v"}
    blob.patch(retry=None)
    bucket.copy_blob(blob, other, "b", retry=None)
    copied = other.get_blob("b")
    assert (copied.content_type, copied.metadata) == ("text/x", {"k": "v"})
    target = other.blob("in-calls")
    token, written, total = target.rewrite(blob, timeout=30)
    assert (token, written, total) == (None, 3 << 20, 3 << 20)
    put(bucket, "p1", b"ab")
    put(bucket, "p2", b"cd")
    bucket.blob("whole").compose([bucket.blob("p1"), bucket.blob("p2")], retry=None)
    assert get(bucket, "whole") == b"abcd"
    bucket.move_blob(bucket.blob("whole"), "moved")
    assert bucket.get_blob("whole") is None
    assert get(bucket, "moved") == b"abcd"


# Lists ------------------------------------------------------------------------------------------


def test_lists(bucket: Any, client: Any) -> None:
    for step in range(7):
        for name in "ab":
            put(bucket, f"ck/{step:03d}/{name}")
    steps = [f"ck/{step:03d}/" for step in range(7)]
    folders = client.list_blobs("lab", prefix="ck/", delimiter="/")
    assert names(folders) == []
    assert sorted(folders.prefixes) == steps
    paged = client.list_blobs("lab", prefix="ck/", delimiter="/", page_size=3)
    pages = [list(page) for page in paged.pages]
    assert (len(pages), sorted(paged.prefixes)) == (3, steps)
    flat = client.list_blobs("lab", prefix="ck/", page_size=3)
    assert names(flat) == [f"{step}{name}" for step in steps for name in "ab"]
    some = client.list_blobs("lab", start_offset="ck/003/", end_offset="ck/005/")
    assert names(some) == ["ck/003/a", "ck/003/b", "ck/004/a", "ck/004/b"]
    assert len(names(client.list_blobs("lab", match_glob="ck/*/a"))) == 7
    few = client.list_blobs("lab", fields="items(name),nextPageToken", page_size=5)
    assert set(next(iter(few))._properties) == {"name"}
    with client.batch():
        for step in steps:
            bucket.blob(f"{step}a").delete()
    assert names(client.list_blobs("lab")) == [f"{step}b" for step in steps]


# Versions, soft deletion, configuration ---------------------------------------------------------


def test_versions(client: Any) -> None:
    bucket = client.bucket("lab-v")
    bucket.versioning_enabled = True
    bucket.create()
    for number in range(3):
        put(bucket, "v", str(number))
    found = sorted(blob.generation for blob in client.list_blobs("lab-v", versions=True))
    assert len(found) == 3
    old = bucket.blob("v", generation=found[0])
    assert old.download_as_bytes(retry=None) == b"0"


def test_soft_deletion(client: Any, cloud: Emulator) -> None:
    bucket = client.bucket("lab-s")
    bucket.soft_delete_policy.retention_duration_seconds = 8 * 86400
    bucket.create()
    assert client.get_bucket("lab-s").soft_delete_policy.retention_duration_seconds == 691200
    put(bucket, "x", b"1").delete(retry=None)
    [gone] = client.list_blobs("lab-s", soft_deleted=True)
    bucket.restore_blob("x", generation=gone.generation)
    assert get(bucket, "x") == b"1"
    cloud.control("clock", {"advance": 8 * 86400})
    assert names(client.list_blobs("lab-s", soft_deleted=True)) == []


def test_lifecycle(client: Any, bucket: Any, cloud: Emulator) -> None:
    bucket.add_lifecycle_delete_rule(age=7, matches_prefix=["tmp/"])
    bucket.patch()
    [rule] = client.get_bucket("lab").lifecycle_rules
    assert rule["condition"] == {"age": 7, "matchesPrefix": ["tmp/"]}
    put(bucket, "tmp/a")
    put(bucket, "kept")
    cloud.control("clock", {"advance": 7 * 86400 + 3600})
    assert names(client.list_blobs("lab")) == ["kept"]


def test_buckets(client: Any, bucket: Any) -> None:
    with pytest.raises(Conflict, match="already own it"):
        client.create_bucket("lab")
    bucket.labels = {"a": "b"}
    bucket.patch(if_metageneration_match=1)
    found = client.get_bucket("lab")
    assert (found.labels, found.metageneration, found.location) == ({"a": "b"}, 2, "US")
    with pytest.raises(PreconditionFailed):
        bucket.patch(if_metageneration_match=1)
    assert names(client.list_buckets(prefix="l")) == ["lab"]
    assert names(client.list_buckets(prefix="x")) == []
    put(bucket, "a")
    with pytest.raises(Conflict, match="not empty"):
        bucket.delete()
    bucket.delete(force=True)
    with pytest.raises(NotFound, match="The specified bucket does not exist"):
        client.get_bucket("lab")


def test_policies(client: Any, bucket: Any) -> None:
    policy = bucket.get_iam_policy(requested_policy_version=3)
    assert "roles/storage.legacyBucketOwner" in {each["role"] for each in policy.bindings}
    policy.bindings.append({"role": "roles/storage.objectViewer", "members": {"allUsers"}})
    bucket.set_iam_policy(policy)
    again = bucket.get_iam_policy(requested_policy_version=3)
    assert "roles/storage.objectViewer" in {each["role"] for each in again.bindings}
    asked = ["storage.objects.get", "storage.buckets.get"]
    assert bucket.test_iam_permissions(asked) == asked
