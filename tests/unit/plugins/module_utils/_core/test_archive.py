"""The layout of an archive: what was written twice is read once, and only what is whole."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import archive
from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import (
    Frame,
    Joined,
    Life,
    Thing,
    frames_of,
)
from ansible_collections.tpu.fleet.plugins.module_utils._schema.values import ENTRY_NAME

LIFE = "20261129T070120Z-0a1b2c3d"
BUCKET = "gs://lab/digits"


@pytest.mark.parametrize(
    ("run", "folder", "place"),
    [
        ({}, "gs://lab/runs/digits", "gs://lab/tpu-fleet-archive/runs/digits/"),
        ({}, "gs://lab", "gs://lab/tpu-fleet-archive/"),
        ({}, "/data/digits", ""),
        ({}, "", ""),
        ({"archive": "gs://logs/all"}, "/data/digits", "gs://logs/all"),
        ({"archive": None}, BUCKET, ""),
        ({"archive": ""}, BUCKET, ""),
    ],
)
def test_where_the_archive_of_a_run_is(run: dict[str, Any], folder: str, place: str) -> None:
    assert archive.place_of(run, folder) == place


def test_the_objects_of_a_run_lie_below_its_name() -> None:
    assert archive.prefix_of("gs://lab/all/", "digits") == ("lab", "all/digits/")
    assert archive.prefix_of("gs://lab", "digits") == ("lab", "digits/")
    assert archive.prefix_of("", "digits") is None


def test_the_requests_of_a_month_have_a_bound() -> None:
    page = (Path(__file__).parents[5] / "docs/data-and-checkpoints.md").read_text()
    for workers, said in (
        (1, "at\nmost ${} a month for each worker"),
        (4, "${}\nfor a run on four"),
    ):
        assert said.format(f"{archive.dollars_a_month(workers, 30.0):.2f}") in page


def test_frames_are_read_as_they_were_written() -> None:
    text = archive.frame("log", 7, b"one\ntwo", 5.04) + archive.frame("events", 0, b"", 6.0, True)
    assert list(frames_of(text)) == [
        Frame("log", 7, b"one\ntwo", 5.0),
        Frame("events", 0, b"", 6.0, True),
    ]


@pytest.mark.parametrize(
    "head",
    [
        {"stream": "../log"},
        {"stream": "hang-x.txt"},
        {"at": -1},
        {"at": True},
        {"at": 1 << 60},
        {"bytes": 1 << 30},
        {"bytes": 4},
        {"time": "now"},
        {"time": None},
    ],
)
def test_a_frame_that_is_none_ends_a_part(head: dict[str, Any]) -> None:
    good = archive.frame("log", 0, b"abc", 1.0)
    told = {"stream": "log", "at": 3, "bytes": 3, "time": 2.0, **head}
    bad = json.dumps(told).encode() + b"\nabc\n"
    assert [one.data for one in frames_of(good + bad + good)] == [b"abc"]
    assert list(frames_of(b"[]\n" + good)) == list(frames_of(b"no frame")) == []


def test_what_was_written_twice_is_taken_once_and_what_is_missing_is_said() -> None:
    joined = Joined()

    def taken(at: int, data: bytes, lost: bool = False) -> tuple[bytes, bool]:
        return joined.taken(Frame("log", at, data, 0.0, lost))

    assert taken(0, b"abcd") == (b"abcd", False)
    assert taken(0, b"abcdef") == (b"ef", False)
    assert taken(2, b"cd") == (b"", False)
    assert taken(6, b"gh", lost=True) == (b"gh", True)
    assert taken(9, b"k") == (b"k", True)
    assert joined.ends == {"log": 10}


def test_a_part_that_is_in_a_composed_one_is_not_read() -> None:
    names = ["0000000000-0000000031", "0000000000-0000000000", "0000000005-0000000005",
             "0000000032-0000000032", "0000000033-0000000033", "0000000032-0000000040"]  # fmt: skip
    life = Life("solo", "solo", LIFE, [Thing(f"parts/{name}", 1, 1.0) for name in names])
    assert [one.name[6:] for one in life.needed] == [names[0], names[5]]


def test_parts_are_composed_when_they_are_many_or_large() -> None:
    small = [[number, number, 10] for number in range(archive.TOGETHER)]
    assert archive.to_compose(small)
    assert not archive.to_compose(small[1:])
    assert archive.to_compose([[0, 0, 1], [1, 1, archive.FULL]])
    assert not archive.to_compose([[0, 0, archive.FULL]])


def item(name: str, size: Any = "5", updated: str = "2026-11-29T07:01:20Z") -> dict[str, Any]:
    return {"name": name, "size": size, "updated": updated}


def test_lives_are_in_the_order_of_time() -> None:
    later = "20261130T070120Z-0a1b2c3d"
    part = "parts/0000000000-0000000000"
    names = [f"all/digits/pair/pair-w1/{later}/{part}", f"all/digits/pair/pair-w1/{LIFE}/{part}",
             f"all/digits/pair/pair-w1/{LIFE}/results/plots/a.png"]  # fmt: skip
    lives, refused = archive.lives_of(map(item, names), "all/digits/", ENTRY_NAME)
    assert [(one.slice, one.host, one.name) for one in lives] == [
        ("pair", "pair-w1", LIFE),
        ("pair", "pair-w1", later),
    ]
    assert [one.name for one in lives[0].results] == ["results/plots/a.png"]
    assert (refused, lives[1].results, lives[0].folder) == (0, [], f"pair/pair-w1/{LIFE}/")


@pytest.mark.parametrize(
    "one",
    [
        item(f"digits/solo/pair-w1/{LIFE}/parts/0000000000-0000000000"),
        item(f"digits/solo/solo-wx/{LIFE}/parts/0000000000-0000000000"),
        item(f"digits/-o/-o/{LIFE}/parts/0000000000-0000000000"),
        item("digits/solo/solo/yesterday/parts/0000000000-0000000000"),
        item(f"digits/solo/solo/{LIFE}/parts/0-1"),
        item(f"digits/solo/solo/{LIFE}/other/x"),
        item(f"digits/solo/solo/{LIFE}/results/../../x"),
        item(f"digits/solo/solo/{LIFE}/results/a\x1b[2Jb"),
        item(f"digits/solo/solo/{LIFE}/parts/0000000000-0000000000", str(1 << 30)),
        item(f"digits/solo/solo/{LIFE}/results/x", "much"),
        item(f"digits/solo/solo/{LIFE}/results/x", updated="today"),
        item("digits/x"),
        "digits",
    ],
)
def test_an_object_that_is_none_of_an_archive_is_refused(one: Any) -> None:
    assert archive.lives_of([one], "digits/", ENTRY_NAME) == ([], 1)
