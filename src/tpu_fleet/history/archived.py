"""Keep what archives have of machines that are gone, as if these had been asked a last time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import Life
from ansible_collections.tpu.fleet.plugins.module_utils._core.errors import TpuError

from ..workers.archive.declared import Archives, Kept
from ..workers.archive.events import events_of
from ..workers.inventory.read import NoFleetError, PlayError
from .look import event_seen
from .store import KEPT_DAYS, History, Look

FACT = "archive:"
Facts = Mapping[str, tuple[float, Any]]


def keep(history: History, report: Callable[[str], None], archives: Archives | None = None) -> None:
    """Add the events of all archives of the fleet that no look at a worker can have seen.

    What stands in the way is reported, and the history is as it was.
    """
    archives = archives or Archives()
    try:
        runs = list(archives.addresses())
    except NoFleetError:
        return  # a history without a fleet file
    except PlayError as error:
        report(f"The archives are not read: {error}")
        return
    for run in runs:
        try:
            kept = archives.of(run)
            if kept is not None:
                history.add(look_at(kept, history.facts("")))
        except (TpuError, PlayError) as error:
            report(f"The archive of {run} is not read: {error}")


def look_at(kept: Kept, facts: Facts) -> Look:
    """Return what is new in an archive; raises TpuError."""
    found = Look(time.time())
    # Lives are named by their begin.
    last = {(life.slice, life.host): life.name for life in sorted(kept.lives, key=_name)}
    for life in kept.lives:
        is_last = last[life.slice, life.host] == life.name
        if is_new(kept.run, life, facts, found.at, is_last=is_last):
            for one in events_of(kept, life):
                event_seen(found, life.slice, kept.run, one.worker, one.event)
            found.facts[_fact(kept.run, life)] = life.at
    return found


def is_new(run: str, life: Life, facts: Facts, now: float, *, is_last: bool) -> bool:
    """Say whether a life has what was neither read here before, nor seen on its machine.

    A look at a worker saw its last machine, and may have missed what the one before it wrote last.
    """
    read = facts.get(_fact(run, life), (0.0, 0.0))[1]
    seen = facts.get(f"place:{life.host}/{run}", (0.0, None))[0] if is_last else 0.0
    read = read if isinstance(read, float) else 0.0
    return life.at > max(read, seen, now - KEPT_DAYS * 86400)


def _name(life: Life) -> str:
    return life.name


def _fact(run: str, life: Life) -> str:
    return f"{FACT}{run}/{life.folder}"
