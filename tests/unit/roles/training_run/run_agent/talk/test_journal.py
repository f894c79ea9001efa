"""The last lines of a log."""

from __future__ import annotations

import pytest
from run_agent.talk import journal


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"one\r\ntwo\r\n\n", ["one", "two"]),
        (b"\x1b[31mred\x1b[0m\n10%\r50%\r100%\n", ["red", "100%"]),
        (b"\n".join(b"%d" % n for n in range(50)), [str(n) for n in range(30, 50)]),
    ],
)
def test_the_last_lines_are_plain_text(data: bytes, lines: list[str]) -> None:
    assert journal.last_lines(data) == lines
