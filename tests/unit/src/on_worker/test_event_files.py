"""TensorBoard's files, as the reader on the worker understands them."""

from __future__ import annotations

import math
import os
import random
import struct
import time
from pathlib import Path

import pytest
from event_file import event, field, record, varint

from tpu_fleet.on_worker import event_files
from tpu_fleet.on_worker.event_files import curves, found_in, read, scalars, thinned

LATER = time.monotonic() + 3600


def points(folder: Path, places: object = None) -> dict[str, list[list[float]]]:
    found: dict[str, list[list[float]]] = curves([str(folder)], places)["points"]
    return found


@pytest.mark.parametrize("tensor", [False, True])
def test_scalars_of_both_kinds(tmp_path: Path, tensor: bool) -> None:
    lines = [event(100.0 + n, n, {"train/loss": n / 4, "lr": 0.5}, tensor) for n in range(3)]
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"".join(map(record, lines)))
    assert points(tmp_path) == {
        "train/loss": [[100.0, 0, 0.0], [101.0, 1, 0.25], [102.0, 2, 0.5]],
        "lr": [[100.0, 0, 0.5], [101.0, 1, 0.5], [102.0, 2, 0.5]],
    }


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "events.out.tfevents.1.host"
    file.parent.mkdir()
    file.write_bytes(record(event(1.0, 1, {"loss": 1.0})))
    told = curves([str(tmp_path)], None)
    with file.open("ab") as out:
        # The second is still being written.
        out.write(record(event(2.0, 2, {"loss": 2.0})) + record(event(3.0, 3, {"loss": 3.0}))[:-9])
    again = curves([str(tmp_path)], told["places"])
    assert again["points"] == {"loss": [[2.0, 2, 2.0]]}
    assert curves([str(tmp_path)], again["places"])["points"] == {}
    file.write_bytes(record(event(9.0, 9, {"loss": 9.0})))  # begun anew
    assert curves([str(tmp_path)], again["places"])["points"] == {"loss": [[9.0, 9, 9.0]]}


def test_large_records_are_passed_over(tmp_path: Path) -> None:
    image = b"\0" * (event_files.RECORD + 1)
    parts = [event(1.0, 1, {"loss": 1.0}), image, event(2.0, 2, {"loss": 2.0})]
    (tmp_path / "tfevents").write_bytes(b"".join(map(record, parts)))
    assert points(tmp_path) == {"loss": [[1.0, 1, 1.0], [2.0, 2, 2.0]]}


def test_the_losses_come_first_and_few_of_all(tmp_path: Path) -> None:
    values = {f"a{n}": 1.0 for n in range(20)} | {"z/loss": 1.0}
    (tmp_path / "tfevents").write_bytes(record(event(1.0, 1, values)))
    assert list(points(tmp_path)) == ["z/loss", "a0", "a1", "a10"]


def test_what_is_no_number_is_left_out() -> None:
    assert scalars(event(1.0, 1, {"loss": math.nan, "x": math.inf})) == []
    assert scalars(event(math.nan, 1, {"loss": 1.0})) == []
    assert scalars(event(1.0, 1 << 60, {"loss": 1.0})) == []


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(record(event(1.0, 1, {"loss": 1.0})))
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "a.tfevents").symlink_to(secret)
    os.mkfifo(folder / "b.tfevents")
    (folder / "loop").symlink_to(folder)
    assert found_in([str(folder)]) == []
    with pytest.raises(OSError, match="symbolic"):
        read(folder / "a.tfevents", 0, LATER)


def test_any_bytes_end_soon_and_raise_nothing(tmp_path: Path) -> None:
    dice = random.Random(5)  # noqa: S311 - repeatable, not secret
    good = b"".join(record(event(float(n), n, {"loss": 1.0})) for n in range(1, 9))
    file = tmp_path / "tfevents"
    begun = time.monotonic()
    for _case in range(500):
        spoilt = bytearray(good)
        for _place in range(dice.randrange(1, 12)):
            spoilt[dice.randrange(len(spoilt))] = dice.randrange(256)
        file.write_bytes(bytes(spoilt[: dice.randrange(len(spoilt) + 1)]))
        for found in points(tmp_path).values():
            assert all(math.isfinite(value) for _at, _step, value in found)
    assert time.monotonic() - begun < 20


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 20, varint(1 << 69), field(5, b"\x0a\xff"), b"\x0f", struct.pack("<Q", 2**63)],
)
def test_broken_messages_are_refused(data: bytes) -> None:
    with pytest.raises((ValueError, struct.error)):
        scalars(data)


def test_a_folder_of_many_files_is_looked_at_in_part(tmp_path: Path) -> None:
    for number in range(event_files.ENTRIES + 50):
        (tmp_path / f"{number}.txt").touch()
    begun = time.monotonic()
    assert found_in([str(tmp_path)]) == []
    assert time.monotonic() - begun < 5


def test_points_are_thinned_and_the_last_one_stays() -> None:
    found = thinned(list(range(1001)), 300)
    assert len(found) <= 300
    assert found[-1] == 1000
