"""What the disk guard removes, and what it never does, with any content of its folders."""
# ruff: noqa: S108 - paths to judge, not to use

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import disk_guard
import pytest
from disk_guard import Found, Refused, Room, Rule

MB = 1 << 20
NOW = 1_000_000.0
PLENTY = Room(100 * MB, 90 * MB)
NEARLY_FULL = Room(100 * MB, 10 * MB)


def found(name: str, mb: float = 1, age: float = 1000, **more: Any) -> Found:
    return Found((name,), int(mb * MB), NOW - age, 1, abs(hash(name)), **more)


def chosen(
    files: list[Found], room: Room = PLENTY, used: tuple[Found, ...] = (), **rule: Any
) -> list[str]:
    open_files = [(item.device, item.inode) for item in used]
    kept, size = disk_guard.oldest(files)
    picked = disk_guard.decide(Rule("/x/y", **rule), kept, size, room, 85, NOW, open_files)
    return ["/".join(item.place) for item in picked]


class TestDecide:
    OLD, MIDDLE, NEW = found("old", age=300), found("middle", age=200), found("new", age=100)

    def test_a_small_folder_on_an_empty_disk_is_left_alone(self) -> None:
        assert chosen([self.OLD, self.NEW], max_bytes=2 * MB) == []
        assert chosen([self.OLD, self.NEW]) == []

    def test_the_oldest_go_until_the_folder_is_small_enough(self) -> None:
        assert chosen([self.NEW, self.OLD, self.MIDDLE], max_bytes=2 * MB) == ["old"]
        assert chosen([self.NEW, self.OLD, self.MIDDLE], max_bytes=1 * MB) == ["old", "middle"]

    def test_the_oldest_go_until_the_disk_has_room(self) -> None:
        large = found("large", mb=10, age=500)
        assert chosen([self.NEW, large, self.OLD], NEARLY_FULL) == ["large"]
        assert len(chosen([self.OLD, self.MIDDLE, self.NEW], NEARLY_FULL)) == 3

    def test_what_is_young_or_open_stays(self) -> None:
        files = [self.OLD, self.MIDDLE, self.NEW]
        assert chosen(files, NEARLY_FULL, min_age=250) == ["old"]
        assert chosen(files, NEARLY_FULL, used=(self.OLD,)) == ["middle", "new"]

    def test_what_would_free_nothing_stays_and_does_not_count(self) -> None:
        lock, second = found("lock", mb=0), found("second", mb=9, names=2)
        assert chosen([lock, second], NEARLY_FULL) == []
        assert chosen([lock, second, self.OLD], max_bytes=MB) == []


@pytest.mark.parametrize(
    "path",
    [
        "/", "/tmp", "/home", "/home/alice", "/etc/x", "/usr/lib/x", "/var/lib", "/proc/1/fd",
        "relative", "/tmp/../etc", "/tmp/x/", "//tmp/x", "/opt/tpu-fleet", "",
    ],
)  # fmt: skip
def test_folders_that_cannot_be_meant_are_refused(path: str) -> None:
    with pytest.raises(Refused):
        disk_guard.check(path)


@pytest.mark.parametrize("path", ["/tmp/tpu_logs", "/home/a/.cache/x", "/var/cache/apt/archives"])
def test_folders_of_logs_and_caches_are_not(path: str) -> None:
    disk_guard.check(path)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A folder to empty, beside one that must not lose anything."""
    folder = tmp_path / "logs"
    (folder / "deep").mkdir(parents=True)
    precious = tmp_path / "precious"
    precious.mkdir()
    for path in (folder / "a.log", folder / "deep" / "b.log", precious / "data"):
        path.write_bytes(b"x" * MB)
    return folder


def empty(folder: Path, **rule: Any) -> tuple[int, int]:
    """Remove all that may be removed."""
    count, size = disk_guard.tend(Rule(str(folder), max_bytes=1, **rule), 100, NOW + 1e10)
    return int(count), int(size)


class TestTend:
    def test_files_go_and_folders_stay(self, logs: Path) -> None:
        assert empty(logs) == (2, 2 * MB)
        assert (logs / "deep").is_dir()
        assert (logs.parent / "precious" / "data").exists()

    def test_a_folder_that_is_not_there_is_no_error(self, tmp_path: Path) -> None:
        assert empty(tmp_path / "none") == (0, 0)

    def test_links_inside_are_not_followed(self, logs: Path) -> None:
        precious = logs.parent / "precious"
        (logs / "folder").symlink_to(precious)
        (logs / "file").symlink_to(precious / "data")
        (logs / "deep" / "up").symlink_to("..")
        assert empty(logs)[0] == 2
        assert (precious / "data").exists()
        assert (logs / "folder").is_symlink()

    def test_a_second_name_of_a_file_elsewhere_stays(self, logs: Path) -> None:
        os.link(logs.parent / "precious" / "data", logs / "linked")
        assert empty(logs)[0] == 2
        assert (logs / "linked").exists()

    def test_the_folder_itself_may_be_no_link(self, logs: Path) -> None:
        (logs.parent / "trap").symlink_to(logs.parent / "precious")
        with pytest.raises(Refused, match="symbolic link"):
            empty(logs.parent / "trap")

    def test_nor_may_a_folder_above_it(self, logs: Path) -> None:
        (logs.parent / "above").symlink_to(logs.parent)
        with pytest.raises(Refused):
            empty(logs.parent / "above" / "precious")
        assert (logs.parent / "precious" / "data").exists()

    def test_an_open_file_stays(self, logs: Path) -> None:
        with (logs / "a.log").open("rb"):
            assert empty(logs)[0] == 1
        assert (logs / "a.log").exists()

    def test_a_folder_swapped_for_a_link_meanwhile(self, logs: Path) -> None:
        (item,) = [
            item
            for item in self.listed(logs)
            if item.place == ("deep", "b.log")
        ]  # fmt: skip
        (logs / "deep").rename(logs.parent / "moved")
        (logs / "deep").symlink_to(logs.parent / "precious")
        (logs.parent / "precious" / "b.log").write_text("theirs")
        with disk_guard.opened(str(logs)) as handle:
            assert not disk_guard.remove(handle, item)
        assert (logs.parent / "precious" / "b.log").exists()
        assert (logs.parent / "moved" / "b.log").exists()

    def test_a_file_swapped_for_another_meanwhile(self, logs: Path) -> None:
        (item,) = [item for item in self.listed(logs) if item.place == ("a.log",)]
        (logs / "a.log").rename(logs / "kept.log")
        (logs / "a.log").symlink_to(logs.parent / "precious" / "data")
        with disk_guard.opened(str(logs)) as handle:
            assert not disk_guard.remove(handle, item)
        assert (logs / "a.log").is_symlink()

    @staticmethod
    def listed(folder: Path) -> list[Found]:
        with disk_guard.opened(str(folder)) as handle:
            return list(disk_guard.files_below(handle))

    def test_names_that_are_no_text_are_removed_all_the_same(self, logs: Path) -> None:
        Path(os.fsdecode(os.fsencode(logs) + b"/\xff\n.log")).write_bytes(b"x" * MB)
        assert empty(logs)[0] == 3


def test_the_program_goes_on_after_a_refusal_and_says_so(tmp_path: Path) -> None:
    good = tmp_path / "good"
    good.mkdir()
    (good / "old").write_bytes(b"x" * 2 * MB)
    os.utime(good / "old", (1, 1))
    (tmp_path / "bad").symlink_to(good)
    settings = {
        "full_percent": 100,
        "paths": [
            {"path": "/etc/passwd", "max_size": 1 << 20, "min_age": 0},
            {"path": str(tmp_path / "bad"), "max_size": 1 << 20, "min_age": 0},
            {"path": str(good), "max_size": 1 << 20, "min_age": 0},
        ],
    }
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    program = disk_guard.__file__
    done = subprocess.run(
        [sys.executable, program, tmp_path / "settings.json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("refused: ") == 2
    assert f"{good}: removed 1 files, 2.0 MB" in done.stdout
    assert not (good / "old").exists()


def test_jinja_leaves_the_program_as_it_is() -> None:
    """The role writes it by way of a template."""
    assert not re.search(r"\{[{%#]", Path(disk_guard.__file__).read_text())


def test_of_any_number_of_files_few_are_kept_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_guard, "FILES", 10)
    folder = tmp_path / "logs"
    folder.mkdir()
    for number in range(50):
        (folder / f"{number:03}").write_bytes(b"x" * 4096)
        os.utime(folder / f"{number:03}", (number, number))
    # The folder is to have 45 of them: the size is that of all, though 10 are kept.
    rule = Rule(str(folder), max_bytes=45 * 4096)
    assert disk_guard.tend(rule, 100, NOW)[0] == 5
    assert sorted(path.name for path in folder.iterdir())[0] == "005"


def test_folders_without_end_are_looked_at_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, most in (("DEEPEST", 3), ("FOLDERS", 2), ("ENTRIES", 6)):
        monkeypatch.setattr(disk_guard, name, most)
    deep = tmp_path.joinpath(*"abcdef")
    deep.mkdir(parents=True)
    for folder in (deep, *deep.parents[:5]):
        (folder / "log").write_bytes(b"x")
    with disk_guard.opened(str(tmp_path)) as handle:
        assert len(list(disk_guard.files_below(handle))) == 3
    monkeypatch.setattr(disk_guard, "ENTRIES", 3)
    with disk_guard.opened(str(tmp_path)) as handle:
        assert len(list(disk_guard.files_below(handle))) <= 2


def test_many_files_take_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_guard, "FILES", 100)
    many = (Found((f"{n:0200}",), 1, -n, 1, n) for n in range(20_000))
    tracemalloc.start()
    try:
        kept, size = disk_guard.oldest(many)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(kept), size, kept[0].written) == (100, 20_000, -19_999)
    assert peak < 1_000_000
