# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build an environment that a submitted run needs here, by the role that builds all others.

The queue agent starts this as a unit and names the environment. All else comes from the kept wish,
which a controller sent: who can name an environment decides nothing else.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any, Dict, Mapping

from .again import kept
from .locks import locked
from .place import Place, boot_id, read, write
from .store import StoreError
from .version import look_again
from .wish import Wish
from .work import Engine, Work, WorkError, events_of

ROLE = "python_env"
PATIENCE = 3600.0
"""Seconds to wait for another process that applies roles here."""
_MOST = 400


def main(place: Place, engine: Engine, name: str) -> int:
    """Build an environment; leave behind why that failed, in one line."""
    result = place.needed(name)
    with contextlib.suppress(FileNotFoundError):
        result.unlink()
    try:
        why = build(place, engine, name)
    except (WorkError, StoreError, OSError) as error:
        why = str(error)
    if why:
        write(result, json.dumps({"why": " ".join(why.split())[:_MOST], "ended": time.time()}))
    return 0


def build(place: Place, engine: Engine, name: str) -> str:
    """Apply the role that builds environments, with one more; return why it could not build that.

    What is known of applied roles stays as it is: the declaration is the same.
    """
    with locked(place.lock, PATIENCE):
        work = Work(place, _wish(place))
        about = {"work": work.name, "who": f"the queue, for environment {name}", "pid": os.getpid()}
        write(place.running, json.dumps({**about, "since": time.time(), "boot_id": boot_id()}))
        code, problem = work.beside(engine, {f"{ROLE}_needed": [name]})
        record = _record(place, name)
        if not record:
            told = problem.splitlines()[-1:] or _failed(place, work)
            return "".join(told) or f"role {ROLE} ended with {code} and did not build it"
        look_again(place, lambda path: _is_of(path, place, record))
        return ""


def _wish(place: Place) -> Wish:
    """Return the last wish that has the role, for this role alone."""
    for wish in reversed(kept(place)):
        if ROLE in wish.roles:
            return wish.without(other for other in wish.roles if other != ROLE)
    raise WorkError("this machine does not apply roles to itself, so an apply has to build it")


def _record(place: Place, name: str) -> Dict[str, Any]:
    """Return what the role has recorded of an environment; empty if it is not built."""
    folders = [Path(pattern).parent for pattern in place.watch.environments]
    found = (read(folder / f"{name}.json") for folder in folders)
    return next((record for record in found if record), {})


def _failed(place: Place, work: Work) -> str:
    """Return the message of the task that failed last."""
    told = [
        str(event.get("msg") or "")
        for event in events_of(place.events(work.name))
        if event.get("status") == "failed"
    ]
    return next((text for text in reversed(told) if text), "")


def _is_of(path: str, place: Place, record: Mapping[str, Any]) -> bool:
    """Return whether a path, or a name in the description of the machine, is of environments."""
    own = [str(Path(pattern).parent) for pattern in place.watch.environments]
    own += [str(record.get(key)) for key in ("path", "build", "python")]
    return path.startswith(("packages in ", *own)) or path == str(place.noted)
