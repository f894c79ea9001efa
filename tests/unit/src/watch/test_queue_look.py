"""How a watcher reads the queue, and what becomes of it without an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import Unavailable
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._queue import objects
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.order import Serving
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from memory_bucket import MemoryBucket
from slices_seen import slice_seen

from tpu_fleet.watch import queue_look
from tpu_fleet.watch.decide import SliceSeen
from tpu_fleet.watch.queue_look import EVERY, QueueLook

WORLD = World((), (), frozenset(), datetime(2026, 6, 10, 12, tzinfo=UTC))
OWNER = objects.Owner("solo", "us-central2-b", "v4-8", 4, "n", "b")


def solo(phase: str = "ended", **more: Any) -> SliceSeen:
    declared = {"on_queue": True, "on_finish": "delete", "mark": "m", "types": ("v4-8",)}
    return slice_seen("solo", phase, **{"rests": phase == "ended", **declared, **more})


class Book:
    """The record of slices that rest."""

    def __init__(self) -> None:
        self.written: list[dict[str, Rest]] = []
        self.error: Exception | None = None

    def write(self, changes: dict[str, Rest]) -> None:
        if self.error:
            raise self.error
        self.written.append(changes)


class Report:
    def __init__(self) -> None:
        self.troubles: dict[str, str] = {}

    def worse(self, key: str, text: str) -> None:
        self.troubles[key] = text

    def better(self, *keys: str) -> None:
        for key in keys:
            self.troubles.pop(key, None)


class Bucket(MemoryBucket):
    """One that may not answer."""

    silent = False

    def list(self, *words: Any, **more: Any) -> Any:
        if self.silent:
            self.asked["list"] += 1
            raise NoAnswer("403: no right to list")
        return super().list(*words, **more)


@dataclass
class Scene:
    """A watcher of a slice that comes for submitted runs, and the queue."""

    bucket: Bucket = field(default_factory=Bucket)
    book: Book = field(default_factory=Book)
    report: Report = field(default_factory=Report)
    now: float = 1000.0

    def __post_init__(self) -> None:
        settings = SimpleNamespace(
            queue={"bucket": "gs://lab/queue"}, venvs=[{"name": "jax"}],
            client=lambda: None, rest_book=lambda _client: self.book,
        )  # fmt: skip
        clock = SimpleNamespace(now=lambda: self.now)
        self.state: Any = SimpleNamespace(settings=settings, seen=[solo()], clock=clock)
        report: Any = self.report
        self.look = QueueLook(self.state, report, lambda _client, _queue: self.bucket)
        self.queue = Queue(self.bucket, pause=lambda _seconds: None)

    def submit(self, name: str = "lr") -> None:
        definition = objects.Definition(name, "alice", "alice", ("x",), "jax", 1.7e9)
        text = objects.definition_text(definition)
        self.queue.submit(definition, objects.Signed(text, "signature"), 0)

    def see(self, may_wake: bool = True) -> bool:
        self.now += EVERY
        return self.look.look(WORLD, [], may_wake)


def test_a_slice_comes_for_a_run_and_is_kept_for_it() -> None:
    scene = Scene()
    assert (scene.see(), scene.look.awaits("solo"), scene.book.written) == (False, False, [])
    scene.submit()
    assert (scene.see(may_wake=False), scene.book.written) == (False, [])
    assert scene.see()
    [written] = scene.book.written
    assert (written["solo"].awake, written["solo"].at) == (True, WORLD.now.timestamp())
    assert scene.look.awaits("solo")
    # It is there, and has the run.
    scene.state.seen = [solo("ready", uid="n", rest=written["solo"])]
    assert (scene.see(), scene.look.awaits("solo")) == (False, True)
    assert scene.queue.claim_next(Serving("solo", "v4-8", 4), OWNER)
    world = World(
        (SimpleNamespace(name="solo", zone=OWNER.zone, is_ready=True, uid="n"),),  # type: ignore[arg-type]
        (), frozenset(), WORLD.now,
    )  # fmt: skip
    scene.now += EVERY
    assert not scene.look.look(world, [], True)
    assert not scene.look.awaits("solo")


def test_the_queue_is_read_once_a_minute_and_only_for_slices_that_come_for_it() -> None:
    scene = Scene()
    scene.see()
    scene.now += EVERY - 1
    scene.look.look(WORLD, [], True)
    assert scene.bucket.asked["list"] == 1
    scene.state.seen = [solo(on_queue=False)]
    scene.see()
    scene.state.settings.queue = {}
    scene.see()
    assert scene.bucket.asked["list"] == 1


def test_a_bad_object_costs_only_itself() -> None:
    scene = Scene()
    scene.submit()
    scene.bucket.put("runs/bad", b"\xff", {"run": "{"})
    assert scene.see()
    assert scene.report.troubles == {}


def test_without_an_answer_nothing_changes() -> None:
    scene = Scene()
    scene.submit()
    scene.bucket.silent = True
    assert (scene.see(), scene.bucket.asked["list"]) == (False, 1)
    assert scene.report.troubles == {"queue": "403: no right to list"}
    assert scene.look.awaits("solo")
    scene.bucket.silent = False
    scene.book.error = Unavailable("later")
    assert not scene.see()
    assert re.search("later", scene.report.troubles["queue"])
    scene.book.error = None
    assert (scene.see(), scene.report.troubles) == (True, {})


@pytest.mark.parametrize(("there", "taken"), [(Node("", ""), True), (None, False)])
def test_a_run_whose_slice_is_gone_waits_again(
    monkeypatch: pytest.MonkeyPatch, there: Node | None, taken: bool
) -> None:
    scene = Scene()
    scene.submit()
    assert scene.queue.claim_next(Serving("solo", "v4-8", 4), OWNER)
    asked: list[objects.Owner] = []

    def node_at(_client: Any, owner: objects.Owner, _api: str) -> Node | None:
        asked.append(owner)
        return there

    monkeypatch.setattr(queue_look, "node_at", node_at)
    assert scene.see() is taken
    assert OWNER in asked
    seen = scene.queue.read("lr")
    assert seen is not None
    assert (seen.run.state == objects.WAITING, bool(scene.book.written)) == (taken, taken)
