"""A bucket of the local cloud, as the queue agent asks it with the machine's account."""

from __future__ import annotations

from typing import Any

import pytest
from submitters import MachinesBucket, NoAnswer, Queue, objects, parse


@pytest.fixture
def bucket(lab: Any) -> MachinesBucket:
    settings = lab.settings("solo", ["127.0.0.1"], 0, 1)
    return MachinesBucket(parse({**settings, "queue": "gs://lab/a folder/queue"}))


def test_what_is_written_is_read_under_its_numbers(bucket: MachinesBucket) -> None:
    first = bucket.put("runs/one", b"{}", {"run": "text", "other": "kept"}, 0)
    assert first
    assert bucket.put("runs/one", b"again", {}, 0) is None
    found = bucket.get("runs/one")
    assert found is not None
    assert (found.name, found.data, found.generation) == ("runs/one", b"{}", first)
    changed = bucket.patch("runs/one", {"beat": "1"}, first, found.metageneration)
    assert changed == found.metageneration + 1
    assert bucket.patch("runs/one", {"beat": "2"}, first, found.metageneration) is None
    assert bucket.put("runs/one", b"", {}, first, found.metageneration) is None
    ((listed,), token) = bucket.list("runs/")
    assert (listed.name, listed.generation, listed.metageneration) == ("runs/one", first, changed)
    assert (listed.metadata, token) == ({"run": "text", "other": "kept", "beat": "1"}, "")
    second = bucket.put("runs/one", b"", {}, first, changed)
    assert second
    assert not bucket.delete("runs/one", first)
    assert bucket.delete("runs/one", second)
    assert bucket.get("runs/one") is None
    assert bucket.patch("runs/one", {}, second, 1) is None


def test_a_list_has_pages(bucket: MachinesBucket) -> None:
    for number in range(5):
        bucket.put(f"waiting/{number}", b"", {})
    names, token = [], ""
    while True:
        found, token = bucket.list("waiting/", token, 2)
        assert len(found) <= 2
        names += [one.name for one in found]
        if not token:
            break
    assert names == [f"waiting/{number}" for number in range(5)]


def test_an_object_that_is_too_large_costs_only_itself(bucket: MachinesBucket) -> None:
    bucket.put("runs/large", b"x" * (1 << 20), {})
    bucket.put("runs/other", b"x", {})
    with pytest.raises(objects.Refused):
        Queue(bucket).read("large")
    found = bucket.get("runs/other")
    assert found is not None
    assert found.data == b"x"


def test_a_bucket_that_is_not_there_takes_nothing(lab: Any) -> None:
    settings = lab.settings("solo", ["127.0.0.1"], 0, 1)
    missing = MachinesBucket(parse({**settings, "queue": "gs://other/queue"}))
    with pytest.raises(NoAnswer, match="there is no such bucket"):
        missing.put("runs/one", b"{}", {}, 0)
