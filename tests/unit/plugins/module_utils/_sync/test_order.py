"""What is asked of a worker, and what a worker asks for."""

from __future__ import annotations

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.snapshot import Entry
from ansible_collections.tpu.fleet.plugins.module_utils._sync.order import (
    Order,
    changed_paths,
    choice,
    chosen,
    contents_of,
    has_any,
)

LINES = [
    ["a.py", "file", False, "a" * 64, 3],
    ["copy.py", "file", True, "a" * 64, 3],
    ["link", "link", False, "a.py", 0],
    ["z.py", "file", False, "b" * 64, 5],
]


def order() -> Order:
    return Order.read(
        {
            "runs": ["digits"],
            "entry": {"name": "toy", "user": "bob", "local_path": "x"},
            "trees": [],
            "slice": "pair",
            "keep": 3,
            "digest": "d" * 64,
            "entries": LINES,
            "expected": {},
        }
    )


def test_both_sides_count_each_content_once_and_in_one_order() -> None:
    assert order().contents == contents_of(LINES) == ["a" * 64, "b" * 64]
    assert order().sizes == {"a" * 64: 3, "b" * 64: 5}


@pytest.mark.parametrize("wanted", [[], ["a" * 64], ["b" * 64], ["a" * 64, "b" * 64]])
def test_what_a_worker_asks_for_is_what_the_controller_reads(wanted: list[str]) -> None:
    contents = order().contents
    assert chosen(choice(wanted, contents), contents) == wanted


def test_more_than_there_is_is_not_asked_for() -> None:
    with pytest.raises(ValueError, match="more files were asked for"):
        chosen("4", order().contents)


def test_a_listing_is_compared_by_content_and_by_path() -> None:
    entries = [Entry(*line) for line in LINES]
    assert changed_paths(order(), [entry.line() for entry in entries]) == []
    moved = [*(entry.line() for entry in entries[:3]), Entry("y.py", *LINES[3][1:]).line()]
    assert changed_paths(order(), moved) == ["y.py", "z.py"]
    assert has_any(order(), moved)
    assert not has_any(order(), ["c" * 16 + " - a.py"])
