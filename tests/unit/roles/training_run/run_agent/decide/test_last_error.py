"""The last error of an attempt in its log."""

from __future__ import annotations

import pytest
from run_agent.decide import bounds, last_error

BEGIN = "--- tpu-fleet 2026-01-01T00:00:00Z attempt {} of train begins on worker 0"
TRACE = ["Traceback (most recent call last):", '  File "t.py", line 1, in <module>', "KeyError: 3"]


def lines(*said: str) -> list[str]:
    return last_error.lines_of("\r\n".join(said).encode(), 2)


def test_only_what_the_attempt_wrote_counts() -> None:
    assert last_error.last_error(lines(*TRACE, BEGIN.format(2), "step 1")) is None
    assert last_error.last_error(lines(BEGIN.format(2), "step 1", *TRACE, "step 2")) == TRACE


def test_a_log_without_the_beginning_is_the_attempts_as_a_whole() -> None:
    assert last_error.last_error(lines("step 1", *TRACE)) == TRACE


@pytest.mark.parametrize("before", ["[w3] ", "2026-01-01 12:00:00 ERROR "])
def test_what_stands_before_each_line_is_cut_off(before: str) -> None:
    assert last_error.last_error(lines(*(before + line for line in TRACE), "[w3] x")) == TRACE


def test_of_an_error_while_another_was_handled_the_last_counts() -> None:
    again = "During handling of the above exception, another exception occurred:"
    found = last_error.last_error(lines(*TRACE, "", again, "", *TRACE[:2], "OSError: full"))
    assert found is not None
    assert found[-1] == "OSError: full"


def test_an_interpreter_that_died() -> None:
    found = last_error.last_error(lines("step 1", "Fatal Python error: Segmentation fault", "  x"))
    assert found == ["Fatal Python error: Segmentation fault", "  x"]


def test_a_long_traceback_keeps_its_error() -> None:
    found = last_error.last_error(lines(TRACE[0], *[TRACE[1]] * 500, TRACE[2]))
    assert found is not None
    assert (len(found), found[0], found[-1]) == (bounds.LINES, TRACE[0], TRACE[2])


def test_colours_and_progress_bars_are_no_words() -> None:
    assert lines("\x1b[31mred\x1b[0m", "10%\r20%") == ["red", "20%"]
