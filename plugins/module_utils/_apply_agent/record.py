# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host remembers of the roles that were applied to it, by itself or by a controller."""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from typing import Dict, Mapping

from . import stamp
from .place import Place, boot_id, read, write
from .wish import Known, Todo, Wish, digest, todo


def sealed(place: Place, given: Mapping[str, str]) -> Dict[str, str]:
    """Make of hashes of what roles are given some that say nothing elsewhere: it may be secret."""
    key = place.key()
    return {
        role: hmac.new(key, plain.encode(), "sha256").hexdigest() for role, plain in given.items()
    }


def look_now(place: Place) -> None:
    """Note what the machine looks like, as what is declared looks like."""
    write(place.stamp, json.dumps(stamp.look(place.watch)))


class Record:
    """What is known, seen from one wish."""

    def __init__(self, place: Place, wish: Wish, given: Mapping[str, str]) -> None:
        """`given` has a sealed hash for each role of what it is given now."""
        self.place = place
        self.wish = wish
        self.given = given

    def todo(self) -> Todo:
        """Look what there is to do."""
        before = read(self.place.stamp) or {}
        now = stamp.look(self.place.watch, before)
        drift = stamp.differences(before, now) or stamp.failures(now)
        if not before:
            drift = ["nobody knows what the host looked like"]
        noted = (read(self.place.noted) or {}).get("applied", {})
        return todo(self.wish, self._known(), self.given, boot_id(), drift, noted)

    def begin(self, what: Todo) -> None:
        """Note that it is being done: should it be interrupted, nothing is sure."""
        self._remember(what, "the last time was interrupted")

    def end(self, what: Todo, well: bool) -> None:
        """Note how it ended, and what the machine looks like now."""
        self._remember(what, "ok" if well else "the last time it failed")
        look_now(self.place)

    def _known(self) -> Known:
        return Known.read(read(self.place.known))

    def _remember(self, what: Todo, status: str) -> None:
        known = self._known()
        if what.unsure:
            others = [name for name in known.roles if name not in what.roles]
            known = known.with_status(others, {}, "something else was changed meanwhile")
        known = replace(
            known.with_status(what.roles, self.given, status),
            boot_id=boot_id(),
            code=self.wish.code,
            environment=digest(self.wish.environment),
        )
        write(self.place.known, json.dumps(known.record()))
