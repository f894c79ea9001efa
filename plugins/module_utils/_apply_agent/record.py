# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What this host records about applied roles, whether it or a controller applied them."""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from typing import Dict, Mapping

from . import stamp
from .place import Place, boot_id, read, write
from .wish import Known, Todo, Wish, digest, todo


def sealed(place: Place, given: Mapping[str, str]) -> Dict[str, str]:
    """Return keyed hashes, because the plain ones could be used to guess secrets elsewhere."""
    key = place.key()
    return {
        role: hmac.new(key, plain.encode(), "sha256").hexdigest() for role, plain in given.items()
    }


def look_now(place: Place) -> None:
    """Record the machine's present state as the declared one."""
    write(place.stamp, json.dumps(stamp.look(place.watch)))


class Record:
    """The record of applied roles, for one wish."""

    def __init__(
        self,
        place: Place,
        wish: Wish,
        given: Mapping[str, str],
        parts: Mapping[str, Mapping[str, str]],
    ) -> None:
        """`given` has for each role a sealed hash of its present values, `parts` of each value."""
        self.parts = parts
        self.place = place
        self.wish = wish
        self.given = given
        self.seen = stamp.Seen()

    def todo(self) -> Todo:
        """Return which roles to apply now, and why."""
        before = read(self.place.stamp) or {}
        now = stamp.look(self.place.watch, before, self.seen)
        drift = stamp.differences(before, now) or stamp.failures(now)
        if not before:
            drift = ["the state of the host was not recorded"]
        noted = (read(self.place.noted) or {}).get("applied", {})
        return todo(self.wish, self._known(), self.given, boot_id(), drift, noted, self.parts)

    def begin(self, what: Todo) -> None:
        """Record that work begins, so that an interruption makes these roles be applied again."""
        self._remember(what, "the last time was interrupted")

    def end(self, what: Todo, well: bool) -> None:
        """Record the result, and the machine's present state."""
        self._remember(what, "ok" if well else "the last time it failed")
        look_now(self.place)

    def _known(self) -> Known:
        return Known.read(read(self.place.known))

    def _remember(self, what: Todo, status: str) -> None:
        known = self._known()
        if what.unsure:
            others = [name for name in known.roles if name not in what.roles]
            known = known.with_status(others, {}, "something else has changed meanwhile")
        for role, before in known.depending_on(what.roles).items():
            known = known.with_status([role], {}, f"{before} was applied without it")
        known = replace(
            known.with_status(what.roles, self.given, status),
            boot_id=boot_id(),
            code=self.wish.code,
            environment=digest(self.wish.environment),
            parts={**known.parts, **{role: self.parts.get(role, {}) for role in what.roles}},
            after={**known.after, **{role: self.wish.after.get(role, ()) for role in what.roles}},
        )
        write(self.place.known, json.dumps(known.record()))
