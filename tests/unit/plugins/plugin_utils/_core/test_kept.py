"""What is made of files is kept for the same content alone, and taken from no other user."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils._core.kept import folder, kept


class Maker:
    """Counts how often parts are packed."""

    def __init__(self) -> None:
        self.made = 0

    def ask(self, *parts: bytes) -> bytes:
        def make() -> bytes:
            self.made += 1
            return b"packed " + b"|".join(parts)

        return kept("a test", parts, make)


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Maker()


def only_file() -> Path:
    (found,) = folder(os.environ).iterdir()
    return found


def test_it_is_made_once(maker: Maker) -> None:
    assert [maker.ask(b"one"), maker.ask(b"one"), maker.made] == [b"packed one", b"packed one", 1]
    assert folder(os.environ).stat().st_mode & 0o777 == 0o700
    assert only_file().stat().st_mode & 0o777 == 0o600


def test_it_is_made_again_of_other_parts_and_replaces_the_first(maker: Maker) -> None:
    maker.ask(b"ab", b"c")
    assert maker.ask(b"a", b"bc") == b"packed a|bc"
    assert [maker.ask(b"a", b"bc"), maker.made] == [b"packed a|bc", 2]
    only_file()


def test_what_no_longer_holds_is_made_again(maker: Maker) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(b"%d" % len(made))
        return made[-1]

    def ask(*good: bytes) -> bytes:
        return kept("a test", [b"one"], make, lambda content: content in good)

    assert [ask(), ask(b"0"), ask(b"1"), ask(b"1")] == [b"0", b"0", b"1", b"1"]


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def open_to_others(path: Path) -> None:
    path.chmod(0o666)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def give_another_name(path: Path) -> None:
    path.with_name("elsewhere").hardlink_to(path)


def make_a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def make_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil", [shorten, open_to_others, link, give_another_name, make_a_pipe, make_a_folder]
)
def test_nothing_is_taken_that_is_not_whole_or_not_ours(
    maker: Maker, spoil: Callable[[Path], None]
) -> None:
    maker.ask(b"one")
    spoil(only_file())
    assert [maker.ask(b"one"), maker.made] == [b"packed one", 2]


def test_nothing_is_taken_from_another_user(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    maker.ask(b"one")
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    assert [maker.ask(b"one"), maker.made] == [b"packed one", 2]


def test_without_a_place_it_is_made_each_time(
    maker: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert [maker.ask(b"one"), maker.ask(b"one"), maker.made] == [b"packed one", b"packed one", 2]
