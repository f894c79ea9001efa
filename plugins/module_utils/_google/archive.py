# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive of a run in a bucket, read with the controller's credentials."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote

from .._core.archive import Frame, Joined, Life, Thing, frames_of, lives_of
from .._core.errors import NotFound, TpuError
from .._schema.values import ENTRY_NAME
from .._wire.transport import Quoted
from .apis import GoogleApis
from .checkpoints import FIELDS

PAGES = 100
"""Lists for one run: of a thousand objects each."""


class RunArchive:
    """What a run's machines have left in a bucket."""

    def __init__(self, apis: GoogleApis, bucket: str, prefix: str) -> None:
        self._apis = apis
        self._bucket = bucket
        self._prefix = prefix
        self.refused = 0
        """Objects whose name or size is not that of an archive's."""

    def lives(self) -> list[Life]:
        """List it: the lives of all machines, the oldest first; raises TpuError."""
        query = {"prefix": self._prefix, "fields": FIELDS, "maxResults": 1000}
        pages = self._apis.transport("storage").pages(f"b/{self._bucket}/o", query)
        try:
            items = [
                item
                for page in islice(pages, PAGES)
                for item in (page["items"] if isinstance(page.get("items"), list) else [])
            ]
        except NotFound as error:
            raise TpuError(
                f"There is no bucket {self._bucket}.", remedy="Correct `archive` of the run."
            ) from error
        found, self.refused = lives_of(items, self._prefix, ENTRY_NAME)
        return found

    def frames(self, life: Life) -> Iterator[tuple[Frame, bytes, bool]]:
        """Yield the frames of a life, with what is new of each, and whether something is missing.

        Raises TpuError.
        """
        joined = Joined()
        for part in life.needed:
            for one in frames_of(b"".join(self.content(life, part))):
                new, lost = joined.taken(one)
                if new:
                    yield one, new, lost

    def content(self, life: Life, thing: Thing) -> Iterator[bytes]:
        """Yield the content of an object, no more than was listed; raises TpuError."""
        name = quote(f"{self._prefix}{life.folder}{thing.name}", safe="")
        path = Quoted(f"b/{self._bucket}/o/{name}")
        yield from self._apis.transport("storage").content(path, {"alt": "media"}, thing.size)
