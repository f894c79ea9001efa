"""What is shown of a text that others wrote."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._core import plain_text
from ansible_collections.tpu.fleet.plugins.module_utils._core.plain_text import (
    hides,
    on_terminal,
    shown,
    shown_lines,
    shown_text,
    unfinished,
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two\nlines\tand a tab", "two lines and a tab"),
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07", "\ufffd]0;title\ufffd"),
        ("\x9b2J", "\ufffd2J"),
        ("\u202etxt.exe", "\ufffdtxt.exe"),
        ("\ud800\x00", "\ufffd\ufffd"),
        ("[red]no markup[/x]", "[red]no markup[/x]"),
        ("ä日\U0001f600", "ä日\U0001f600"),
        (7, "7"),
    ],
)
def test_a_line_for_people(text: Any, line: str) -> None:
    assert shown(text) == line


def test_what_is_long_is_cut() -> None:
    assert shown("a" * 10_000_000, 10) == "aaaaaaaaa…"
    assert shown("a" * 10, 10) == "a" * 10
    assert len(shown_lines("x\n" * 1_000_000)) == plain_text.LINES


def test_several_lines_keep_indents_and_gaps() -> None:
    assert shown_text("Traceback:\n  File\n\nx\r\n10%\r20%") == "Traceback:\n  File\n\nx\n20%"
    assert shown_lines("a\n\nb") == ["a", "b"]


def test_a_terminal_gets_text_and_colours() -> None:
    said = "\x1b[31mred\x1b[0m\t\x1b]52;c;eA==\x07\x1b[2J\x9bx\n"
    assert on_terminal(said) == "\x1b[31mred\x1b[0m\t\ufffd]52;c;eA==\ufffd\ufffd[2J\ufffdx\n"
    # A colour that comes in two parts.
    assert [unfinished(text) for text in ("a\x1b", "a\x1b[3", "a\x1b[31m", "a")] == [1, 3, 0, 0]


@pytest.mark.parametrize(
    ("text", "is_hiding"),
    [("ä日\ufffd /x", False), ("a\x1b", True), ("\u202e", True), ("\n", True)],
)
def test_what_hides(text: str, is_hiding: bool) -> None:
    assert hides(text) is is_hiding
