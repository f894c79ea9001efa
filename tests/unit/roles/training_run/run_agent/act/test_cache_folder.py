"""The folder of a compilation cache: what is in it, what goes."""

from __future__ import annotations

import os
import time
import zlib
from pathlib import Path

from run_agent.act import cache_folder


def name_of(letter: str) -> str:
    return f"jit_{letter}-{letter * 64}-cache"


def put(folder: Path, letter: str, data: bytes | None = None, age: float = 100.0) -> str:
    path = folder / name_of(letter)
    path.write_bytes(zlib.compress(letter.encode() * 100) if data is None else data)
    at = time.time() - age
    os.utime(path, (at, at))
    return path.name


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_entries_are_plain_files(tmp_path: Path) -> None:
    one = put(tmp_path, "a")
    (tmp_path / name_of("b")).symlink_to(tmp_path / one)
    (tmp_path / name_of("c")).mkdir()
    (tmp_path / "notes").write_text("x")
    assert [entry.name for entry in cache_folder.entries(tmp_path)] == [one]
    assert [cache_folder.content(tmp_path, name) for name in (name_of("b"), "notes")] == [b"", b""]
    assert cache_folder.entries(tmp_path / "gone") == []


def test_broken_entries_go_when_nothing_writes_them(tmp_path: Path) -> None:
    good, broken = put(tmp_path, "a"), put(tmp_path, "b", b"\x78\x9cbroken")
    young = put(tmp_path, "c", b"\x78\x9cbegun", age=0.0)
    assert cache_folder.tidy(tmp_path, 10**6, []) == [good]
    assert names(tmp_path) == [good, young]
    assert broken not in names(tmp_path)


def test_what_is_too_much_goes_with_its_note_of_use(tmp_path: Path) -> None:
    old, new = put(tmp_path, "a", age=100.0), put(tmp_path, "b", age=50.0)
    note = tmp_path / old.replace("-cache", "-atime")
    note.write_bytes(bytes(8))
    size = (tmp_path / new).stat().st_size
    assert cache_folder.tidy(tmp_path, size, []) == [new]
    assert names(tmp_path) == [new]


def test_a_file_that_was_being_written_is_left_over_after_a_while(tmp_path: Path) -> None:
    old, young = tmp_path / f".{name_of('a')}.1.new", tmp_path / f".{name_of('a')}.2.new"
    for path, age in ((old, 1000.0), (young, 1.0)):
        path.write_bytes(b"x")
        os.utime(path, (time.time() - age,) * 2)
    cache_folder.tidy(tmp_path, 10**6, [])
    assert names(tmp_path) == [young.name]


def test_only_whole_entries_are_written(tmp_path: Path) -> None:
    data = zlib.compress(b"code")
    assert cache_folder.write(tmp_path, name_of("a"), data)
    assert not cache_folder.write(tmp_path, name_of("b"), data[:-1])
    assert not cache_folder.write(tmp_path, "../b", data)
    assert names(tmp_path) == [name_of("a")]
