# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a worker's answer value by value, or refuse it. No I/O.

A worker may be compromised, and then chooses every byte of its answers. What each answer has is in
`worker_words.py` and `sync_words.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping
from re import Pattern
from typing import Any, NoReturn, TypeVar, get_type_hints

from .plain_text import LINES, TEXT, shown

ANSWER = 1 << 22
"""Maximum bytes of an answer."""
MANY = 10_000
"""Maximum entries of a list."""
DEEPEST = 50
"""Maximum depth of an answer, because copying recurses for each level."""
LARGEST = 1 << 53
LAST_TIME = 2.2e11
"""A time in the year 8941: later ones cannot be written as dates."""

_REQUIRED: Any = object()
T = TypeVar("T")


class AnswerError(ValueError):
    """A worker's answer is invalid; names the worker, the field and the value."""

    def __init__(self, worker: str, name: str, value: Any, wanted: str) -> None:
        said = value if isinstance(value, str) else _as_text(value)
        where = f"{shown(name, 120)} " if name else ""
        self.worker = worker
        self.says = f"its answer is not accepted: {where}is {shown(said, 120)!r}, not {wanted}"
        self.remedy = "Check the worker; if no intruder controls it, configure it again."
        super().__init__(f"{shown(worker, 120)}: {self.says}. {self.remedy}")


def _as_text(value: Any) -> str:
    """Format a JSON value for an error; long ones are shortened."""
    if isinstance(value, (dict, list)):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    return "nothing" if value is None else str(value)[:TEXT]


def parsed(worker: str, answer: str | bytes | None, most: int = ANSWER) -> Any:
    """Return the JSON of an answer."""
    if not isinstance(answer, (str, bytes)):
        raise AnswerError(worker, "", answer, "text")
    if len(answer) > most:
        raise AnswerError(worker, "", f"{len(answer)} bytes", f"at most {most} bytes")
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    try:
        answer = json.loads(text, parse_int=_whole)
    except (ValueError, RecursionError):
        raise AnswerError(worker, "", text, "JSON") from None
    if _is_deeper(answer, DEEPEST):
        raise AnswerError(worker, "", text, f"JSON of at most {DEEPEST} levels")
    return answer


def _whole(digits: str) -> int | float:
    """Read a whole number; of more digits than any has here, as a float, which is none."""
    return int(digits) if len(digits) <= 20 else float(digits)


def _is_deeper(value: Any, levels: int) -> bool:
    """Return whether objects and lists are nested deeper than this."""
    level = [value]
    for _level in range(levels + 1):
        level = [one for one in level if isinstance(one, (dict, list))]
        if not level:
            return False
        level = [
            one for each in level for one in (each.values() if isinstance(each, dict) else each)
        ]
    return True


def is_number(value: Any, *kinds: type) -> bool:
    """Return whether a value is a number, of these kinds if any are given; true is none."""
    return isinstance(value, kinds or (int, float)) and not isinstance(value, bool)


class Words:
    """An object of an answer, whose values are read one by one."""

    def __init__(self, worker: str, value: Any, name: str = "") -> None:
        self.worker = worker
        self.name = name
        if not isinstance(value, Mapping):
            raise AnswerError(worker, name, value, "an object")
        self.value = value

    def refuse(self, key: str, value: Any, wanted: str) -> NoReturn:
        """Raise the error for one of its values."""
        raise AnswerError(self.worker, f"{self.name}.{key}" if self.name else key, value, wanted)

    def raw(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a value as it is."""
        value = self.value.get(key)
        if value is None:
            if default is _REQUIRED:
                self.refuse(key, None, "there")
            return default
        return value

    def word(self, key: str, pattern: Pattern[str], default: Any = _REQUIRED) -> str:
        """Return a name that matches a pattern."""
        value = self.raw(key, default)
        if value is default:
            return str(value)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            self.refuse(key, value, f"like {pattern.pattern}")
        return value

    def text(self, key: str, default: Any = "", most: int = TEXT) -> str:
        """Return a text that is safe to show."""
        return self._text(key, self.raw(key, default), most)

    def texts(self, key: str, most: int = LINES) -> tuple[str, ...]:
        """Return a list of texts that are safe to show."""
        return tuple(self._text(key, value) for value in self.items(key, most))

    def _text(self, key: str, value: Any, most: int = TEXT) -> str:
        if not isinstance(value, str):
            self.refuse(key, value, "text")
        return shown(value, most)

    def items(self, key: str, most: int = MANY, needed: bool = False) -> list[Any]:
        """Return a list; an optional missing one is empty."""
        value = self.raw(key) if needed else self.raw(key, [])
        if not isinstance(value, (list, tuple)):
            self.refuse(key, value, "a list")
        if len(value) > most:
            self.refuse(key, value, f"a list of at most {most}")
        return list(value)

    def words(self, key: str, pattern: Pattern[str], most: int = MANY) -> tuple[str, ...]:
        """Return a list of names that match a pattern."""
        values = self.items(key, most)
        for value in values:
            if not isinstance(value, str) or not pattern.fullmatch(value):
                self.refuse(key, value, f"like {pattern.pattern}")
        return tuple(values)

    def number(
        self, key: str, least: int = 0, most: int = LARGEST, default: Any = _REQUIRED
    ) -> Any:
        """Return a whole number within bounds."""
        value = self.raw(key, default)
        if value is default:
            return value
        if not is_number(value, int) or not least <= value <= most:
            self.refuse(key, value, f"a whole number from {least} to {most}")
        return value

    def real(self, key: str, default: Any = _REQUIRED) -> Any:
        """Return a number of seconds, or a time."""
        value = self.raw(key, default)
        if value is default:
            return value
        if not is_number(value) or not -LAST_TIME < value < LAST_TIME:
            self.refuse(key, value, "a time or a number of seconds")
        return value

    def within(self, key: str, most: float) -> float | None:
        """Return a number from 0 to `most`; None if there is none."""
        value = self.raw(key, None)
        if value is None:
            return None
        if not is_number(value) or not 0 <= value <= most:
            self.refuse(key, value, f"a number from 0 to {most:g}")
        return float(value)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """Return true or false."""
        value = self.raw(key, default)
        if not isinstance(value, bool):
            self.refuse(key, value, "true or false")
        return value

    def objects(self, key: str, most: int = MANY, needed: bool = True) -> list[Words]:
        """Return a list of objects."""
        name = f"{self.name}.{key}" if self.name else key
        return [
            Words(self.worker, value, f"{name}[{number}]")
            for number, value in enumerate(self.items(key, most, needed))
        ]

    def object(self, key: str, default: Any = _REQUIRED) -> Words:
        """Return an object."""
        name = f"{self.name}.{key}" if self.name else key
        return Words(self.worker, self.raw(key, default), name)

    def keys_of(self, pattern: Pattern[str], most: int = MANY) -> list[str]:
        """Return the keys, which are names."""
        if len(self.value) > most:
            raise AnswerError(self.worker, self.name, self.value, f"an object of at most {most}")
        for key in self.value:
            if not isinstance(key, str) or not pattern.fullmatch(key):
                raise AnswerError(self.worker, self.name, key, f"like {pattern.pattern}")
        return list(self.value)

    def named(self, pattern: Pattern[str], most: int = MANY) -> dict[str, Words]:
        """Return the objects of an object whose keys are names."""
        return {key: self.object(key) for key in self.keys_of(pattern, most)}

    def texts_by_name(self, pattern: Pattern[str]) -> dict[str, str]:
        """Return the texts of an object whose keys are names."""
        return {key: self.text(key) for key in self.keys_of(pattern)}

    def numbers_by_name(self, pattern: Pattern[str]) -> dict[str, int]:
        """Return the whole numbers of an object whose keys are names."""
        return {key: self.number(key) for key in self.keys_of(pattern)}


# How a value is read: a method of Words, perhaps with more arguments.
Read = Callable[[Words, str], Any]


@functools.cache
def _reads(kind: Any) -> dict[str, tuple[Read, bool]]:
    """Return how each field of a class is read, and whether it has no default."""
    hints, found = get_type_hints(kind, include_extras=True), {}
    for one in dataclasses.fields(kind):
        how = getattr(hints[one.name], "__metadata__", None)
        if how:
            none = one.default is one.default_factory is dataclasses.MISSING
            found[one.name] = (how[0], none)
    return found


def value_of(kind: Callable[..., Any], words: Words, name: str) -> dict[str, Any]:
    """Return a field by its name; nothing if it is missing and has a default."""
    read, is_needed = _reads(kind)[name]
    return {name: read(words, name)} if is_needed or words.value.get(name) is not None else {}


def made(kind: Callable[..., T], words: Words, /, **known: Any) -> T:
    """Return an object of a class whose fields are `Annotated[TYPE, Read]`, or known."""
    for name in _reads(kind):
        if name not in known:
            known |= value_of(kind, words, name)
    return kind(**known)


def one(kind: type[T]) -> Callable[[Words, str], T]:
    """Return how an object of a class is read."""
    return lambda words, key: made(kind, words.object(key))


def several(kind: type[T], most: int) -> Callable[[Words, str], tuple[T, ...]]:
    """Return how a list of at most so many objects of a class is read; a missing one is empty."""
    return lambda words, key: tuple(
        made(kind, each) for each in words.objects(key, most, needed=False)
    )
