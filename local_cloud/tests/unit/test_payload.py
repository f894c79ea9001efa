"""JSON of requests: what Google refuses is refused, and what was stored can be shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tpu_local_cloud import payload
from tpu_local_cloud.errors import ApiError


@pytest.mark.parametrize(
    "value",
    ["\ud800", "caf\udce9", {"\udfff": 1}, [{"a": ["b\udc00"]}], "\udc00\ud800"],
    ids=["high", "surrogateescape", "key", "inside", "swapped"],
)
def test_half_of_a_pair_is_refused(value: Any) -> None:
    with pytest.raises(ApiError, match="Invalid JSON payload received"):
        payload.read(json.dumps(value).encode())


@pytest.mark.parametrize("body", [b'"\xed\xa0\x80"', b'"caf\xe9"', '"é"'.encode("utf-16")])
def test_other_encodings_than_utf_8_are_refused(body: bytes) -> None:
    with pytest.raises(ApiError, match="Encountered non UTF-8 code points"):
        payload.read(body)


@pytest.mark.parametrize("value", ["\U0001f600", "é", "\\ud800", {"ü": ["\u2028"]}])
def test_every_character_is_read(value: Any) -> None:
    assert payload.read(json.dumps(value).encode()) == value
    assert payload.read(json.dumps(value, ensure_ascii=False).encode()) == value


def nested(depth: int, begin: str = "[", end: str = "]") -> bytes:
    return (begin * depth + "1" + end * depth).encode()


def test_what_is_nested_as_deep_as_google_reads_is_read() -> None:
    payload.read(nested(payload.DEEPEST))
    payload.read(json.dumps([{"a": ["[" * 300, {}, []]}] * 200).encode())


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (nested(101), "in array"),
        (nested(101, '{"labels": ', "}"), "for key 'labels'"),
        (b'{"a": ' * 100_000, "for key 'a'"),
        (b"[" * 100_000, "in array"),
    ],
)
def test_what_is_nested_deeper_is_refused(body: bytes, where: str) -> None:
    with pytest.raises(ApiError) as refused:
        payload.read(body)
    text = f"Invalid JSON payload received. Message too deep. Max recursion depth reached {where}"
    assert refused.value.message == text
