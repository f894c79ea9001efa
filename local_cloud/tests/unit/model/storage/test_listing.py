"""Pages of lists: folders, offsets, tokens, and how many rows a page reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tpu_local_cloud.compute_errors import ComputeError
from tpu_local_cloud.model.storage import globs
from tpu_local_cloud.model.storage.index import Row
from tpu_local_cloud.model.storage.listing import Page, Question, page

NAMES = sorted(["a/", "a/1", "a/2", "a0", "b/c/1", "b/d", "z"])


class Shelf:
    """Rows in order, and how many were read."""

    def __init__(self, names: list[str]) -> None:
        self.names, self.read = names, 0

    def __call__(self, name: str, number: int) -> Iterator[Row]:
        for each in self.names:
            if (each, 1) > (name, number):
                self.read += 1
                yield Row(each, 1, "live", {"name": each})


def names(found: Page) -> list[str]:
    return [item["name"] for item in found.items]


def test_folders_are_separate() -> None:
    found = page(Shelf(NAMES), Question(delimiter="/"))
    assert (names(found), found.folders, found.token) == (["a0", "z"], ["a/", "b/"], "")
    found = page(Shelf(NAMES), Question(prefix="a/", delimiter="/"))
    assert (names(found), found.folders) == (["a/", "a/1", "a/2"], [])
    found = page(Shelf(NAMES), Question(delimiter="/", trailing=True))
    assert (names(found), found.folders) == (["a/", "a0", "z"], ["a/", "b/"])


@pytest.mark.parametrize("size", [1, 2, 3, 10])
@pytest.mark.parametrize("delimiter", ["", "/", "/c"])
def test_pages_have_together_what_one_has(size: int, delimiter: str) -> None:
    whole = page(Shelf(NAMES), Question(delimiter=delimiter))
    items, folders, token = [], [], ""
    for _ in range(20):
        part = page(Shelf(NAMES), Question(delimiter=delimiter, size=size, token=token))
        assert part.length <= size
        items += names(part)
        folders += part.folders
        token = part.token
        if not token:
            break
    assert (items, folders) == (names(whole), whole.folders)


def test_a_folder_costs_the_same_with_ten_thousand_objects() -> None:
    shelf = Shelf([f"{step:03d}/{number:05d}" for step in range(5) for number in range(10_000)])
    found = page(shelf, Question(delimiter="/"))
    assert found.folders == [f"{step:03d}/" for step in range(5)]
    assert shelf.read < 10


def test_offsets_and_patterns() -> None:
    found = page(Shelf(NAMES), Question(start="a/2", end="b/d"))
    assert names(found) == ["a/2", "a0", "b/c/1"]
    found = page(Shelf(NAMES), Question(glob=globs.pattern("*/1")))
    assert names(found) == ["a/1"]
    found = page(Shelf(NAMES), Question(glob=globs.pattern("b/d"), delimiter="/"))
    assert found.folders == ["b/"]


def test_a_token_of_another_list_is_refused() -> None:
    with pytest.raises(ComputeError, match="pageToken"):
        page(Shelf(NAMES), Question(token="x"))
