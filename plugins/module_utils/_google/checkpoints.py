# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The checkpoints of a run in a bucket, seen and cleaned up with the controller's credentials."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from .._core import checkpoints
from .._core.checkpoints import Checkpoint, Thing
from .._core.errors import NotFound, PermissionDenied, TpuError
from .._wire.transport import Quoted
from .apis import GoogleApis
from .storage_prices import usd_per_gb_month

PAGES = 1000
"""Lists for one folder: of a thousand objects each, and half a cent."""
FIELDS = "items(name,size,updated,generation),nextPageToken"
"""What is asked of a list of objects."""
_ITEMS = 1000


def size_of_bucket(apis: GoogleApis, bucket: str, pages: int) -> tuple[int, bool]:
    """Return the bytes of the live objects of a bucket, and whether there are more of them.

    `pages` is how many lists of a thousand objects are asked for. Raises TpuError.
    """
    query = {"fields": FIELDS, "maxResults": _ITEMS}
    found = apis.transport("storage").pages(f"b/{bucket}/o", query)
    items = (item for page in islice(found, pages) for item in page.get("items") or ())
    things = (checkpoints.thing_of(item, "") for item in items)
    size = sum(thing.size for thing in things if thing is not None)
    return size, next(found, None) is not None


@dataclass
class Contents:
    """What a folder of a bucket holds."""

    checkpoints: list[Checkpoint] = field(default_factory=list)
    usd_per_gb_month: float | None = None
    refused: int = 0
    """Objects whose name, size or time is not taken for one."""
    is_cut: bool = False
    """Whether there are more objects than were listed."""

    @property
    def leftovers(self) -> list[Checkpoint]:
        """Unfinished checkpoints that a later one replaces; none if not everything was seen."""
        return [] if self.is_cut else checkpoints.leftovers(self.checkpoints)


class CheckpointFolder:
    """A folder of a bucket."""

    def __init__(self, apis: GoogleApis, bucket: str, prefix: str) -> None:
        self._apis = apis
        self._bucket = bucket
        self._prefix = prefix
        self._refused = 0

    def contents(self) -> Contents:
        """List the folder; raises TpuError."""
        self._refused = 0
        things, is_cut = self._things()
        found = checkpoints.judged(checkpoints.units_of(things))
        return Contents(found, self._price(), self._refused, is_cut)

    def delete(self, leftover: Checkpoint) -> int:
        """Delete an unfinished checkpoint; return how many objects that were.

        It is looked at once more: one to which anything was written since is refused. An object
        that was replaced since it was listed stays.
        """
        things = list(self._listed(leftover.name))
        unit = checkpoints.unit_of(leftover.name, things)
        if unit.marked_at is not None or unit.newest > leftover.at:
            raise TpuError(
                f"{leftover.name} was written to meanwhile, so it was not deleted.",
                remedy="Look again: a program may be saving it.",
            )
        return sum(self._delete(thing) for thing in things)

    def _things(self) -> tuple[list[Thing], bool]:
        pages = self._pages(self._prefix)
        things = [thing for page in islice(pages, PAGES) for thing in page]
        return things, next(pages, None) is not None

    def _listed(self, name: str) -> Iterator[Thing]:
        for found in self._pages(f"{self._prefix}{name}/"):
            yield from found

    def _pages(self, prefix: str) -> Iterator[list[Thing]]:
        """Yield the objects, page by page; what is refused is counted."""
        query = {"prefix": prefix, "fields": FIELDS, "maxResults": _ITEMS}
        try:
            for page in self._apis.transport("storage").pages(f"b/{self._bucket}/o", query):
                yield list(self._taken(page.get("items")))
        except NotFound as error:
            raise TpuError(
                f"There is no bucket {self._bucket}.", remedy="Correct checkpoint_dir of the run."
            ) from error

    def _taken(self, items: Any) -> Iterator[Thing]:
        there = items[:_ITEMS] if isinstance(items, list) else []
        for item in there:
            if isinstance(item, dict) and checkpoints.is_archived(item.get("name")):
                continue
            thing = checkpoints.thing_of(item, self._prefix)
            if thing is not None:
                yield thing
            elif not checkpoints.is_folder(item):
                self._refused += 1

    def _price(self) -> float | None:
        """Return the price of the bucket; to know its region is a right of its own."""
        try:
            found = self._apis.find("storage", f"b/{self._bucket}") or {}
        except PermissionDenied:
            return None
        return usd_per_gb_month(str(found.get("location")), str(found.get("storageClass")))

    def _delete(self, thing: Thing) -> bool:
        name = quote(f"{self._prefix}{thing.name}", safe="")
        path, query = Quoted(f"b/{self._bucket}/o/{name}"), {"ifGenerationMatch": thing.generation}
        try:
            self._apis.repeat("storage", "DELETE", path, query=query)
        except NotFound:  # also the answer to a repeated request
            return False
        return True
