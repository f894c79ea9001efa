"""The last error in a log: a traceback of Python's, or the words of an interpreter that died."""

from __future__ import annotations

import re

from . import bounds
from .values import one_line

_TRACEBACK = "Traceback (most recent call last):"
_FATAL = re.compile(r"Fatal Python error: |\*\*\* SIG[A-Z]+ |F\d{4} \d\d:\d\d:\d\d")
_BEGINS = re.compile(r"--- tpu-fleet \S+ attempt (\d+) of \S+ begins")
_COLOUR = re.compile(r"\x1b\[[0-9;:?]*[A-Za-z]")
# Whatever a program prints before each of its lines, such as the time or the worker.
_MOST_PREFIX = 100


def plain_lines(log: bytes) -> list[str]:
    """Return the lines of a terminal's output, without what a progress bar wrote over."""
    text = _COLOUR.sub("", log.decode("utf-8", "replace"))
    return [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]


def lines_of(log: bytes, attempt: int) -> list[str]:
    """Return the lines of the end of a log, as far as they are of an attempt."""
    lines = plain_lines(log)
    for number in range(len(lines) - 1, -1, -1):
        begins = _BEGINS.match(lines[number])
        if begins and int(begins[1]) == attempt:
            return lines[number + 1 :]
    return lines


def last_error(lines: list[str]) -> list[str] | None:
    """Return the last traceback with its error, or the last fatal error; None without any."""
    for number in range(len(lines) - 1, -1, -1):
        prefix, found, _rest = lines[number].partition(_TRACEBACK)
        if found and len(prefix) <= _MOST_PREFIX:
            return _cut(_traceback(lines[number:], len(prefix)))
        if _FATAL.search(lines[number][:200]):
            return _cut(lines[number:])
    return None


def _traceback(lines: list[str], prefix: int) -> list[str]:
    """Return the lines up to the one that names the error, which has no indent."""
    for number, line in enumerate(lines[1:], 2):
        words = line[prefix:]
        if words.strip() and not words.startswith((" ", "\t", "+")):
            return [one[prefix:] for one in lines[:number]]
    return [one[prefix:] for one in lines]


def _cut(lines: list[str]) -> list[str]:
    """Return the first line and the last ones, within the bounds."""
    shown = [_plain(line) for line in lines]
    if len(shown) <= bounds.LINES:
        return shown
    return [shown[0], "  ...", *shown[2 - bounds.LINES :]]


def _plain(line: str) -> str:
    indent = len(line) - len(line.lstrip(" "))
    return " " * min(indent, 20) + one_line(line, bounds.TEXT - 20)


def tail(lines: list[str], most: int = 10) -> list[str]:
    """Return the last lines that say something."""
    said = [_plain(line) for line in lines if line.strip()]
    return said[-most:]
