# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the queue needs of a bucket, and how patiently it asks for it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

TRIES, PAUSE = 4, 0.5
"""How often a request is sent, and the mean seconds before the second time; then twice as long."""
PAGE = 1000
"""Most objects in a page of a list."""
MOST_PAGES = 200
"""Pages that are read of one list."""
_BOUNDARY = "tpu-fleet-9e1f6a52c0"
T = TypeVar("T")


class NoAnswer(Exception):
    """The bucket does not answer, or refuses. A write may have been carried out, now or later."""


class Denied(NoAnswer):
    """The bucket answered that it does not do this with this object; nothing was changed.

    A person with the right to write can make such an object: one under a hold, or encrypted with
    a key of hers.
    """


class Stored(NamedTuple):
    """An object of the bucket."""

    name: str
    """Below the queue's folder."""
    generation: int
    metageneration: int
    metadata: Mapping[str, str]
    """Custom metadata; empty where they were not asked for."""
    data: bytes = b""
    """Its content; empty in lists."""


class Bucket(Protocol):
    """A bucket, with names below the queue's folder. Every method may raise NoAnswer, or Denied.

    None, or False, is returned only where the bucket answered that the object is another one (412)
    or is not there (404). No method sends a write twice.
    """

    def get(self, name: str) -> Stored | None:
        """Return an object with its content and both numbers; None if it is not there.

        An object that is longer than an archive of code may be is cut off, or is NoAnswer.
        """

    def put(
        self,
        name: str,
        data: bytes,
        metadata: Mapping[str, str],
        generation: int | None = None,
        metageneration: int | None = None,
    ) -> int | None:
        """Write an object if it has these numbers; return its generation. 0: it is not there.

        Generation None writes over any.
        """

    def patch(
        self, name: str, metadata: Mapping[str, str], generation: int, metageneration: int
    ) -> int | None:
        """Set some of the custom metadata; return the metageneration. Both numbers must fit."""

    def list(self, prefix: str, token: str = "", most: int = PAGE) -> tuple[list[Stored], str]:
        """Return the next objects whose names begin so, by name, and a token for more, or "".

        They have their metadata, and no content.
        """

    def delete(self, name: str, generation: int | None = None) -> bool:
        """Delete an object if it has this generation; return whether it did."""


def upload(name: str, metadata: Mapping[str, str], data: bytes) -> tuple[str, bytes]:
    """Return the content type and the body of a multipart upload of an object of the bucket."""
    about = json.dumps({"name": name, "metadata": dict(metadata)})
    head = f"--{_BOUNDARY}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}"
    middle = f"\r\n--{_BOUNDARY}\r\nContent-Type: application/octet-stream\r\n\r\n"
    end = f"\r\n--{_BOUNDARY}--\r\n"
    kind = f"multipart/related; boundary={_BOUNDARY}"
    return kind, b"".join([head.encode(), middle.encode(), data, end.encode()])


class Asking:
    """Sends what may be sent again, a few times."""

    def __init__(self, pause: Callable[[float], None], chance: random.Random) -> None:
        self._pause, self._chance = pause, chance

    def wait(self, number: int) -> None:
        """Pause after the first try (0), or a later one."""
        self._pause(PAUSE * 2**number * self._chance.uniform(0.5, 1.5))

    def again(self, ask: Callable[[], T]) -> T:
        """Return the answer to a question; raise NoAnswer after the last try."""
        for number in range(TRIES - 1):
            try:
                return ask()
            except Denied:
                raise
            except NoAnswer:
                self.wait(number)
        return ask()

    def pages(self, bucket: Bucket, prefix: str, first: int = PAGE) -> Iterator[Stored]:
        """Yield all objects whose names begin so; each page is asked for when it is needed."""
        token, most = "", first
        for _ in range(MOST_PAGES):
            found, token = self.again(partial(bucket.list, prefix, token, most))
            yield from found
            if not token:
                return
            most = PAGE
