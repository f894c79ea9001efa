"""Requests and answers of Compute Engine's batch endpoint."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._compute.batch import (
    BOUNDARY,
    KIND,
    answers_of,
    request_of,
)


def answer(*parts: str) -> bytes:
    text = "".join(f"--b_1\r\nContent-Type: application/http\r\n{part}\r\n" for part in parts)
    return f"{text}--b_1--\r\n".encode()


def part(number: int, status: str, body: str) -> str:
    return f"Content-ID: <response-{number}>\r\n\r\nHTTP/1.1 {status}\r\nETag: x\r\n\r\n{body}"


MIXED = "multipart/mixed; boundary=b_1"


def test_each_read_is_a_part_with_a_number() -> None:
    text = request_of(["/compute/v1/a?x=1", "/compute/v1/b"]).decode()
    assert KIND.endswith(f"boundary={BOUNDARY}")
    assert text.count(f"--{BOUNDARY}\r\n") == 2
    assert "Content-ID: <1>\r\n\r\nGET /compute/v1/b HTTP/1.1\r\n" in text
    assert text.endswith(f"--{BOUNDARY}--\r\n")


def test_answers_are_in_the_order_of_the_reads() -> None:
    content = answer(part(1, "404 Not Found", '{"error": {}}'), part(0, "200 OK", '{"a": 1}'))
    assert answers_of(MIXED, content, 2) == [(200, {"a": 1}), (404, {"error": {}})]


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("text/html", b"<html>"),
        (MIXED, b""),
        (MIXED, answer(part(0, "200 OK", "no JSON"))),
        (MIXED, answer(part(7, "200 OK", "{}"))),
        (MIXED, answer(part(0, "nonsense", "{}"))),
        (MIXED, answer("Content-ID: <response-x>\r\n\r\nHTTP/1.1 200 OK\r\n\r\n{}")),
    ],
)
def test_what_is_no_answer_is_told_as_none(kind: str, content: bytes) -> None:
    assert answers_of(kind, content, 1) == [(0, {})]
