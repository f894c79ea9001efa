"""Objects made of others: compositions and restorations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, BinaryIO

from ...compute_errors import ComputeError
from . import conditions, contents
from .buckets import Buckets
from .index import Document

# Sources of one composition.
MOST = 32


def compose(
    buckets: Buckets,
    bucket: str,
    name: str,
    sources: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    wanted: conditions.Conditions,
    may_replace: bool,
) -> Document:
    """Make an object of the contents of others in its bucket, one after the other."""
    if not sources or len(sources) > MOST:
        text = (
            f"The number of source components provided ({len(sources)}) is not between 1 and "
            f"the maximum ({MOST})"
        )
        raise ComputeError(400, "invalid", text)
    with ExitStack() as opened:
        files: list[BinaryIO] = []
        first: Document = {}
        count = 0
        # All at one moment.
        with buckets.lock:
            for source in sources:
                document, file = _open(buckets, bucket, source)
                files.append(opened.enter_context(file))
                first = first or document
                count += int(document.get("componentCount", 1))
        kind = {"contentType": first.get("contentType")}
        # gcloud sends those of the first source along.
        own = {key: value for key, value in about.items() if key not in ("crc32c", "md5Hash")}
        # A composition has no MD5.
        more = {"componentCount": count, "md5Hash": None}
        parts = _joined(files)
        return buckets.store(bucket, name, {**kind, **own}, parts, wanted, may_replace, **more)


def _open(buckets: Buckets, bucket: str, source: Mapping[str, Any]) -> tuple[Document, BinaryIO]:
    wanted = conditions.of_body(source.get("objectPreconditions") or {})
    generation = str(source.get("generation") or "")
    found = buckets.find(bucket, str(source.get("name", "")), generation)
    wanted.check(found.document)
    return found.document, buckets.contents.open(found.generation)


def _joined(files: Sequence[BinaryIO]) -> Iterator[bytes]:
    for file in files:
        yield from contents.read(file)
