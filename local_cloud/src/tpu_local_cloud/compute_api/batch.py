"""Several calls in one request: `POST /batch/compute/v1` with a part for each."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from http import HTTPStatus
from urllib.parse import parse_qsl, urlsplit

from ..compute_errors import ComputeError

PATH = re.compile(r"/batch/compute/(?:v1|beta|alpha)")
# Google accepts as many calls.
MOST = 1000
_LINE = re.compile(r"(?P<method>[A-Z]+) (?P<target>\S+)(?: HTTP/1\.[01])?")


@dataclass(frozen=True)
class Part:
    """One call: what its own request would have been."""

    id: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


def parts(kind: str, body: bytes) -> list[Part]:
    """Return the calls of a batch, given the request's content type and body."""
    if not re.match(r"multipart/mixed\s*;.*boundary=", kind, re.IGNORECASE):
        raise _invalid("The batch request could not be decoded: it is no multipart/mixed.")
    whole = BytesParser(policy=HTTP).parsebytes(
        f"Content-Type: {kind}\r\n\r\n".encode("latin-1") + body
    )
    if not whole.is_multipart():
        raise _invalid("The batch request could not be decoded: it has no parts.")
    found = [
        _part(str(each.get("Content-ID", "")), bytes(each.get_payload(decode=True) or b""))
        for each in whole.iter_parts()
    ]
    if len(found) > MOST:
        raise _invalid(f"The batch request has {len(found)} calls. The maximum is {MOST}.")
    return found


def _part(name: str, text: bytes) -> Part:
    head, _, body = re.sub(rb"\r?\n", b"\r\n", text.lstrip()).partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise _invalid("The batch request could not be decoded: a part is no HTTP request.")
    target = urlsplit(match["target"])
    pairs = (field.partition(":") for field in fields)
    headers = {key.strip().title(): value.strip() for key, _, value in pairs}
    query = dict(parse_qsl(target.query, keep_blank_values=True))
    return Part(name, match["method"], target.path, query, headers, body.rstrip(b"\r\n"))


def answer(replies: Iterable[tuple[Part, int, dict[str, str], bytes]]) -> tuple[str, bytes]:
    """Return the content type and body of the answer, from the answer to each call."""
    boundary = f"batch_{secrets.token_urlsafe(24)}"
    lines = []
    for part, status, headers, body in replies:
        name = re.sub(r"^<?(.*?)>?$", r"<response-\1>", part.id)
        lines += [
            f"--{boundary}",
            "Content-Type: application/http",
            *([f"Content-ID: {name}"] if part.id else []),
            "",
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
            *(f"{key}: {value}" for key, value in headers.items()),
            f"Content-Length: {len(body)}",
            "",
            body.decode(),
        ]
    text = "\r\n".join([*lines, f"--{boundary}--", ""])
    return f"multipart/mixed; boundary={boundary}", text.encode()


def _invalid(text: str) -> ComputeError:
    return ComputeError(400, "badRequest", text)
