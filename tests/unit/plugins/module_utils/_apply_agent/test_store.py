"""Files that arrive over a line that may break."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent import store as module
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.store import Store, StoreError
from ansible_collections.tpu.fleet.plugins.module_utils._apply_agent.talk import Line

DATA = b"x" * 200_000
NAME = hashlib.sha256(DATA).hexdigest()


def test_what_arrives_whole_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "files")
    assert store.missing([NAME, NAME]) == [NAME]
    store.receive(io.BytesIO(DATA + b"next"), NAME, len(DATA))
    assert store.path(NAME).read_bytes() == DATA
    assert store.path(NAME).stat().st_mode & 0o777 == 0o600
    assert store.missing([NAME]) == []


@pytest.mark.parametrize(
    ("sent", "size", "words"),
    [(DATA[:1000], len(DATA), "only 1000 of 200000"), (b"y" * 10, 10, "the received file has")],
)
def test_half_a_file_or_another_one_is_not(
    tmp_path: Path, sent: bytes, size: int, words: str
) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match=words):
        store.receive(io.BytesIO(sent), NAME, size)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_said_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(StoreError, match=r"has no room .* journalctl"):
        Store(tmp_path).receive(io.BytesIO(DATA), NAME, len(DATA))
    assert list(tmp_path.iterdir()) == []


def test_only_hashes_are_names(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a SHA-256"):
        Store(tmp_path).path("../../etc/passwd")


def test_what_nobody_wants_goes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in (NAME, "0" * 64, ".half.123"):
        (tmp_path / name).touch()
    store.keep([NAME])
    assert [path.name for path in tmp_path.iterdir()] == [NAME]


def speak(tmp_path: Path, sent: bytes, *names: str) -> tuple[Store, bytes]:
    store, said = Store(tmp_path), io.BytesIO()
    try:
        Line(io.BytesIO(sent), said).fetch(store, names)
    finally:
        said.seek(0)
    return store, said.read()


def test_only_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    store, said = speak(tmp_path, b"file %s %d\n%s" % (NAME.encode(), len(DATA), DATA), NAME)
    assert said == b'{"say": "need", "files": ["%s"]}\n' % NAME.encode()
    assert store.missing([NAME]) == []
    assert speak(tmp_path, b"", NAME)[1] == b""


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        (b"", "connection was lost"),
        (b"hello\n", "does not use protocol"),
        (b"file " + b"0" * 64 + b" 1\nx", "not asked for"),
    ],
)
def test_a_line_that_says_something_else(tmp_path: Path, sent: bytes, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        speak(tmp_path, sent, NAME)


def test_a_lost_line_is_no_trouble() -> None:
    class Closed(io.BytesIO):
        def write(self, _data: Any) -> int:
            raise BrokenPipeError

    line = Line(io.BytesIO(), Closed())
    line.say("event")
    line.say("event")
    assert line.lost
