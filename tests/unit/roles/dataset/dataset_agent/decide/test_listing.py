"""Which listings of a source may come onto a disk."""

from __future__ import annotations

import pytest
from dataset_agent.decide.listing import UNKNOWN, Item, Unfit, chosen, fitting, size


def items(*paths: str, each: int = 10) -> list[Item]:
    return [Item(path, each, path, "1") for path in paths]


def test_files_come_in_order() -> None:
    assert [one.path for one in fitting(items("b/c", "a", "b/a"), 30)] == ["a", "b/a", "b/c"]


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "../a", "a/../b", "a//b", "./a", "a\nb", "a\0b", "x" * 256, "é" * 200],
)
def test_a_name_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(Unfit, match="is no name of a file here"):
        fitting(items("good", path), 100)


@pytest.mark.parametrize(
    ("paths", "most", "says"),
    [
        ((), 10, "has no such file"),
        (("a", "b"), 19, "it has 20 B, and size = 19 B. Raise size"),
        (("a", "a"), 99, "two of its files have the same name"),
        (("a", "a/b"), 99, "'a' is a file and a folder"),
    ],
)
def test_what_does_not_fit(paths: tuple[str, ...], most: int, says: str) -> None:
    with pytest.raises(Unfit, match=says):
        fitting(items(*paths), most)


def test_a_size_that_is_not_known_is_bounded_later() -> None:
    assert fitting(items("a", each=UNKNOWN), 1)


def test_patterns() -> None:
    found = chosen(items("a.txt", "b/c.txt", "b/d.md"), ["*.txt"])
    assert [one.path for one in found] == ["a.txt", "b/c.txt"]
    assert len(chosen(items("a", "b"), ())) == 2


@pytest.mark.parametrize(("count", "text"), [(9, "9 B"), (1536, "1.5 KiB"), (3 << 40, "3.0 TiB")])
def test_sizes_for_people(count: int, text: str) -> None:
    assert size(count) == text
