"""Messages between workers, read into typed values: whatever is odd is refused here.

Every rule for a field is in one place, for both directions. Keys of other versions are passed over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from ..decide.gang_state import PHASES, Report
from ..decide.member import Order
from ..decide.values import MOST_ATTEMPTS, is_whole

T = TypeVar("T", Report, Order)
Check = Callable[[Any], bool]

MOST_BYTES = 128 * 1024
_LINE = 500
_TEXT = 4000
_LINES = 20
_NAMES = 16


class Refused(Exception):
    """A message that is not taken, and why."""


def _text(most: int) -> Check:
    return lambda value: isinstance(value, str) and len(value) <= most and value.isprintable()


def _whole(least: int, most: int) -> Check:
    return lambda value: is_whole(value) and least <= value <= most


def _number(most: float) -> Check:
    def check(value: Any) -> bool:
        if is_whole(value):
            return bool(0 <= value <= most)
        return isinstance(value, float) and math.isfinite(value) and 0.0 <= value <= most

    return check


def _maybe(check: Check) -> Check:
    return lambda value: value is None or check(value)


def _one_of(*values: str) -> Check:
    return lambda value: isinstance(value, str) and value in values


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _lines(value: Any) -> bool:
    return isinstance(value, list) and len(value) <= _LINES and all(map(_text(_LINE), value))


def _builds(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > _NAMES:
        return False
    return all(_text(100)(name) and _text(_LINE)(version) for name, version in value.items())


def _queue(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"behind", "user", "since"}:
        return False
    return (
        _text(100)(value["behind"]) and _text(100)(value["user"]) and _number(1e12)(value["since"])
    )


_SECONDS = _number(1e10)
_ATTEMPT = _whole(0, MOST_ATTEMPTS)

REPORT: dict[str, Check] = {
    "worker": _whole(0, 65535),
    "boot_id": _text(100),
    "definition": _text(100),
    "last_started": _ATTEMPT,
    "program": _one_of("none", "running", "exited"),
    "exit_code": _maybe(_whole(-(2**31), 2**31)),
    "signal": _maybe(_whole(0, 128)),
    "cause": _text(_TEXT),
    "blocked": _text(_TEXT),
    "leaving": _flag,
    "sent": _SECONDS,
    "heard": _text(200),
    "quiet": _SECONDS,
    "tail": _lines,
    "builds": _builds,
    "floor": _ATTEMPT,
    "run_id": _text(200),
    "elsewhere": _text(_TEXT),
    "named": _text(100),
    "checkpoint": _text(_LINE),
    "queue": _maybe(_queue),
    "no_turn": _flag,
}
ORDER: dict[str, Check] = {
    "phase": _one_of(*PHASES),
    "attempt": _ATTEMPT,
    "definition": _text(100),
    "run_id": _text(200),
    "reason": _text(_TEXT),
    "waiting": _text(_TEXT * 4),
    "token": _text(200),
    "hung": _SECONDS,
    "checkpoint": _text(_LINE),
    "queue": _maybe(_queue),
    "saved_at": _maybe(_SECONDS),
    "yields": _flag,
    "fenced": _flag,
    "guards": _flag,
    "stuck": _flag,
}
_LONGEST = {"waiting": _TEXT * 4, "tail": _LINE, "checkpoint": _LINE, "builds": _LINE}


def _read(kind: type[T], rules: Mapping[str, Check], data: bytes) -> T:
    try:
        found = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        raise Refused("it is no JSON") from None
    if not isinstance(found, dict):
        raise Refused("it is no object")
    given = {name: value for name, value in found.items() if name in rules}
    for name, value in given.items():
        if not rules[name](value):
            raise Refused(f"its {name} is not what it may be")
    try:
        return kind(**given)
    except TypeError:
        raise Refused("something is missing in it") from None


def read_report(data: bytes) -> Report:
    """Return the report that a worker sent; raises Refused."""
    return _read(Report, REPORT, data)


def read_order(data: bytes) -> Order:
    """Return the order that the leader sent; raises Refused."""
    return _read(Order, ORDER, data)


def write(message: Any) -> bytes:
    """Return a report or an order as it is sent: no text is longer than the others take."""
    found = {
        name: _cut(value, _LONGEST.get(name, _TEXT)) for name, value in asdict(message).items()
    }
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "replace")


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return "".join(part if part.isprintable() else " " for part in value[:most])
    if isinstance(value, list):
        return [_cut(part, most) for part in value[:_LINES]]
    if isinstance(value, dict):
        return {name: _cut(part, most) for name, part in value.items()}
    return value
