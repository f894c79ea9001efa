"""Filters and order of lists: `filter` (AIP-160) and `orderBy`."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from .. import errors
from ..model.shared.schema import snake

Item = TypeVar("Item")
Test = Callable[[Any], bool]
_WORDS = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<sign><=|>=|!=|[=<>:()])"""
    r"""|(?P<word>-?[^\s()=<>!:"'~]+|-))"""
)
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda found, wanted: found < wanted,
    "<=": lambda found, wanted: found <= wanted,
    ">": lambda found, wanted: found > wanted,
    ">=": lambda found, wanted: found >= wanted,
}


def kept(
    text: str, order: str, items: Sequence[Item], show: Callable[[Item], Any]
) -> Sequence[Item]:
    """Return the items whose API form matches the filter, in the requested order."""
    if text.strip():
        test = _Filter(text).test
        items = [item for item in items if test(show(item))]
    for field, descending in reversed(order_of(order)):
        items = _sorted(items, field.split("."), descending, show)
    return items


def _sorted(
    items: Sequence[Item], path: list[str], descending: bool, show: Callable[[Item], Any]
) -> list[Item]:
    return sorted(items, key=lambda item: str(_at(show(item), path) or ""), reverse=descending)


def fields_of(text: str) -> list[str]:
    """Return the fields that a filter uses."""
    return _Filter(text).fields if text.strip() else []


def order_of(text: str) -> list[tuple[str, bool]]:
    """Return the fields of `orderBy`, each with whether it is descending."""
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"([\w.]+)(?:\s+(asc|desc))?", part)
        if match is None:
            raise errors.invalid_order(text)
        found.append((match[1], match[2] == "desc"))
    return found


class _Filter:
    """One filter; OR binds tighter than AND, and adjacent terms are joined by AND."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.fields: list[str] = []
        self._words = list(self._split())
        self.test = self._all()
        if self._words:
            raise self._invalid(f"{self._words[0][1]} is not expected")

    def _split(self) -> Iterator[tuple[str, str]]:
        place, text = 0, self.text.rstrip()
        while place < len(text):
            match = _WORDS.match(text, place)
            if match is None:
                raise self._invalid(f"{text[place:]} cannot be read")
            yield str(match.lastgroup), match[str(match.lastgroup)]
            place = match.end()

    def _invalid(self, why: str) -> errors.ApiError:
        return errors.invalid_filter(self.text, why)

    def _next_is(self, *words: str) -> bool:
        return bool(self._words) and self._words[0][0] != "text" and self._words[0][1] in words

    def _all(self) -> Test:
        tests = [self._any()]
        while self._words and not self._next_is(")"):
            if self._next_is("AND"):
                self._words.pop(0)
            tests.append(self._any())
        return lambda item: all(test(item) for test in tests)

    def _any(self) -> Test:
        tests = [self._one()]
        while self._next_is("OR"):
            self._words.pop(0)
            tests.append(self._one())
        return lambda item: any(test(item) for test in tests)

    def _one(self) -> Test:
        if not self._words:
            raise self._invalid("it ends too early")
        kind, word = self._words.pop(0)
        if kind == "word" and word in ("NOT", "-"):
            inner = self._one()
            return lambda item: not inner(item)
        if kind == "word" and word.startswith("-"):
            self._words.insert(0, (kind, word[1:]))
            inner = self._one()
            return lambda item: not inner(item)
        if (kind, word) == ("sign", "("):
            inner = self._all()
            if not self._next_is(")"):
                raise self._invalid("a ) is missing")
            self._words.pop(0)
            return inner
        if kind == "sign" or word in ("AND", "OR"):
            raise self._invalid(f"{word} is not expected")
        if kind == "word" and self._next_is("=", "!=", "<", "<=", ">", ">=", ":"):
            return self._comparison(word)
        wanted = _plain(kind, word).lower()
        return lambda item: any(wanted in str(value).lower() for value in _leaves(item))

    def _comparison(self, field: str) -> Test:
        self.fields.append(field)
        sign = self._words.pop(0)[1]
        if not self._words or self._words[0][0] == "sign":
            raise self._invalid(f"a value is missing after {field}{sign}")
        wanted, path = _plain(*self._words.pop(0)), field.split(".")
        if sign == "!=":
            return lambda item: not _meets("=", _at(item, path), wanted)
        return lambda item: _meets(sign, _at(item, path), wanted)


def _plain(kind: str, word: str) -> str:
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if kind == "text" else word


def _at(value: Any, path: list[str]) -> Any:
    """Return the value at a path, in either spelling; for lists, those of each item."""
    for index, name in enumerate(path):
        if isinstance(value, list):
            return [_at(item, path[index:]) for item in value]
        if not isinstance(value, dict):
            return None
        names = {snake(key): key for key in value} | {key: key for key in value}
        value = value.get(names.get(name, name))
    return value


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    else:
        yield value


def _meets(sign: str, found: Any, wanted: str) -> bool:
    if isinstance(found, list):
        return any(_meets(sign, item, wanted) for item in found)
    if sign == ":":
        if wanted == "*":
            return found not in (None, "")
        return wanted in found if isinstance(found, dict) else wanted in str(found or "")
    if isinstance(found, bool) or (found is None and wanted in ("true", "false")):
        return sign == "=" and str(bool(found)).lower() == wanted
    if isinstance(found, (int, float)):
        try:
            number = float(wanted)
        except ValueError:
            return False
        return found == number if sign == "=" else _COMPARE[sign](found, number)
    said = str(found or "")
    if sign == "=":
        # Only * is a wildcard.
        return fnmatch.fnmatchcase(said, re.sub(r"([?\[])", r"[\1]", wanted))
    return _COMPARE[sign](said, wanted)
