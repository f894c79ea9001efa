"""Resumable uploads and uploads in parts, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tpu_local_cloud.errors import ApiError
from tpu_local_cloud.model.shared.clock import Clock
from tpu_local_cloud.model.shared.faults import Fault, Faults
from tpu_local_cloud.model.storage import conditions
from tpu_local_cloud.model.storage.buckets import Buckets
from tpu_local_cloud.model.storage.uploads import LIFE, QUANTUM, Uploads, chunk, part_etag

BODY = bytes(range(256)) * (QUANTUM // 128) + b"the end"
STATUS = "bytes */*"


class Stand:
    """Uploads to one bucket; a restart keeps nothing but the files."""

    def __init__(self, root: Path) -> None:
        self.root, self.clock, self.faults = root, Clock("manual"), Faults()
        self.start()
        self.buckets.make({"name": "lab"})

    def start(self) -> None:
        self.buckets = Buckets(self.root, self.clock, self.faults, "12")
        self.uploads = Uploads(self.buckets)

    def restart(self) -> None:
        self.buckets.close()
        self.start()

    def begin(self, name: str = "a", **query: str) -> str:
        wanted = conditions.of_query(query)
        return self.uploads.begin("resumable", "lab", name, {}, wanted, may_replace=True)

    def send(self, key: str, first: int, last: int, total: str) -> Any:
        given = chunk(f"bytes {first}-{last - 1}/{total}")
        return self.uploads.receive(key, given, [BODY[first:last]])

    def status(self, key: str, header: str = STATUS) -> Any:
        return self.uploads.receive(key, chunk(header), [])

    def content(self, name: str = "a") -> bytes:
        _document, file = self.buckets.open("lab", name, "", conditions.NONE)
        with file:
            return file.read()


@pytest.fixture
def stand(tmp_path: Path) -> Iterator[Stand]:
    made = Stand(tmp_path)
    yield made
    made.buckets.close()


def test_in_chunks_through_a_restart(stand: Stand) -> None:
    key = stand.begin()
    assert stand.status(key) == 0
    assert stand.send(key, 0, QUANTUM, "*") == QUANTUM
    stand.restart()
    assert stand.status(key) == QUANTUM
    with pytest.raises(ApiError, match="No such object"):
        stand.buckets.find("lab", "a")
    made = stand.send(key, QUANTUM, len(BODY), str(len(BODY)))
    assert made["size"] == str(len(BODY))
    assert stand.content() == BODY


def test_who_asks_again_after_a_lost_answer_gets_the_object(stand: Stand) -> None:
    key = stand.begin(ifGenerationMatch="0")
    made = stand.send(key, 0, len(BODY), str(len(BODY)))
    assert stand.status(key) == made
    assert stand.send(key, 0, len(BODY), str(len(BODY))) == made
    stand.restart()
    assert stand.status(key, f"bytes */{len(BODY)}") == made


def test_without_a_range_everything_comes_at_once(stand: Stand) -> None:
    key = stand.begin()
    assert stand.uploads.receive(key, chunk(""), [BODY[:9], BODY[9:20]])["size"] == "20"
    empty = stand.begin("empty")
    assert stand.status(empty, "bytes */0")["size"] == "0"


def test_offsets(stand: Stand) -> None:
    key = stand.begin()
    # It begins behind what is there: the answer says where to go on.
    assert stand.send(key, QUANTUM, 2 * QUANTUM, "*") == 0
    assert stand.send(key, 0, QUANTUM, "*") == QUANTUM
    # What is there already is not written again.
    given = chunk(f"bytes 0-{2 * QUANTUM - 1}/*")
    assert stand.uploads.receive(key, given, [b"x" * QUANTUM, BODY[QUANTUM : 2 * QUANTUM]]) == (
        2 * QUANTUM
    )
    stand.send(key, 2 * QUANTUM, len(BODY), str(len(BODY)))
    assert stand.content() == BODY


@pytest.mark.parametrize(
    ("header", "size", "text"),
    [
        ("bytes 0-99/*", 100, "There should have been a multiple of 262144"),
        (f"bytes 0-{QUANTUM - 1}/*", 100, "100 bytes came"),
        ("bytes 0-99/100", 200, "200 bytes came"),
        ("bytes 0-99/50", 100, "multiple"),
        ("bytes zero", 0, "Failed to parse"),
    ],
)
def test_chunks_that_do_not_fit(stand: Stand, header: str, size: int, text: str) -> None:
    key = stand.begin()
    with pytest.raises(ApiError, match=text):
        stand.uploads.receive(key, chunk(header), [b"x" * size])
    assert stand.status(key) == 0


def test_a_broken_connection_keeps_whole_quanta(stand: Stand) -> None:
    key = stand.begin()

    def parts() -> Iterator[bytes]:
        yield BODY[: QUANTUM + 5]
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        stand.uploads.receive(key, chunk(f"bytes 0-{len(BODY) - 1}/{len(BODY)}"), parts())
    stand.restart()
    assert stand.status(key) == QUANTUM
    stand.send(key, QUANTUM, len(BODY), str(len(BODY)))
    assert stand.content() == BODY


def test_the_size_is_named_once(stand: Stand) -> None:
    key = stand.begin()
    stand.send(key, 0, QUANTUM, str(len(BODY)))
    with pytest.raises(ApiError, match="The size was"):
        stand.status(key, "bytes */17")


def test_preconditions_hold_at_the_beginning_and_at_the_end(stand: Stand) -> None:
    key = stand.begin(ifGenerationMatch="0")
    other = stand.begin()
    stand.uploads.receive(other, chunk(""), [b"first"])
    with pytest.raises(ApiError, match="pre-conditions"):
        stand.begin(ifGenerationMatch="0")
    with pytest.raises(ApiError, match="pre-conditions"):
        stand.uploads.receive(key, chunk(""), [b"second"])
    assert stand.content() == b"first"
    with pytest.raises(ApiError, match="No such upload"):
        stand.status(key)


def test_after_429_the_last_bytes_need_not_be_sent_again(stand: Stand) -> None:
    stand.faults.add(Fault("object_rate"))
    key = stand.begin()
    stand.uploads.receive(stand.begin(), chunk(""), [b"first"])
    with pytest.raises(ApiError, match="rate limit"):
        stand.send(key, 0, len(BODY), str(len(BODY)))
    stand.clock.advance(2)
    assert stand.status(key, f"bytes */{len(BODY)}")["size"] == str(len(BODY))


def test_uploads_end(stand: Stand, tmp_path: Path) -> None:
    key, other = stand.begin(), stand.begin()
    stand.uploads.cancel(key)
    with pytest.raises(ApiError, match="No such upload"):
        stand.status(key)
    stand.clock.advance(LIFE + 1)
    with pytest.raises(ApiError, match="No such upload"):
        stand.status(other)
    last = stand.begin()
    assert [path.name for path in (tmp_path / "incoming").iterdir()] == [last]


def test_in_parts(stand: Stand, tmp_path: Path) -> None:
    key = stand.uploads.begin("multipart", "lab", "m", {}, conditions.NONE, may_replace=True)
    etags = {}
    for number, content in ((2, b"two"), (1, b"wrong"), (1, b"one")):
        etags[number] = part_etag(stand.uploads.receive_part(key, number, [content]).md5)
    stand.restart()
    for wanted in ([], [(2, etags[2]), (1, etags[1])], [(1, "x")], [(3, "x")]):
        with pytest.raises(ApiError, match=r"[Pp]art"):
            stand.uploads.complete(key, wanted)
    made = stand.uploads.complete(key, [(1, f'"{etags[1]}"'), (2, etags[2])])
    assert (stand.content("m"), made["componentCount"]) == (b"onetwo", 2)
    assert list((tmp_path / "incoming").iterdir()) == []
    assert stand.uploads.complete(key, []) == made
