"""Objects, their versions and what time does to them."""

from __future__ import annotations

import base64
import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.faults import Fault, Faults
from tpu_local_cloud.model.shared.store import is_full
from tpu_local_cloud.model.storage import conditions
from tpu_local_cloud.model.storage.buckets import Buckets
from tpu_local_cloud.model.storage.composing import compose
from tpu_local_cloud.model.storage.documents import DAY
from tpu_local_cloud.model.storage.index import State
from tpu_local_cloud.model.storage.listing import Question

ALL: tuple[State, ...] = ("live", "old")


@pytest.fixture
def buckets(tmp_path: Path) -> Iterator[Buckets]:
    made = Buckets(tmp_path / "buckets", Clock("manual"), Faults(), "12")
    made.make({"name": "lab", "softDeletePolicy": {"retentionDurationSeconds": "0"}})
    yield made
    made.close()


def put(
    buckets: Buckets, name: str, content: bytes = b"x", bucket: str = "lab", **query: str
) -> Any:
    return buckets.store(bucket, name, {}, [content], conditions.of_query(query))


def read(buckets: Buckets, name: str, generation: str = "", bucket: str = "lab") -> bytes:
    _document, file = buckets.open(bucket, name, generation, conditions.NONE)
    with file:
        return file.read()


def names(buckets: Buckets, states: tuple[State, ...] = ("live",)) -> list[str]:
    page = buckets.listed("lab", states, Question())
    return [each["name"] for each in page.items]


def files(tmp_path: Path) -> int:
    return sum(path.is_file() for path in (tmp_path / "buckets/contents").iterdir())


def change(buckets: Buckets, **wanted: Any) -> None:
    buckets.alter("lab", wanted, conditions.NONE, replace=False)


def test_what_is_written_is_read_also_by_the_next_server(buckets: Buckets, tmp_path: Path) -> None:
    made = put(buckets, "a/b", b"one")
    assert made["size"] == "3"
    assert made["md5Hash"] == base64.b64encode(hashlib.md5(b"one").digest()).decode()  # noqa: S324
    buckets.close()
    after = Buckets(tmp_path / "buckets", Clock("manual"), Faults(), "12")
    assert read(after, "a/b") == b"one"
    assert after.find("lab", "a/b").document == made
    after.close()


def test_generations_grow_although_time_stands_still(buckets: Buckets) -> None:
    first = int(put(buckets, "a")["generation"])
    buckets.delete("lab", "a", "", conditions.NONE)
    second = int(put(buckets, "a")["generation"])
    assert second > first
    assert int(put(buckets, "b")["generation"]) > second


def test_what_was_replaced_leaves_no_file(buckets: Buckets, tmp_path: Path) -> None:
    for content in (b"one", b"two"):
        put(buckets, "a", content)
    assert (files(tmp_path), read(buckets, "a")) == (1, b"two")
    buckets.delete("lab", "a", "", conditions.NONE)
    assert files(tmp_path) == 0


def test_a_reader_keeps_what_it_opened(buckets: Buckets) -> None:
    put(buckets, "a", b"one")
    _document, file = buckets.open("lab", "a", "", conditions.NONE)
    put(buckets, "a", b"two")
    with file:
        assert file.read() == b"one"


def test_a_refused_write_changes_nothing(buckets: Buckets, tmp_path: Path) -> None:
    put(buckets, "a", b"one")
    with pytest.raises(ApiError, match="pre-conditions"):
        put(buckets, "a", b"two", ifGenerationMatch="0")
    with pytest.raises(ApiError, match=r"storage\.objects\.delete"):
        buckets.store("lab", "a", {}, [b"two"], conditions.NONE, may_replace=False)
    with pytest.raises(ApiError, match="CRC32C"):
        buckets.store("lab", "a", {"crc32c": "AAAAAA=="}, [b"two"], conditions.NONE)
    assert (read(buckets, "a"), files(tmp_path)) == (b"one", 1)
    assert list((tmp_path / "buckets/incoming").iterdir()) == []


def test_versions(buckets: Buckets) -> None:
    change(buckets, versioning={"enabled": True})
    made = [put(buckets, "a", content) for content in (b"one", b"two")]
    buckets.delete("lab", "a", "", conditions.NONE)
    assert (names(buckets), names(buckets, ALL)) == ([], ["a", "a"])
    assert read(buckets, "a", made[0]["generation"]) == b"one"
    with pytest.raises(ApiError, match="not empty"):
        buckets.delete_bucket("lab", conditions.NONE)
    for each in made:
        buckets.delete("lab", "a", each["generation"], conditions.NONE)
    assert names(buckets, ALL) == []
    buckets.delete_bucket("lab", conditions.NONE)


def test_soft_deletion_ends_by_the_clock(buckets: Buckets, tmp_path: Path) -> None:
    change(buckets, softDeletePolicy={"retentionDurationSeconds": 7 * DAY})
    made = put(buckets, "a", b"one")
    buckets.delete("lab", "a", "", conditions.NONE)
    with pytest.raises(ApiError, match="No such object"):
        buckets.find("lab", "a", made["generation"])
    source = buckets.find("lab", "a", made["generation"], soft=True)
    restored = buckets.copy(source, "lab", "a", {}, conditions.NONE)
    assert read(buckets, "a") == b"one"
    assert int(restored["generation"]) > int(made["generation"])
    buckets.clock.advance(6 * DAY)
    assert names(buckets, ("soft",)) == ["a"]
    buckets.clock.advance(DAY)
    assert (names(buckets, ("soft",)), files(tmp_path)) == ([], 1)


def test_lifecycle_by_the_clock(buckets: Buckets) -> None:
    condition = {"age": 7, "matchesPrefix": ["tmp/"]}
    change(buckets, lifecycle={"rule": [{"action": {"type": "Delete"}, "condition": condition}]})
    put(buckets, "tmp/a")
    put(buckets, "kept")
    buckets.clock.advance(6 * DAY)
    put(buckets, "tmp/b")
    assert names(buckets) == ["kept", "tmp/a", "tmp/b"]
    buckets.clock.advance(DAY)
    assert names(buckets) == ["kept", "tmp/b"]


def test_lifecycle_sets_the_class_and_spares_what_is_held(buckets: Buckets) -> None:
    colder = {"type": "SetStorageClass", "storageClass": "COLDLINE"}
    rules = [
        {"action": colder, "condition": {"age": 1}},
        {"action": {"type": "Delete"}, "condition": {"age": 2}},
    ]
    change(buckets, lifecycle={"rule": rules})
    put(buckets, "a")
    put(buckets, "held")
    buckets.update("lab", "held", "", {"temporaryHold": True}, conditions.NONE)
    buckets.clock.advance(DAY)
    assert buckets.find("lab", "a").document["storageClass"] == "COLDLINE"
    buckets.clock.advance(DAY)
    assert names(buckets) == ["held"]
    with pytest.raises(ApiError, match="Temporary hold"):
        buckets.delete("lab", "held", "", conditions.NONE)


def test_retention_keeps_objects(buckets: Buckets) -> None:
    change(buckets, retentionPolicy={"retentionPeriod": "60"})
    put(buckets, "a")
    with pytest.raises(ApiError, match="retention policy"):
        put(buckets, "a")
    buckets.clock.advance(61)
    put(buckets, "a")


def test_compositions(buckets: Buckets) -> None:
    for name in "ab":
        put(buckets, name, name.encode() * 2)
    sources = [{"name": "a"}, {"name": "b"}, {"name": "a"}]
    made = compose(buckets, "lab", "c", sources, {}, conditions.NONE, True)
    assert read(buckets, "c") == b"aabbaa"
    assert made["componentCount"] == 3
    assert "md5Hash" not in made
    about = {"crc32c": "NqHfnQ=="}
    again = compose(buckets, "lab", "d", [{"name": "c"}], about, conditions.NONE, True)
    assert (again["componentCount"], again["crc32c"]) == (3, made["crc32c"])
    wrong = [{"name": "a", "objectPreconditions": {"ifGenerationMatch": "1"}}]
    for some, text in ((wrong, "pre-conditions"), ([], "between 1 and"), (sources * 11, "33")):
        with pytest.raises(ApiError, match=text):
            compose(buckets, "lab", "e", some, {}, conditions.NONE, True)


def test_a_move_is_one_moment(buckets: Buckets, tmp_path: Path) -> None:
    put(buckets, "a", b"one")
    put(buckets, "b", b"two")
    source = buckets.find("lab", "a")
    with pytest.raises(ApiError, match="pre-conditions"):
        buckets.copy(source, "lab", "b", {}, conditions.of_query({"ifGenerationMatch": "0"}),
                     move=True)  # fmt: skip
    assert names(buckets) == ["a", "b"]
    buckets.copy(source, "lab", "b", {}, conditions.NONE, move=True)
    assert (names(buckets), read(buckets, "b"), files(tmp_path)) == (["b"], b"one", 1)


def test_a_copy_lives_on(buckets: Buckets) -> None:
    put(buckets, "a", b"one")
    buckets.copy(buckets.find("lab", "a"), "lab", "b", {}, conditions.NONE)
    buckets.delete("lab", "a", "", conditions.NONE)
    assert read(buckets, "b") == b"one"


def test_one_write_a_second_for_each_object(tmp_path: Path) -> None:
    faults = Faults()
    buckets = Buckets(tmp_path, Clock("manual"), faults, "12")
    buckets.make({"name": "lab"})
    faults.add(Fault("object_rate", {"object": ["a", "b"]}))
    put(buckets, "a")
    put(buckets, "b")
    for _ in range(2):
        put(buckets, "other")
    with pytest.raises(ApiError, match="lab/a exceeded the rate limit for object mutation"):
        put(buckets, "a")
    with pytest.raises(ApiError, match="exceeded the rate limit"):
        buckets.delete("lab", "a", "", conditions.NONE)
    buckets.clock.advance(1)
    put(buckets, "a")
    buckets.close()


def test_what_a_killed_server_left_is_removed(buckets: Buckets, tmp_path: Path) -> None:
    put(buckets, "a", b"one")
    root = tmp_path / "buckets"
    (root / "contents/99").write_bytes(b"half")
    (root / "incoming/abc").write_bytes(b"half")
    buckets.close()
    after = Buckets(root, Clock("manual"), Faults(), "12")
    assert read(after, "a") == b"one"
    assert files(tmp_path) == 1
    assert list((root / "incoming").iterdir()) == []
    after.close()


def test_a_database_that_is_full_leaves_what_was(buckets: Buckets, tmp_path: Path) -> None:
    put(buckets, "a", b"one")
    database = buckets.index._db
    [pages] = database.execute("PRAGMA page_count").fetchone()
    database.execute(f"PRAGMA max_page_count = {pages + 1}")
    long = {"metadata": {"text": "x" * 9000}}
    with pytest.raises(sqlite3.OperationalError) as refused:
        buckets.store("lab", "a", long, [b"two"], conditions.NONE)
    assert is_full(refused.value)
    source = buckets.find("lab", "a")
    with pytest.raises(sqlite3.OperationalError):
        buckets.copy(source, "lab", "b", long, conditions.NONE)
    assert (read(buckets, "a"), names(buckets), files(tmp_path)) == (b"one", ["a"], 1)
    assert list((tmp_path / "buckets/incoming").iterdir()) == []
    database.execute("PRAGMA max_page_count = 1000000")
    put(buckets, "a", b"two")
    assert read(buckets, "a") == b"two"


def test_without_a_folder_nothing_stays() -> None:
    buckets = Buckets(None, Clock("manual"), Faults(), "12")
    assert buckets.all() == []
    assert not buckets.has("lab")
    buckets.make({"name": "lab"})
    put(buckets, "a", b"one")
    folder = buckets._folder
    assert json.loads(json.dumps(buckets.bucket("lab")))["name"] == "lab"
    buckets.close()
    assert not folder.exists()


def test_a_reset_leaves_nothing(buckets: Buckets, tmp_path: Path) -> None:
    put(buckets, "a")
    buckets.clear()
    assert (buckets.all(), files(tmp_path)) == ([], 0)
