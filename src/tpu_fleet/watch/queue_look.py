"""Look into the queue of submitted runs, and bring the slices that only they need."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import World
from ansible_collections.tpu.fleet.plugins.module_utils._fleet.resting import Rest
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.queue import FleetQueue
from ansible_collections.tpu.fleet.plugins.module_utils._queue.bucket import Bucket, NoAnswer
from ansible_collections.tpu.fleet.plugins.module_utils._queue.claims import Node
from ansible_collections.tpu.fleet.plugins.module_utils._queue.limits import Limits
from ansible_collections.tpu.fleet.plugins.module_utils._queue.objects import Owner, Submitted
from ansible_collections.tpu.fleet.plugins.module_utils._queue.store import Queue
from ansible_collections.tpu.fleet.plugins.module_utils._tpu.client import Client

from ..queue.bucket import FleetBucket
from ..queue.demand import Need, needs
from ..queue.fleet import node_at
from . import on_queue
from .ground import Settings
from .report import Report
from .state import State

LOG = logging.getLogger("tpu-fleet-watch")
EVERY = 60.0
"""Seconds from one look into the queue to the next."""
Open = Callable[[Client, FleetQueue], Bucket]


def bucket_of(client: Client, queue: FleetQueue) -> Bucket:
    """Return the queue's bucket, with the watcher's credentials."""
    return FleetBucket(client, queue.bucket, queue.folder)


class QueueLook:
    """The queue as one watcher sees it; it is read only for slices with on_queue."""

    def __init__(self, state: State, report: Report, opened: Open = bucket_of) -> None:
        self._state = state
        self._report = report
        self._opened = opened
        self._looked_at = 0.0
        self._silent = False
        self._needed: Mapping[str, Need] = {}

    def awaits(self, name: str) -> bool:
        """Return whether a slice is kept for a run that waits, or for an answer of the bucket."""
        return self._silent or name in self._needed

    def look(self, world: World, runs: Sequence[Mapping[str, Any]], may_wake: bool) -> bool:
        """Read the queue, if that is due, and record what comes; return whether that has changed.

        `runs` are those that workers reported. Without an answer nothing changes.
        """
        settings, now = self._state.settings, self._state.clock.now()
        queue = FleetQueue.read(settings.queue) if settings is not None else None
        asked = any(one.want.on_queue for one in self._state.seen)
        if settings is None or queue is None or not asked:
            self._report.better("queue")
            return False
        if now - self._looked_at < EVERY:
            return False
        self._looked_at = now
        try:
            client = settings.client()
            found = self._read(Queue(self._opened(client, queue), pause=_asked_once), client, world)
            limit = Limits(queue.runs, queue.chips, queue.chip_hours)
            used = on_queue.occupied(runs, {run.name for run in found})
            offers = on_queue.offers(self._state.seen, queue, settings.venvs, used)
            self._needed = needs(found, offers, limit, now=world.now.timestamp())
            changed = on_queue.changes(self._state.seen, self._needed, may_wake)
            self._record(settings, client, changed, world)
        except (NoAnswer, TpuError) as error:
            self._silent = True
            self._report.worse("queue", str(error.__context__ or error))
            return False
        self._silent = False
        self._report.better("queue")
        return bool(changed)

    def _read(self, queue: Queue, client: Client, world: World) -> list[Submitted]:
        """Return all runs. One whose slice is gone waits again: perhaps no leader is left."""
        found = queue.all().states
        apis = {one.name: one.want.api for one in self._state.seen}
        owners = {run.owner for run in found if run.owner and run.owner.slice in apis}
        lost = {owner for owner in owners if _seems_gone(owner, world)}
        if not lost:
            return found

        def node_of(owner: Owner) -> Node | None:
            # The world was read before the queue, so it is no evidence.
            return node_at(client, owner, apis[owner.slice]) if owner in lost else None

        queue.tend(nodes=node_of)
        return queue.all().states

    def _record(
        self, settings: Settings, client: Client, changed: Mapping[str, Rest], world: World
    ) -> None:
        if not changed:
            return
        at = world.now.timestamp()
        book = settings.rest_book(client)
        book.write({name: replace(rest, at=at) for name, rest in changed.items()})
        for name, rest in sorted(changed.items()):
            LOG.info("%s %s: %s", name, "comes" if rest.awake else "is given up", rest.why)


def _asked_once(_seconds: float) -> None:
    """Look again in a minute, not now: the watcher has other things to do."""
    raise NoAnswer("The bucket of the queue does not answer.")


def _seems_gone(owner: Owner, world: World) -> bool:
    """Return whether the API had another node, or none, under an owner's name."""
    if owner.zone in world.unreachable:
        return False
    here = [one for one in world.nodes if (one.name, one.zone) == (owner.slice, owner.zone)]
    return not any(one.is_ready and one.uid == owner.node for one in here)
