"""What `filter` and `orderBy` leave of a list."""

from __future__ import annotations

from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.tpu_api.list_filter import fields_of, kept, order_of

ITEMS: list[dict[str, Any]] = [
    {"type": "v4-8", "done": True, "configs": [{"topology": "2x2x1"}], "labels": {"team": "a"}},
    {"type": "v4-16", "done": False, "configs": [{"topology": "2x2x2"}], "at": "2026-01-02"},
    {"type": "v5p-8", "size": 4, "metadata": {"verb": "create"}},
]


@pytest.mark.parametrize(
    ("text", "types"),
    [
        ('type="v4-8"', ["v4-8"]),
        ("type = v4-8", ["v4-8"]),
        ("type='v4-8'", ["v4-8"]),
        ('type!="v4-8"', ["v4-16", "v5p-8"]),
        ("type=v4-*", ["v4-8", "v4-16"]),
        ("type=v4-?", []),
        ("type:8", ["v4-8", "v5p-8"]),
        ("done=true", ["v4-8"]),
        ("done=false", ["v4-16", "v5p-8"]),
        ("NOT done=true", ["v4-16", "v5p-8"]),
        ("-done=true", ["v4-16", "v5p-8"]),
        ("configs.topology=2x2x2", ["v4-16"]),
        ("labels:team", ["v4-8"]),
        ("labels.team=a", ["v4-8"]),
        ("labels:*", ["v4-8"]),
        ("metadata.verb = create", ["v5p-8"]),
        ("size>3", ["v5p-8"]),
        ("size>=5", []),
        ('at>"2026-01-01"', ["v4-16"]),
        ("type:v4 AND done=false", ["v4-16"]),
        ("type:v4 done=false", ["v4-16"]),
        ("type=v4-8 OR type=v5p-8", ["v4-8", "v5p-8"]),
        # OR binds tighter than AND.
        ("done=true AND type=v4-8 OR type=v5p-8", ["v4-8"]),
        ("(done=true AND type=v4-8) OR type=v5p-8", ["v4-8", "v5p-8"]),
        ("2x2x2", ["v4-16"]),
        ("", ["v4-8", "v4-16", "v5p-8"]),
    ],
)
def test_a_filter(text: str, types: list[str]) -> None:
    assert [item["type"] for item in kept(text, "", ITEMS, lambda item: item)] == types


@pytest.mark.parametrize(
    "text", ["type=", "(type=a", "type=a)", "AND", "type=a OR", 'type="a', "="]
)
def test_a_filter_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ApiError, match="Invalid argument: 'filter'"):
        kept(text, "", ITEMS, lambda item: item)


def test_the_fields_that_a_filter_goes_by() -> None:
    assert fields_of("a.b=1 AND (c:x OR -d>2) word") == ["a.b", "c", "d"]


@pytest.mark.parametrize(
    ("order", "types"),
    [
        ("type", ["v4-16", "v4-8", "v5p-8"]),
        ("type desc", ["v5p-8", "v4-8", "v4-16"]),
        ("at desc, type asc", ["v4-16", "v4-8", "v5p-8"]),
    ],
)
def test_an_order(order: str, types: list[str]) -> None:
    assert [item["type"] for item in kept("", order, ITEMS, lambda item: item)] == types


@pytest.mark.parametrize("order", ["type down", "a b c", "type;"])
def test_an_order_that_cannot_be_read(order: str) -> None:
    with pytest.raises(ApiError, match="Invalid argument: 'order_by'"):
        order_of(order)
