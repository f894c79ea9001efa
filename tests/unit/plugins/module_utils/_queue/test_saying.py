"""What slices say of themselves is read typed, and what is not theirs is passed over."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Doing, Refused
from ansible_collections.tpu.fleet.plugins.module_utils._queue.saying import Said
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from memory_bucket import MemoryBucket

BUILDS = Doing("pair", "builds environment jax", 10.0, 20.0, "lr-1", "jax")


def test_what_a_slice_says_replaces_what_it_said_before() -> None:
    queue = Queue(MemoryBucket())
    queue.say(BUILDS)
    before = queue.said()["pair"]
    queue.say(Doing("pair", "", 30.0, 30.0))
    now = queue.said()["pair"]
    assert before.doing == BUILDS
    assert now == Said(Doing("pair", "", 30.0, 30.0), now.generation)
    assert now.generation != before.generation


def test_a_bad_word_costs_only_itself() -> None:
    bucket = MemoryBucket()
    queue = Queue(bucket)
    queue.say(BUILDS)
    text = objects.doing_bytes(BUILDS).decode()
    bucket.put("slices/solo", b"", {"doing": text})
    bucket.put("slices/wide", b"", {"doing": text.replace("pair", "wide") + " "})
    bucket.put("slices/late", b"", {})
    assert list(queue.said()) == ["pair"]
    with pytest.raises(Refused, match="why: "):
        queue.say(Doing("pair", "two\nlines", 1.0, 1.0))
