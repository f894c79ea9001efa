"""Uploads of the JSON API: media, multipart and resumable ones. Contents are never held whole."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.parser import BytesParser
from typing import Any
from urllib.parse import quote

from .. import payload
from ..compute_errors import ComputeError
from ..errors import ApiError
from ..model.storage.uploads import chunk
from . import objects
from .call import Answer, Call, Reply

_SUMS = {"crc32c": "crc32c", "md5": "md5Hash"}
# Bytes before the content of a multipart upload: its metadata.
_HEAD = 1 << 20


def insert(call: Call) -> Answer:
    """Store an object, completely or not at all; or begin a resumable upload."""
    way = call.query.get("uploadType", "")
    if way == "media":
        return _media(call)
    if way == "multipart":
        return _multipart(call)
    if way == "resumable":
        return _begin(call)
    text = f'Value "{way}" for uploadType is none of media, multipart, resumable.'
    raise ComputeError(400, "invalidParameter", text)


def _stored(call: Call, name: str, about: dict[str, Any], parts: Iterator[bytes]) -> Answer:
    about = {**announced(call), **about}
    where = (call["bucket"], name, about)
    made = call.cloud.buckets.store(*where, parts, call.conditions, call.may_replace)
    return objects.shown(call, made)


def announced(call: Call) -> dict[str, Any]:
    """Return the checksums in the headers of an upload."""
    given = call.request.headers.get("x-goog-hash", "")
    found = re.findall(r"(crc32c|md5)=([A-Za-z0-9+/=]+)", given)
    sums = {_SUMS[name]: value for name, value in found}
    if "content-md5" in call.request.headers:
        sums["md5Hash"] = call.request.headers["content-md5"]
    return sums


def _media(call: Call) -> Answer:
    kind = call.request.headers.get("content-type") or call.query.get("contentType")
    about = {"contentType": kind, "contentEncoding": call.query.get("contentEncoding")}
    name = call.query.get("name", "")
    return _stored(call, name, about, iter(call.request.body))


# Multipart ------------------------------------------------------------------------------------


def _multipart(call: Call) -> Answer:
    boundary = _boundary(call.request.headers.get("content-type", ""))
    about, mark, rest = _first_part(boundary, iter(call.request.body))
    name = call.query.get("name") or str(about.get("name") or "")
    return _stored(call, name, about, _until(mark, rest))


def _boundary(kind: str) -> bytes:
    # gcloud puts the boundary between quotes of another kind.
    match = re.search(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^;\s]+))""", kind)
    if match is None:
        raise ComputeError(400, "badRequest", "Missing multipart boundary in Content-Type.")
    text: str = next(filter(None, match.groups()))
    return text.encode("latin-1")


def _first_part(
    boundary: bytes, parts: Iterator[bytes]
) -> tuple[dict[str, Any], bytes, Iterator[bytes]]:
    """Return the metadata, what ends the content, and the bytes from where it begins."""
    known, end = b"", None
    # Boundary, headers, metadata, boundary, headers; lines may end with \n alone, then all do.
    mark = re.escape(b"--" + boundary)
    shape = re.compile(
        mark + rb"(\r?\n).*?\r?\n\r?\n(.*?)\r?\n" + mark + rb"\r?\n(.*?\r?\n)?\r?\n", re.DOTALL
    )
    for part in parts:
        known += part
        end = shape.search(known)
        if end or len(known) > _HEAD:
            break
    if end is None:
        raise ComputeError(400, "badRequest", "Multipart must have exactly two parts.")
    rest = _again(known[end.end() :], parts)
    return _about(end[2], end[3] or b""), end[1] + b"--" + boundary, rest


def _about(text: bytes, headers: bytes) -> dict[str, Any]:
    try:
        said = payload.read(text) if text.strip() else {}
    except ApiError:
        raise ComputeError(400, "parseError", "Parse Error") from None
    if not isinstance(said, dict):
        raise ComputeError(400, "parseError", "Parse Error")
    kind = BytesParser().parsebytes(headers).get("Content-Type")
    return {**({"contentType": kind} if kind else {}), **said}


def _again(first: bytes, parts: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from parts


def _until(mark: bytes, parts: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes before a boundary; raise if there is none."""
    held = b""
    for part in parts:
        held += part
        place = held.find(mark)
        if place >= 0:
            yield held[:place]
            _exhaust(parts)
            return
        # The end may be the beginning of the boundary.
        sure = max(0, len(held) - len(mark) + 1)
        yield held[:sure]
        held = held[sure:]
    raise ComputeError(400, "badRequest", "Multipart must have exactly two parts.")


def _exhaust(parts: Iterator[bytes]) -> None:
    for _part in parts:
        pass


# Resumable ------------------------------------------------------------------------------------


def _begin(call: Call) -> Answer:
    about, headers = call.json(), call.request.headers
    name = call.query.get("name") or str(about.get("name") or "")
    about.setdefault("contentType", headers.get("x-upload-content-type"))
    length = headers.get("x-upload-content-length", "")
    key = call.cloud.uploads.begin(
        "resumable",
        call["bucket"],
        name,
        {**announced(call), **about},
        call.conditions,
        call.may_replace,
        int(length) if length.isdecimal() else None,
    )
    path = f"/upload/storage/v1/b/{call['bucket']}/o"
    query = f"uploadType=resumable&name={quote(name, safe='')}&upload_id={key}"
    place = f"{call.request.root}{path}?{query}"
    return Reply(200, headers={"Location": place, "X-GUploader-UploadID": key})


def resume(call: Call) -> Answer:
    """Take a chunk, or say how much has arrived."""
    given = chunk(call.request.headers.get("content-range", ""))
    key = call.query["upload_id"]
    got = call.cloud.uploads.receive(key, given, iter(call.request.body))
    if isinstance(got, int):
        return waiting(key, got)
    return objects.shown(call, got)


def waiting(key: str, have: int) -> Reply:
    """Say how much of an upload has arrived."""
    arrived = {"Range": f"bytes=0-{have - 1}"} if have else {}
    return Reply(308, headers={"X-GUploader-UploadID": key, **arrived})


def cancel(call: Call) -> Answer:
    """End a resumable upload without an object."""
    call.cloud.uploads.known(call.query["upload_id"], "resumable")
    call.cloud.uploads.cancel(call.query["upload_id"])
    return Reply(499)
