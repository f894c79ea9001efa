"""A run's events in its archive: parsed as those of a worker, which may be anything."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._core import archive
from archives import AT, FIRST, events, kept, part
from object_server import Objects, serving

from tpu_fleet.workers.archive.events import events_of


def test_events_are_parsed_and_what_is_none_is_left_out() -> None:
    begun = {"event": "attempt-started", "at": AT, "attempt": 2, "worker": 3, "boot_id": "b"}
    odd = [{"event": "x\x1b[2J", "at": AT}, {"event": "left", "at": "now"}, {"worker": 1}]
    more = archive.frame(archive.EVENTS, 100_000, b'no json\n{"event":"half', AT)
    with serving(Objects()) as lab:
        part(lab, FIRST, 0, events(begun, *odd, {**begun, "worker": -5}), more)
        found = kept(lab)
        told = list(events_of(found, found.lives[0]))
    assert [(one.worker, one.event.name, one.event.attempt) for one in told] == [
        (3, "attempt-started", 2),
        (0, "attempt-started", 2),
    ]
    assert told[0].event.detail == {"boot_id": "b"}
