"""500 hostile objects: each reader takes or refuses that one, and all others are as before."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import limits, objects, order
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node, Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Refused
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Exists, Queue
from memory_bucket import MemoryBucket

from .hostile_objects import NAMES, OWNER, RUNS, VALUES, spoilt, texts

CASES, PARTS = 500, 10
PAIR = Serving("pair", "v4-8", 4, frozenset({"jax"}))
GOOD = ("good-1", "good-2", "good-3")
READERS: list[tuple[Callable[[bytes], Any], Callable[[Any], str | bytes]]] = [
    (lambda data: objects.definition_of(data.decode("utf-8", "replace")), objects.definition_text),
    (objects.signed_of, lambda signed: objects.signed_bytes(signed)),
    (objects.run_of, objects.run_text),
    (objects.wish_of, objects.wish_bytes),
    (objects.doing_of, objects.doing_bytes),
    (objects.progress_of, objects.progress_text),
]


def cases(part: int) -> list[int]:
    return list(range(part, CASES, PARTS))


def judged(read: Callable[[bytes], Any], write: Callable[[Any], str | bytes], data: bytes) -> bool:
    """Read an object; say whether it was taken."""
    begun = time.process_time()
    try:
        found = read(data)
    except Refused as refused:
        said = str(refused)
        assert said.isprintable()
        assert len(said) < 10_000
        return False
    finally:
        assert time.process_time() - begun < 1.0
    try:
        text = write(found)
    except Refused:
        return False  # a signature around what is no definition
    assert (text.encode() if isinstance(text, str) else text) == data
    return True


@pytest.mark.parametrize("part", range(PARTS))
def test_a_reader_takes_what_is_exact_and_refuses_all_else(part: int) -> None:
    taken = refused = 0
    for number in cases(part):
        chance = random.Random(number)  # noqa: S311 - repeatable
        data = spoilt(chance, chance.choice(texts()))
        for read, write in READERS:
            if judged(read, write, data):
                taken += 1
            else:
                refused += 1
    assert refused > 20 * taken
    assert taken + refused == len(READERS) * CASES // PARTS


def with_good_runs(chance: random.Random) -> tuple[MemoryBucket, Queue]:
    bucket = MemoryBucket()
    queue = Queue(
        bucket, now=lambda: 1764413300.0, clock=lambda: 1.0, pause=pytest.fail, chance=chance
    )
    for name in GOOD:
        definition = objects.Definition(name, "bob", "bob", ("true",), "jax", 1.0)
        text = objects.definition_text(definition)
        queue.submit(definition, objects.Signed(text, "signature"), 0)
    return bucket, queue


def put_hostile(chance: random.Random, bucket: MemoryBucket) -> None:
    for _ in range(chance.choice((1, 3, 10))):
        name, data = chance.choice(NAMES), spoilt(chance, chance.choice(texts()))
        shown = data.decode("utf-8", "replace")
        states = ({"run": shown}, {"run": objects.run_text(RUNS), "progress": shown}, {"run": ""})
        others = ({}, {"wish": shown, "chips": "9" * 9}, {"doing": shown})
        about = chance.choice((*others, *states))
        bucket.put(name, data if chance.random() < 0.8 else b"", about)


@pytest.mark.parametrize("part", range(PARTS))
def test_good_runs_are_done_beside_bad_objects(part: int) -> None:
    for number in cases(part):
        chance = random.Random(number)  # noqa: S311 - repeatable
        bucket, queue = with_good_runs(chance)
        put_hostile(chance, bucket)
        bucket.asked.clear()
        listing = queue.tend(OWNER, (), 600.0, lambda _owner: Node("PREEMPTED", "n"))
        queue.said()
        order.places(listing.states, [PAIR], Limits(runs=1, chip_hours=9), now=1764413290.0)
        limits.turn_of("alice", 0, listing.states)
        done = []
        while mine := queue.claim_next(PAIR, OWNER, Limits(runs=2)):
            done.append(mine.run.name)
            assert queue.renew(mine)
            assert queue.finish(mine, Outcome(objects.DONE))
        assert set(GOOD) <= set(done), f"case {number}"
        for name in ("lr-1", "good-1"):
            for act in (queue.stop, queue.retry):
                try:
                    act(name, "bob")
                except Refused:
                    assert name == "lr-1"
        with pytest.raises(Exists):
            queue.submit(*submission("good-1"), 0)
        assert sum(bucket.asked.values()) < 300


def submission(name: str) -> tuple[objects.Definition, objects.Signed]:
    definition = objects.Definition(name, "bob", "bob", ("false",), "jax", 2.0)
    return definition, objects.Signed(objects.definition_text(definition), "signature")


def test_a_definition_that_another_has_put_under_its_name_is_not_used() -> None:
    bucket, queue = with_good_runs(random.Random(1))  # noqa: S311 - repeatable
    definition, signed = submission("mine")
    sha = objects.sha_of(signed.signed)
    other = objects.signed_bytes(submission("other")[1])
    bucket.put(f"definitions/{sha}", other, {})
    with pytest.raises(Refused, match="is not that of its text"):
        queue.definition(sha)
    queue.submit(definition, signed, 0)
    assert queue.definition(sha) == signed


def test_each_hostile_value_is_refused_in_a_name() -> None:
    for value in set(VALUES) - {'"running"', '"root"'}:
        data = objects.run_text(states()[0]).replace('"lr-1"', value, 1).encode()
        with pytest.raises(Refused):
            objects.run_of(data)


def states() -> list[objects.Submitted]:
    return [objects.run_of(text.encode()) for text in texts()[2:5]]
