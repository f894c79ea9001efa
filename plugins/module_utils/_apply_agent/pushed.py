# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host remembers when a controller applies the roles, task by task.

The controller asks what there is to do, applies everything where there is something, and says then
what it did. What roles were given is known from the question: later they have added to it.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Any, Dict, Mapping, Sequence

from .again import forget
from .place import Place, boot_id, read, write
from .record import Record, look_now, sealed
from .wish import Todo, Wish


def begins(place: Place, wish: Wish, given: Mapping[str, str]) -> Dict[str, Any]:
    """Say what there is to do; where it is something, it begins now."""
    record = Record(place, wish, sealed(place, given))
    what = record.todo()
    with contextlib.suppress(FileNotFoundError):
        place.pending.unlink()
    if what.roles:
        pending = {"wish": asdict(wish), "given": record.given, "boot_id": boot_id()}
        write(place.pending, json.dumps(pending))
        forget(place, wish)
        record.begin(what)
    return {"roles": list(what.roles), "reasons": list(what.reasons)}


def done(place: Place, roles: Sequence[str]) -> Dict[str, Any]:
    """Note that roles were applied, and how the machine looks with it."""
    pending = read(place.pending)
    if pending is None:
        # There was nothing to do here, but for a peer: what is known is right.
        look_now(place)
    elif pending["boot_id"] == boot_id():
        record = Record(place, Wish.read(pending["wish"]), pending["given"])
        record.end(Todo(roles, []), well=True)
    return {}
