"""Downloads: ranges, checksums, and what is stored packed."""

from __future__ import annotations

import re
from email.utils import formatdate
from typing import BinaryIO

from ..compute_errors import ComputeError
from ..model.shared.clock import seconds_of
from ..model.storage.index import Document
from .call import Content, Reply, Request

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_FIELDS = {
    "cacheControl": "Cache-Control",
    "contentDisposition": "Content-Disposition",
    "contentEncoding": "Content-Encoding",
    "contentLanguage": "Content-Language",
    "contentType": "Content-Type",
    "componentCount": "x-goog-component-count",
    "generation": "x-goog-generation",
    "metageneration": "x-goog-metageneration",
    "storageClass": "x-goog-storage-class",
    "size": "x-goog-stored-content-length",
}


def download(request: Request, document: Document, file: BinaryIO) -> Reply:
    """Return the content of an object, or the part that a header asks for."""
    size, headers = int(document["size"]), headers_of(document)
    packed = document.get("contentEncoding") == "gzip"
    if packed and "gzip" not in request.headers.get("accept-encoding", ""):
        headers.pop("Content-Encoding")
        headers["Warning"] = "214 UploadServer gunzipped"
        return Reply(200, headers=headers, content=Content(file, 0, size, gunzip=True))
    try:
        first, last = _wanted(request.headers.get("range", ""), size)
    except ComputeError:
        file.close()
        raise
    if (first, last) != (0, size) or ("range" in request.headers and _is_range(request)):
        headers["Content-Range"] = f"bytes {first}-{last - 1}/{size}"
        return Reply(206, headers=headers, content=Content(file, first, last - first))
    return Reply(200, headers=headers, content=Content(file, 0, size))


def headers_of(document: Document) -> dict[str, str]:
    """Return what the headers of a download say about an object."""
    known = {_FIELDS[key]: str(document[key]) for key in _FIELDS if key in document}
    sums = [f"crc32c={document['crc32c']}"]
    sums += [f"md5={document['md5Hash']}"] if "md5Hash" in document else []
    custom = {f"x-goog-meta-{key}": _plain(value) for key, value in _metadata(document)}
    return {
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=0",
        **{key: _plain(value) for key, value in known.items()},
        "ETag": document["etag"],
        "Last-Modified": formatdate(seconds_of(document["updated"]), usegmt=True),
        "x-goog-hash": ",".join(sums),
        "x-goog-stored-content-encoding": _plain(document.get("contentEncoding", "identity")),
        **custom,
    }


def _metadata(document: Document) -> list[tuple[str, str]]:
    """Return what the headers say of it: only ASCII names can be a header's."""
    found = document.get("metadata") or {}
    return [(key, value) for key, value in found.items() if re.fullmatch(r"[A-Za-z0-9_.-]+", key)]


def _plain(text: object) -> str:
    """Return a text that a header can carry."""
    shown = re.sub(r"[\x00-\x1f\x7f]", " ", str(text)).strip()
    return shown.encode("latin-1", "replace").decode("latin-1")


def _is_range(request: Request) -> bool:
    match = _RANGE.fullmatch(request.headers["range"].strip())
    return bool(match and (match[1] or match[2]))


def _wanted(header: str, size: int) -> tuple[int, int]:
    """Return where the wanted bytes begin and end; everything for what is no single range."""
    match = _RANGE.fullmatch(header.strip())
    if not match or not (match[1] or match[2]):
        return 0, size
    if not match[1]:
        first, last = max(0, size - int(match[2])), size
    else:
        first = int(match[1])
        last = min(size, int(match[2]) + 1) if match[2] else size
    if first >= size or first >= last:
        text = "The requested range cannot be satisfied."
        refused = ComputeError(416, "requestedRangeNotSatisfiable", text)
        refused.headers = {"Content-Range": f"bytes */{size}"}
        raise refused
    return first, last
