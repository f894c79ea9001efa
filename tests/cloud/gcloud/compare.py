"""What gcloud asked of the cloud, in the words of the table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from recording import Exchange
from table import AS_READ

_OPERATION = re.compile(r"/operations/operation-[\w-]+$")
Asked = tuple[str, Any]


def asked(exchanges: Iterable[Exchange]) -> Iterator[Asked]:
    """Say what was asked: one line and a body; polls of one operation make one line."""
    last = None
    for exchange in exchanges:
        query = dict(exchange.query)
        # Without it the answer is no JSON at Google's.
        assert query.pop("alt") == "json"
        if "pageToken" in query:
            query["pageToken"] = "*"
        if "updateMask" in query:
            # In any order: gcloud keeps the fields in a set.
            query["updateMask"] = ",".join(sorted(query["updateMask"].split(",")))
        path, polled = _OPERATION.subn("/operations/*", exchange.path)
        line = f"{exchange.method} {path}"
        if query:
            line += "?" + urlencode(sorted(query.items()), safe=",/*")
        if exchange.status != 200:
            line += f" -> {exchange.status}"
        if polled and (exchange.path, line) == last:
            continue
        last = exchange.path, line
        # A POST without arguments carries an empty object.
        yield line, exchange.body or None


def wanted(requests: Iterable[str | Mapping[str, Any]], seen: list[Exchange]) -> Iterator[Asked]:
    """Say in the same way what the table wants."""
    for request in requests:
        if isinstance(request, str):
            yield request, None
            continue
        ((line, body),) = request.items()
        if AS_READ in body:
            path = line.split()[1].partition("?")[0]
            answers = [e.answer for e in seen if e.method == "GET" and e.path == path]
            body = {k: v for k, v in {**answers[0], **body[AS_READ]}.items() if v is not None}
        yield line, body


def expand(value: Any, said: Mapping[str, str]) -> Any:
    """Return a value of the table with its {placeholders} replaced; `{{` is a brace."""
    if isinstance(value, str):
        filled = re.sub(r"\{([\w.]+)\}", lambda found: said[found[1]], value)
        return filled.replace("{{", "{")
    if isinstance(value, dict):
        return {expand(key, said): expand(item, said) for key, item in value.items()}
    if isinstance(value, list):
        return [expand(item, said) for item in value]
    return value


def assert_shown(expected: Any, found: Any, where: str = "") -> None:
    """Assert that what is expected is there; there may be more."""
    if isinstance(expected, dict):
        assert isinstance(found, dict), f"{where}: {found!r}"
        for key, item in expected.items():
            if item is None:
                assert key not in found, f"{where}.{key}: {found[key]!r}"
            else:
                assert key in found, f"{where}.{key} is missing: {sorted(found)}"
                assert_shown(item, found[key], f"{where}.{key}")
    elif isinstance(expected, list):
        assert isinstance(found, list), f"{where}: {found!r}"
        assert len(found) == len(expected), f"{where}: {found!r}"
        for index, item in enumerate(expected):
            assert_shown(item, found[index], f"{where}[{index}]")
    else:
        assert found == expected, where
