"""Uploads in several requests: resumable ones, and those in parts of the XML API.

What was acknowledged survives the end of the server; nothing is an object until all is there.
"""

from __future__ import annotations

import base64
import re
import secrets
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...compute_errors import ComputeError
from . import contents, documents
from .buckets import Buckets
from .conditions import Conditions
from .index import Document

# Chunks are multiples of this many bytes, but for the last.
QUANTUM = 262_144
# Seconds until an upload is forgotten, as at Google.
LIFE = 7 * documents.DAY
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
# Answers after which the same bytes may be sent again.
_AGAIN = (429, 500, 503)


@dataclass(frozen=True)
class Chunk:
    """What a header Content-Range says; first is None in a question for the status."""

    first: int | None
    last: int | None
    total: int | None


def chunk(header: str) -> Chunk:
    """Return what a request carries; without a header everything."""
    if not header:
        return Chunk(0, None, None)
    match = _RANGE.fullmatch(header.strip())
    if match is None:
        raise _invalid(f"Failed to parse Content-Range header '{header}'.")
    first, last = (int(match[1]), int(match[2])) if match[1] else (None, None)
    return Chunk(first, last, None if match[3] == "*" else int(match[3]))


class Uploads:
    """The uploads that go on in a cloud's buckets."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets = buckets
        self._locks: dict[str, threading.Lock] = {}

    def begin(
        self,
        kind: str,
        bucket: str,
        name: str,
        about: Mapping[str, Any],
        conditions: Conditions,
        may_replace: bool,
        total: int | None = None,
    ) -> str:
        """Begin an upload, and return its id."""
        documents.check_object_name(name)
        key, wanted = secrets.token_hex(24), dict(conditions.wanted)
        with self._buckets.lock:
            self._buckets.bucket(bucket)
            before = self._buckets.index.live(bucket, name)
            conditions.check(before.document if before else None)
            self._forget()
            document = {
                "kind": kind,
                "bucket": bucket,
                "name": name,
                "about": dict(about),
                "conditions": wanted,
                "may_replace": may_replace,
                "total": total,
                "begun": self._buckets.clock.now(),
                "parts": {},
            }
            self._buckets.contents.incoming(key).touch()
            self._buckets.index.put_upload(key, document)
        return key

    def _forget(self) -> None:
        now = self._buckets.clock.now()
        for key, upload in self._buckets.index.uploads():
            if now - upload["begun"] > LIFE:
                self.cancel(key)

    def known(self, key: str, kind: str) -> Document:
        """Return an upload; raise if it is over or unknown."""
        with self._buckets.lock:
            found = self._buckets.index.upload(key) if key else None
            late = found and self._buckets.clock.now() - found["begun"] > LIFE
            if found is None or late or found["kind"] != kind:
                raise ComputeError(404, "notFound", f"No such upload: {key}", "NOT_FOUND")
            return found

    def cancel(self, key: str) -> None:
        """End an upload without an object."""
        with self._buckets.lock:
            self._buckets.index.drop_upload(key)
            self._buckets.contents.abandon(key)
            self._locks.pop(key, None)

    def _lock(self, key: str) -> threading.Lock:
        """Return what one request at a time holds for an upload."""
        with self._buckets.lock:
            return self._locks.setdefault(key, threading.Lock())

    # Resumable --------------------------------------------------------------------------------

    def receive(self, key: str, given: Chunk, parts: Iterable[bytes]) -> Document | int:
        """Take a chunk; return the object when all is there, otherwise the bytes that are."""
        self.known(key, "resumable")
        with self._lock(key):
            upload = self.known(key, "resumable")
            if "done" in upload:
                return dict(upload["done"])
            upload = self._with_total(key, upload, given)
            have = self._have(key, upload)
            if given.first is not None:
                have = self._append(key, upload, given, have, parts)
                if given.last is None:
                    upload = self._with_total(key, upload, Chunk(None, None, have))
            whole = upload["total"] is not None and have == upload["total"]
            return self._finish(key, upload) if whole else have

    def _with_total(self, key: str, upload: Document, given: Chunk) -> Document:
        """Return the upload with the size that the object will have; it is named once."""
        known = upload["total"]
        if given.total is None or known == given.total:
            return upload
        if known is not None:
            raise _invalid(f"The size was {known} bytes, and is now {given.total}.")
        changed = {**upload, "total": given.total}
        with self._buckets.lock:
            self._buckets.index.put_upload(key, changed)
        return changed

    def _have(self, key: str, upload: Document) -> int:
        """Return how many bytes count: whole quanta, or all."""
        size = self._buckets.contents.incoming(key).stat().st_size
        return size if size == upload["total"] else size - size % QUANTUM

    def _append(
        self, key: str, upload: Document, given: Chunk, have: int, parts: Iterable[bytes]
    ) -> int:
        first = given.first or 0
        total = upload["total"]
        if first > have:
            # The client asks where to go on; what it sent does not fit.
            return have
        if given.last is not None:
            _check_length(given.last + 1 - first, total is not None and given.last + 1 == total)
        new = _skipped(parts, have - first)
        end = self._buckets.contents.append(key, have, new)
        if given.last is not None and end != max(have, given.last + 1):
            self._buckets.contents.append(key, have, [])
            raise _invalid(f"{end - first} bytes came, and Content-Range says {given.last + 1}.")
        if total is not None and end > total:
            self._buckets.contents.append(key, have, [])
            raise _invalid(f"{end} bytes are more than the {total} that were announced.")
        return end

    def _finish(self, key: str, upload: Document) -> Document:
        return self._committed(key, upload, self._buckets.contents.whole(key))

    def _committed(
        self, key: str, upload: Document, received: contents.Received, **more: Any
    ) -> Document:
        """Make an upload's file an object; a refusal that stays ends the upload."""
        conditions = Conditions(upload["conditions"])
        where = (upload["bucket"], upload["name"], upload["about"])
        try:
            made = self._buckets.commit(
                *where, received, conditions, upload["may_replace"], upload=key, **more
            )
            self._locks.pop(key, None)
            return made
        except ComputeError as error:
            if error.code not in _AGAIN:
                self.cancel(key)
            raise

    # In parts ---------------------------------------------------------------------------------

    def receive_part(self, key: str, number: int, parts: Iterable[bytes]) -> contents.Checksums:
        """Take a part; the last one with a number counts."""
        self.known(key, "multipart")
        if not 1 <= number <= 10_000:
            raise _invalid(f"partNumber {number} is not between 1 and 10000.")
        received = self._buckets.contents.receive(parts)
        with self._buckets.lock:
            upload = self.known(key, "multipart")
            received.path.rename(self._buckets.contents.incoming(f"{key}.{number}"))
            sums = {"md5": received.sums.md5, "size": received.sums.size}
            upload["parts"][str(number)] = sums
            self._buckets.index.put_upload(key, upload)
        return received.sums

    def complete(self, key: str, wanted: list[tuple[int, str]]) -> Document:
        """Make an object of parts, given their numbers and etags in order."""
        self.known(key, "multipart")
        with self._lock(key):
            upload = self.known(key, "multipart")
            if "done" in upload:
                return dict(upload["done"])
            _check_parts(upload, wanted)
            numbers = [number for number, _etag in wanted]
            received = self._buckets.contents.receive(self._joined(key, numbers))
            count = {"componentCount": len(numbers), "md5Hash": None}
            try:
                made = self._committed(key, upload, received, **count)
            finally:
                received.path.unlink(missing_ok=True)
            self._buckets.contents.abandon(key)
            return made

    def _joined(self, key: str, numbers: list[int]) -> Iterator[bytes]:
        for number in numbers:
            with self._buckets.contents.incoming(f"{key}.{number}").open("rb") as source:
                yield from contents.read(source)


def part_etag(md5: str) -> str:
    """Return the etag of a part."""
    return base64.b64decode(md5).hex()


def _check_parts(upload: Document, wanted: list[tuple[int, str]]) -> None:
    known = upload["parts"]
    numbers = [number for number, _etag in wanted]
    if not wanted or numbers != sorted(set(numbers)):
        raise _invalid("The parts are not in the order of their numbers.")
    for number, etag in wanted:
        there = known.get(str(number))
        if there is None or etag.strip('"') != part_etag(there["md5"]):
            raise _invalid(f"Part {number} was not uploaded with the ETag {etag}.")


def _check_length(size: int, last: bool) -> None:
    if size < 0 or (size % QUANTUM and not last):
        text = (
            f"Invalid request. There were {size} byte(s) in the request body. There should have "
            f"been a multiple of {QUANTUM}, as this is not the last chunk."
        )
        raise _invalid(text)


def _skipped(parts: Iterable[bytes], count: int) -> Iterator[bytes]:
    """Yield the parts without so many bytes at the beginning, which are there already."""
    for part in parts:
        skip = min(count, len(part))
        count -= skip
        if skip < len(part):
            yield part[skip:]


def _invalid(text: str) -> ComputeError:
    return ComputeError(400, "badRequest", text)
