"""Files of contents, and their checksums."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tpu_local_cloud.model.storage.contents import CHUNK, Checksums, Contents, read


def test_checksums_are_those_of_the_standards() -> None:
    sums = Checksums()
    for part in (b"12345", b"6789"):
        sums.update(part)
    # The check value of CRC-32C is e3069283.
    assert (sums.size, sums.crc32c, sums.md5) == (9, "4waSgw==", "JfnnlDI7RTiF9RgfG2JNCw==")


def test_parts_that_end_early_leave_nothing(tmp_path: Path) -> None:
    contents = Contents(tmp_path, durable=True)

    def parts() -> Iterator[bytes]:
        yield b"one"
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        contents.receive(parts())
    assert list((tmp_path / "incoming").iterdir()) == []


def test_ranges_are_read_in_chunks(tmp_path: Path) -> None:
    content = bytes(range(256)) * (CHUNK // 100)
    contents = Contents(tmp_path, durable=False)
    contents.keep(contents.receive([content]), 1)
    with contents.open(1) as file:
        parts = list(read(file, 7, CHUNK + 5))
        assert b"".join(parts) == content[7 : 7 + CHUNK + 5]
        assert max(map(len, parts)) == CHUNK
        assert b"".join(read(file, len(content) - 3, 100)) == content[-3:]


def test_what_came_after_an_offset_is_replaced(tmp_path: Path) -> None:
    contents = Contents(tmp_path, durable=True)
    contents.incoming("a").write_bytes(b"12345")
    assert contents.append("a", 3, [b"xy", b"z"]) == 6
    assert contents.whole("a").sums.size == 6
    assert contents.incoming("a").read_bytes() == b"123xyz"
