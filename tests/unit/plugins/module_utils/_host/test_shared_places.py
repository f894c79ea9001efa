"""Names in /tmp: they become the user's, whatever another user put there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host import shared_places


def left(folder: Path) -> list[str]:
    return sorted(one.name.rpartition("-")[0] or one.name for one in folder.iterdir())


@pytest.mark.parametrize("kind", ["nothing", "file", "link", "pipe"])
def test_a_folder_is_made(tmp_path: Path, kind: str) -> None:
    place, precious = tmp_path / "tmux", tmp_path / "precious"
    precious.mkdir()
    if kind == "file":
        place.write_text("hers")
    elif kind == "link":
        place.symlink_to(precious)
    elif kind == "pipe":
        os.mkfifo(place)
    shared_places.take_folder(place, os.getuid(), os.getgid())
    assert shared_places.is_folder_of(place, os.getuid())
    assert place.stat().st_mode & 0o7777 == 0o700
    moved = [] if kind == "nothing" else [".tmux-moved-away"]
    assert left(tmp_path) == [*moved, "precious", "tmux"]
    for one in tmp_path.glob(".tmux-moved-away-*"):
        assert (one.stat().st_mode & 0o777, len(list(one.iterdir()))) == (0o700, 1)


@pytest.mark.parametrize("kind", ["nothing", "file", "folder", "link"])
def test_a_link_is_made(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "set"
    if kind == "file":
        place.write_text("hers")
    elif kind == "folder":
        (place / "hers").mkdir(parents=True)
    elif kind == "link":
        place.symlink_to("/etc")
    shared_places.take_link(place, ".set.dataset/current")
    assert str(place.readlink()) == ".set.dataset/current"
    moved = [] if kind == "nothing" else [".set-moved-away"]
    assert left(tmp_path) == [*moved, "set"]


def test_a_folder_of_the_user_is_left_alone(tmp_path: Path) -> None:
    place = tmp_path / "tmux"
    place.mkdir(mode=0o750)
    (place / "default").touch()
    shared_places.take_folder(place, os.getuid(), os.getgid())
    assert (place / "default").exists()
    assert left(tmp_path) == ["tmux"]


def test_a_folder_of_another_user_is_not_hers(tmp_path: Path) -> None:
    assert not shared_places.is_folder_of(tmp_path, os.getuid() + 1)
    assert not shared_places.is_folder_of(tmp_path / "missing", os.getuid())


OTHERS = """
import sys
from pathlib import Path
place = Path(sys.argv[1])
print(flush=True)
while True:
    try:
        place.touch()
        place.unlink()
        place.mkdir()
        place.rmdir()
    except OSError:
        pass
"""


@contextmanager
def others_take(place: Path) -> Iterator[None]:
    words = [sys.executable, "-c", OTHERS, str(place)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        try:
            yield
        finally:
            other.kill()


@pytest.mark.parametrize("take", [shared_places.take_file, shared_places.take_folder])
def test_others_take_the_name_at_the_same_time(
    tmp_path: Path, take: Callable[[Path, int, int], None]
) -> None:
    place = tmp_path / "name"
    with others_take(place):
        for _ in range(500):
            take(place, os.getuid(), os.getgid())
    assert not list(tmp_path.glob(".name-????????"))
