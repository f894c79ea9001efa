# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many reads of Compute Engine in one request: multipart/mixed, as its batch endpoint takes it.

Source: https://cloud.google.com/compute/docs/api/how-tos/batch. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from email.message import Message
from typing import Any

PATH = "/batch/compute/v1"
# Google accepts a thousand; a hundred cost little more each, and the answers come sooner.
MOST = 100
BOUNDARY = "tpu-fleet-batch"
KIND = f"multipart/mixed; boundary={BOUNDARY}"


def request_of(paths: Sequence[str]) -> bytes:
    """Return the content of a request that reads all these paths of the host."""
    parts = [
        f"--{BOUNDARY}\r\nContent-Type: application/http\r\nContent-ID: <{number}>\r\n\r\n"
        f"GET {path} HTTP/1.1\r\nAccept: application/json\r\n\r\n\r\n"
        for number, path in enumerate(paths)
    ]
    return "".join([*parts, f"--{BOUNDARY}--\r\n"]).encode()


def answers_of(kind: str, content: bytes, count: int) -> list[tuple[int, dict[str, Any]]]:
    """Return status and object for each of `count` reads; status 0 where there is no answer."""
    header = Message()
    header["Content-Type"] = kind
    boundary = str(header.get_param("boundary") or "")
    found: list[tuple[int, dict[str, Any]]] = [(0, {})] * count
    if not boundary:
        return found
    for part in content.split(b"--" + boundary.encode())[1:]:
        about, _blank, answer = part.partition(b"\r\n\r\n")
        head, _blank, body = answer.partition(b"\r\n\r\n")
        number = _number_of(about)
        words = head.split(None, 2)
        if number is None or number >= count or len(words) < 2 or not words[1].isdigit():
            continue
        try:
            data = json.loads(body) if body.strip() else {}
        except ValueError:
            continue
        if isinstance(data, dict):
            found[number] = int(words[1]), data
    return found


def _number_of(about: bytes) -> int | None:
    """Return which call a part answers: <response-7> answers <7>."""
    for line in about.splitlines():
        name, _colon, value = line.partition(b":")
        if name.strip().lower() == b"content-id":
            number = value.strip().strip(b"<>").rpartition(b"-")[2]
            return int(number) if number.isdigit() else None
    return None
