"""The persons who keep runs stopped, for slices that are created again.

`tpu-fleet stop` writes a mark on the machines of a run, which are deleted with their slice. What
each look sees of these marks is kept in the state folder of the fleet too, and the playbooks pass
it on to machines on which a run is new (playbooks/vars/apply.yml).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path

from ansible_collections.tpu.fleet.plugins.module_utils._host.state import write_atomically
from ansible_collections.tpu.fleet.plugins.plugin_utils._fleet.stops import FILE, read_stops

from ..workers.ask.run_view import Run
from ..workers.inventory.hosts import NO_CONFIG, Known
from ..workers.inventory.lookup import read_known

_BY = re.compile(r"[\w.@-]{1,100}")


def folder_of(known: Known) -> Path | None:
    """Return the state folder of a fleet; None if none was written yet."""
    stored = known if known.path != NO_CONFIG else read_known(known.fleet.inventory, os.environ)
    return stored.path.parent if stored else None


def note(folder: Path | None, runs: Iterable[Run]) -> None:
    """Keep who stopped the runs that were seen, and forget those that were started.

    Raises OSError.
    """
    if folder is None:
        return
    before = read_stops(folder)
    stops = {name: dict(runs_there) for name, runs_there in before.items()}
    for (slice_name, run), by in _seen(runs).items():
        here = stops.setdefault(slice_name, {})
        here.pop(run, None)
        here.update({run: by} if by else {})
    stops = {
        name: dict(sorted(runs_there.items())) for name, runs_there in stops.items() if runs_there
    }
    if stops != before:
        text = json.dumps(stops, indent=1, sort_keys=True) + "\n"
        write_atomically(str(folder / FILE), text, mode=0o600, uid=os.getuid(), gid=os.getgid())


def _seen(runs: Iterable[Run]) -> dict[tuple[str, str], str]:
    """Return the person who keeps each run stopped; one worker with the mark is enough."""
    found: dict[tuple[str, str], str] = {}
    for one in runs:
        by = one.status.stopped_by
        by = by if not by or _BY.fullmatch(by) else "an unknown person"
        place = (one.slice, one.run)
        found[place] = found.get(place) or by
    return found
