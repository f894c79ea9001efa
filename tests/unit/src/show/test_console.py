"""A text is wrapped where a person reads it, and is one line for programs."""

from __future__ import annotations

import pytest

from tpu_fleet.show.console import PlainConsole, say

TEXT = "digits: gs://lab/digits: [3] checkpoints, 600.0 GiB, $12.00 a month, 1 leftover of 300 MiB"


def printed(terminal: bool, capsys: pytest.CaptureFixture[str], text: str = TEXT) -> list[str]:
    say(PlainConsole(force_terminal=terminal, width=80, color_system=None), text, "yellow")
    return capsys.readouterr().out.splitlines()


def test_a_terminal_gets_lines_that_fit_broken_between_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = printed(True, capsys)
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80
    assert " ".join(map(str.strip, lines)) == TEXT


def test_without_a_terminal_it_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(False, capsys) == [TEXT]


def test_it_steers_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    [line] = printed(False, capsys, "a\x1b[31mb [bold]c[/bold] :smile:")
    assert "\x1b" not in line
    assert line.endswith("b [bold]c[/bold] :smile:")
