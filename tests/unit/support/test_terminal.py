"""A person at a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    one = Terminal(tmp_path, os.environ)
    yield one
    one.close()


def test_a_command_is_typed_and_its_end_is_seen(terminal: Terminal) -> None:
    assert terminal.run("echo $((6 * 7))").split()[0] == "42"
    written = "".join(text for _at, text in terminal.events)
    assert "echo $((6 * 7))" in written
    # That somebody looked how it went is not a part of it.
    assert "$?" not in written


def test_a_command_that_fails_is_noticed(terminal: Terminal) -> None:
    with pytest.raises(AssertionError, match="no-such-file"):
        terminal.run("cat no-such-file")


def test_a_question_is_waited_for(terminal: Terminal) -> None:
    terminal.type("read -p 'Who? ' name; echo it is $name", r"Who\? $", 10)
    assert "it is me" in terminal.type("me")


def test_what_never_comes_is_told_with_what_came(terminal: Terminal) -> None:
    with pytest.raises(AssertionError, match=r"(?s)no there in 0.2 s, but:.*here"):
        terminal.type("echo here", "there", 0.2)
