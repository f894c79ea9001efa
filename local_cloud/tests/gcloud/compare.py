"""What gcloud asked of the cloud, in the words of the table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from recording import Exchange
from table import AS_READ, METADATA

from tpu_local_cloud.compute_api import batch

_OPERATION = re.compile(r"/operations/operation-[\w-]+(?=$|/wait$)")
# In place of the path of an operation: several were polled at once.
SEVERAL = "several"
Asked = tuple[str, Any]


def asked(exchanges: Iterable[Exchange]) -> Iterator[Asked]:
    """Say what was asked: one line and a body; polls of one operation make one line.

    So do polls of several operations at once.
    """
    last = None
    for exchange in exchanges:
        if batch.PATH.fullmatch(exchange.path):
            calls = batch.parts(exchange.headers["content-type"], exchange.body.encode())
            told = [(*_line(c.method, c.path, c.query), c.body) for c in calls]
            if all(polled for _, polled, _ in told):
                if last != (SEVERAL, told[0][0]):
                    yield told[0][0], None
                last = SEVERAL, told[0][0]
                continue
            yield f"{exchange.method} {exchange.path}", None
            for line, _, body in told:
                yield f"batch: {line}", json.loads(body) if body else None
            last = None
            continue
        line, polled = _line(exchange.method, exchange.path, exchange.query)
        if exchange.status != 200:
            line += f" -> {exchange.status}"
        # Of several operations one may be the last.
        if polled and last in ((exchange.path, line), (SEVERAL, line)):
            continue
        last = exchange.path, line
        # A POST without arguments carries an empty object.
        yield line, exchange.body or None


def _line(method: str, path: str, asked: Mapping[str, str]) -> tuple[str, bool]:
    """Return the line of a request, and whether it polls an operation."""
    query = dict(asked)
    # Without it the answer is no JSON at Google's.
    assert query.pop("alt") == "json"
    if "pageToken" in query:
        query["pageToken"] = "*"
    if query.get("filter", "").startswith("operationGroupId "):
        query["filter"] = "operationGroupId *"
    if "updateMask" in query:
        # In any order: gcloud keeps the fields in a set.
        query["updateMask"] = ",".join(sorted(query["updateMask"].split(",")))
    shown, polled = _OPERATION.subn("/operations/*", path)
    line = f"{method} {shown}"
    if query:
        line += "?" + urlencode(sorted(query.items()), safe=",/*")
    return line, bool(polled)


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
        if METADATA in body:
            path = line.split()[1].rpartition("/")[0]
            answer = next(e.answer for e in seen if e.method == "GET" and e.path == path)
            more = [{"key": key, "value": value} for key, value in body[METADATA].items()]
            items = sorted([*answer["metadata"]["items"], *more], key=lambda item: item["key"])
            body = {"fingerprint": answer["metadata"]["fingerprint"], "items": items}
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
