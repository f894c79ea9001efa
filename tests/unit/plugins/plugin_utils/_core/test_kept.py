"""What is made of files is used until one of them changes, and taken from no other user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._core import kept as module
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.kept import folder, kept


class Maker:
    """Counts how often a file's content is packed."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self.made = 0

    def __call__(self) -> bytes:
        self.made += 1
        return b"packed " + self.source.read_bytes()

    def ask(self) -> bytes:
        return kept("a test", [self.source], self)


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # As of a collection that was installed some time ago.
    monkeypatch.setattr(module, "FRESH", -60.0)
    source = tmp_path / "source"
    source.write_bytes(b"one")
    return Maker(source)


def only_file() -> Path:
    (found,) = folder(os.environ).iterdir()
    return found


def test_it_is_made_once(maker: Maker) -> None:
    assert [maker.ask(), maker.ask(), maker.made] == [b"packed one", b"packed one", 1]
    assert folder(os.environ).stat().st_mode & 0o777 == 0o700
    assert only_file().stat().st_mode & 0o777 == 0o600


def test_it_is_made_again_for_changed_content_of_the_same_size_and_time(maker: Maker) -> None:
    maker.ask()
    before = maker.source.stat()
    maker.source.write_bytes(b"two")
    os.utime(maker.source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert [maker.ask(), maker.ask(), maker.made] == [b"packed two", b"packed two", 2]
    only_file()


def test_what_has_just_changed_is_not_kept(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FRESH", 60.0)
    assert [maker.ask(), maker.ask(), maker.made] == [b"packed one", b"packed one", 2]
    assert not folder(os.environ).exists()


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def open_to_others(path: Path) -> None:
    path.chmod(0o666)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("spoil", [shorten, open_to_others, link])
def test_nothing_is_taken_that_is_not_whole_or_not_ours(
    maker: Maker, spoil: Callable[[Path], None]
) -> None:
    maker.ask()
    spoil(next(folder(os.environ).iterdir()))
    assert [maker.ask(), maker.made] == [b"packed one", 2]


def test_without_a_place_it_is_made_each_time(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [maker.ask(), maker.ask(), maker.made] == [b"packed one", b"packed one", 2]
