"""A round of a compilation cache, with a bucket and with worker 0."""

from __future__ import annotations

import random
import time
import zlib
from pathlib import Path
from typing import Any

from object_server import Objects
from run_agent.act import cache_round
from run_agent.decide import compile_cache

KEY, OTHER = "ab" * 32, "cd" * 32
PREFIX = "all/demo/compile-cache/demo/"


def name_of(letter: str) -> str:
    return f"jit_{letter}-{letter * 64}-cache"


def data_of(letter: str) -> bytes:
    return zlib.compress(random.Random(letter).randbytes(500))  # noqa: S311 - the same each time


def put(folder: Path, *letters: str) -> None:
    folder.mkdir(exist_ok=True)
    for letter in letters:
        (folder / name_of(letter)).write_bytes(data_of(letter))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def done(folder: Path, lab: Objects, **more: Any) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    asked = {
        "folder": str(folder), "limit": 10**6, "key": KEY, "known": [], "fetch": True,
        "send": True, "prune": True, "seconds": 20.0, "peer": None, "storage": lab.url,
        "metadata": "", "bucket": "lab", "prefix": PREFIX,
    }  # fmt: skip
    return cache_round.done({**asked, **more})


def test_a_new_slice_finds_what_another_has_written(tmp_path: Path, lab: Objects) -> None:
    put(tmp_path / "old", "a", "b")
    first = done(tmp_path / "old", lab)
    assert (first["sent"], first["errors"]) == (2, [])
    lab.page_size = 1
    second = done(tmp_path / "new", lab)
    assert (second["fetched"], second["sent"], second["errors"]) == (2, 0, [])
    assert sorted(second["known"]) == names(tmp_path / "new") == [name_of("a"), name_of("b")]
    assert (tmp_path / "new" / name_of("a")).read_bytes() == data_of("a")


def test_what_others_put_into_the_bucket_is_not_taken(tmp_path: Path, lab: Objects) -> None:
    folder = f"{PREFIX}{compile_cache.name_of(KEY)}/"
    forged = {
        name_of("a"): data_of("a"),
        name_of("b"): compile_cache.sealed(OTHER, name_of("b"), data_of("b")),
        name_of("c"): compile_cache.sealed(KEY, name_of("d"), data_of("c")),
        "../../evil": compile_cache.sealed(KEY, "../../evil", data_of("e")),
    }
    for name, data in forged.items():
        lab.upload({"name": folder + name}, data)
    answer = done(tmp_path / "new", lab)
    assert (answer["fetched"], names(tmp_path / "new")) == (0, [])


def test_the_newest_come_within_the_limit(tmp_path: Path, lab: Objects) -> None:
    put(tmp_path / "old", "a", "b")
    done(tmp_path / "old", lab)
    folder = f"{PREFIX}{compile_cache.name_of(KEY)}/"
    lab.put(folder + name_of("b"), time.time() - 100, 600)
    size = len(data_of("a"))
    answer = done(tmp_path / "new", lab, limit=size + 300, send=False)
    assert (answer["fetched"], names(tmp_path / "new")) == (1, [name_of("a")])


def test_the_bucket_keeps_what_is_used_within_the_limit(tmp_path: Path, lab: Objects) -> None:
    put(tmp_path / "old", "a", "b")
    done(tmp_path / "old", lab)
    put(tmp_path / "new", "a")
    done(tmp_path / "new", lab, fetch=False, limit=len(data_of("a")) + 300, prune=False)
    assert len(lab.items) == 2
    done(tmp_path / "new", lab, fetch=False, limit=len(data_of("a")) + 300)
    assert [name.rpartition("/")[2] for name in lab.items] == [name_of("a")]


def test_a_bucket_that_refuses_is_said(tmp_path: Path, lab: Objects) -> None:
    lab.upload_refusal = (403, "no")
    put(tmp_path / "old", "a")
    answer = done(tmp_path / "old", lab)
    assert answer["errors"] == [
        "the bucket refuses (403): give the service account of the slice "
        "roles/storage.objectUser on it"
    ]


def test_without_time_nothing_is_fetched(tmp_path: Path, lab: Objects) -> None:
    put(tmp_path / "old", "a")
    done(tmp_path / "old", lab)
    answer = done(tmp_path / "new", lab, seconds=-1.0)
    assert answer["fetched"] == 0
    assert answer["known"] == []
