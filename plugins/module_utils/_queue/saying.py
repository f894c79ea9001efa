# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What slices without a run say of themselves: to people, and to each other.

Nothing depends on it but who begins to build: a lost or forged word costs time, and no run.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from . import objects
from .access import Access
from .bucket import Stored
from .objects import SLICES, Doing, Refused


class Said(NamedTuple):
    """What a slice said, and the generation of the object: another one when it says it again."""

    doing: Doing
    generation: int


class Saying(Access):
    """Saying what a slice does, and reading what all say."""

    def say(self, doing: Doing) -> None:
        """Write what a slice does. Raises NoAnswer, and Refused for what no reader would take."""
        data = objects.doing_bytes(doing)
        about = {"doing": data.decode("ascii")}
        self._asking.again(lambda: self._bucket.put(SLICES + doing.slice, data, about))

    def said(self) -> dict[str, Said]:
        """Return what each slice said last, by its name; a bad object is as good as none."""
        found = {}
        for one in self._asking.pages(self._bucket, SLICES):
            with contextlib.suppress(Refused):
                doing = _doing_in(one)
                found[doing.slice] = Said(doing, one.generation)
        return found


def _doing_in(found: Stored) -> Doing:
    doing = objects.doing_of(found.metadata.get("doing", "").encode("ascii", "replace"))
    if found.name != SLICES + doing.slice:
        raise Refused([f"slice: {doing.slice} is in the object of another slice"])
    return doing
