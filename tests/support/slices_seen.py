"""Slices as a watcher sees them."""

from __future__ import annotations

from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._fleet.plan_terms import Status
from ansible_collections.tpu.fleet.plugins.module_utils._fleet_file.declared import Slice

from tpu_fleet.watch.decide import SliceSeen

OF_THE_FILE = ("on_preempt", "on_bad_chips", "on_finish", "idle_after", "on_queue", "mark")


def slice_seen(name: str, phase: str, text: str = "", **more: Any) -> SliceSeen:
    """Return a slice in a phase; what the fleet file says of it is among the rest."""
    said = {key: more.pop(key) for key in OF_THE_FILE if key in more}
    want = Slice(name, more.pop("types", ()), (), **said)
    return SliceSeen(want, Status(name, phase, text), **more)
