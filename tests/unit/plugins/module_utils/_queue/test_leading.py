"""Objects that the bucket does not let leaders read, or write over, cost only themselves."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import Denied, Stored
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Outcome
from ansible_collections.tpu.fleet.plugins.module_utils._queue.leading import DENIED, MOST_DENIED
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Refused
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue, Seen
from memory_bucket import MemoryBucket

PAIR = Serving("pair", "v4-8", 4)
OWNER = objects.Owner("pair", "us-central2-b", "v4-8", 4, "n-1", "b-1")


class Clock:
    now = 1000.0


def submit(queue: Queue, name: str) -> None:
    definition = objects.Definition(name, "alice", "alice", ("true",), "", 1.0)
    text = objects.definition_text(definition)
    queue.submit(definition, objects.Signed(text, "signature"), len(queue.all().runs))


def take(queue: Queue) -> Seen:
    mine = queue.claim_next(PAIR, OWNER)
    assert mine is not None
    return mine


class Guarded(MemoryBucket):
    """A bucket in which some objects are held, so they stay as they are, or not given out."""

    def __init__(self) -> None:
        super().__init__()
        self.held: set[str] = set()
        self.closed: set[str] = set()

    def get(self, name: str) -> Stored | None:
        if name in self.closed:
            raise Denied("400: it is encrypted with a key of its writer")
        return super().get(name)

    def put(self, name: str, *words: Any) -> int | None:
        if name in self.held:
            raise Denied("403: it is held")
        return super().put(name, *words)

    def delete(self, name: str, generation: int | None = None) -> bool:
        if name in self.held:
            raise Denied("403: it is held")
        return super().delete(name, generation)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def guarded(clock: Clock) -> tuple[Guarded, Queue]:
    bucket = Guarded()
    queue = Queue(
        bucket,
        now=lambda: clock.now,
        clock=lambda: clock.now,
        pause=lambda _seconds: pytest.fail("what is denied is asked for again"),
    )
    for name in ("first", "good"):
        submit(queue, name)
    return bucket, queue


@pytest.mark.parametrize("which", ["held", "closed"])
@pytest.mark.parametrize("name", ["runs/first", "stop/first", "bell", "running/alice/first/1"])
def test_an_object_that_is_denied_costs_only_its_run(
    guarded: tuple[Guarded, Queue], which: str, name: str
) -> None:
    bucket, queue = guarded
    getattr(bucket, which).add(name)
    queue.heard()
    mine = take(queue)
    assert mine.run.name == ("good" if name == "runs/first" else "first")
    queue.tend(OWNER, [mine.run.name])
    assert queue.finish(mine, Outcome(objects.DONE))


def test_what_is_denied_is_asked_for_again_after_a_while(
    guarded: tuple[Guarded, Queue], clock: Clock
) -> None:
    bucket, queue = guarded
    bucket.held.update(("runs/first", "runs/good"))
    assert queue.claim_next(PAIR, OWNER) is None
    bucket.held.clear()
    asked = bucket.asked["get"]
    assert queue.claim_next(PAIR, OWNER) is None
    assert bucket.asked["get"] == asked
    clock.now += DENIED + 1
    assert take(queue).run.name == "first"


def test_a_bucket_that_denies_everything_has_a_reason(
    guarded: tuple[Guarded, Queue],
) -> None:
    bucket, queue = guarded
    names = [f"run-{number}" for number in range(MOST_DENIED + 1)]
    for name in names:
        submit(queue, name)
        bucket.held.add(f"runs/{name}")
    bucket.held.update(("runs/first", "runs/good"))
    with pytest.raises(Denied, match="held"):
        queue.claim_next(PAIR, OWNER)


def test_a_denied_definition_or_archive_is_as_good_as_none(
    guarded: tuple[Guarded, Queue],
) -> None:
    bucket, queue = guarded
    bucket.closed.update(("definitions/x", "code/x.tar.gz"))
    with pytest.raises(Refused, match="definition: x is not in the bucket"):
        queue.definition("x")
    assert queue.code("x") is None


def test_a_wish_is_written_over_what_is_none(guarded: tuple[Guarded, Queue]) -> None:
    bucket, queue = guarded
    mine = take(queue)
    bucket.put("stop/first", b"x" * 10, {})
    bucket.closed.add("stop/first")
    assert queue.wish(mine.run) is None
    queue.stop("first", "alice")
    bucket.closed.clear()
    wish = queue.wish(mine.run)
    assert wish is not None
    assert wish.person == "alice"
