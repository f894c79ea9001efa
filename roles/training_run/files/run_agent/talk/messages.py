"""Messages between workers, read into typed values: whatever is odd is refused here.

Every rule for a field is in one place, for both directions. Keys of other versions are passed over.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

from ..act.worker_ports import RESULTS
from ..decide.gang_state import PHASES, Report
from ..decide.member import Order
from ..decide.values import MOST_ATTEMPTS, is_whole

Check = Callable[[Any], bool]

MOST_BYTES = 128 * 1024
_LINE = 500
_TEXT = 4000
_LINES = 20
_NAMES = 16


class Refused(Exception):
    """A message that is not taken, and why."""


class OfWorker(Protocol):
    """A report, whatever else is in it."""

    @property
    def worker(self) -> int:
        """Return the number of the worker that it is from."""


T = TypeVar("T")
R = TypeVar("R", bound=OfWorker)
O = TypeVar("O")  # noqa: E741 - an order


@dataclass(frozen=True)
class Words(Generic[R, O]):
    """What is said on one kind of wire: a worker's report, and the leader's order."""

    report: type[R]
    report_rules: Mapping[str, Check]
    order: type[O]
    order_rules: Mapping[str, Check]
    refuse: Callable[[R], str] = lambda _report: ""
    """Returns why a report is not taken from another worker; empty if it is."""

    def read_report(self, data: bytes) -> R:
        """Return the report that a worker sent; raises Refused."""
        return _read(self.report, self.report_rules, data)

    def read_order(self, data: bytes) -> O:
        """Return the order that the leader sent; raises Refused."""
        return _read(self.order, self.order_rules, data)


def text(most: int) -> Check:
    """Return the rule for a printable text of so many characters."""
    return lambda value: isinstance(value, str) and len(value) <= most and value.isprintable()


def whole(least: int, most: int) -> Check:
    """Return the rule for a whole number between two."""
    return lambda value: is_whole(value) and least <= value <= most


def number(most: float) -> Check:
    """Return the rule for a number from 0 on."""

    def check(value: Any) -> bool:
        if is_whole(value):
            return bool(0 <= value <= most)
        return isinstance(value, float) and math.isfinite(value) and 0.0 <= value <= most

    return check


def maybe(check: Check) -> Check:
    """Return the rule for a value that may be null."""
    return lambda value: value is None or check(value)


def one_of(*values: str) -> Check:
    """Return the rule for one of several words."""
    return lambda value: isinstance(value, str) and value in values


def flag(value: Any) -> bool:
    """Return whether a value is true or false."""
    return isinstance(value, bool)


def lines(value: Any) -> bool:
    """Return whether a value is a list of a few short lines."""
    return isinstance(value, list) and len(value) <= _LINES and all(map(text(_LINE), value))


def _builds(value: Any) -> bool:
    if not isinstance(value, dict) or len(value) > _NAMES:
        return False
    return all(text(100)(name) and text(_LINE)(version) for name, version in value.items())


def _queue(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"behind", "user", "since"}:
        return False
    return text(100)(value["behind"]) and text(100)(value["user"]) and number(1e12)(value["since"])


def _unreached(value: Any) -> bool:
    return _rows(value, whole(0, 65535), whole(1, 65535), one_of(*RESULTS), text(_LINE))


def _losses(value: Any) -> bool:
    return _rows(value, whole(-(10**15), 10**15), text(40))


def _bad_chips(value: Any) -> bool:
    return _rows(value, whole(0, 65535), whole(1, 1000), text(_LINE))


def _rows(value: Any, *rules: Check) -> bool:
    """Return whether a value is a list of a few lists, each of values that have these rules."""
    return (
        isinstance(value, list)
        and len(value) <= _LINES
        and all(isinstance(row, list) and len(row) == len(rules) for row in value)
        and all(check(part) for row in value for check, part in zip(rules, row, strict=True))
    )


_SECONDS = number(1e10)
_ATTEMPT = whole(0, MOST_ATTEMPTS)

REPORT: dict[str, Check] = {
    "worker": whole(0, 65535),
    "boot_id": text(100),
    "definition": text(100),
    "last_started": _ATTEMPT,
    "program": one_of("none", "running", "exited"),
    "exit_code": maybe(whole(-(2**31), 2**31)),
    "signal": maybe(whole(0, 128)),
    "cause": text(_TEXT),
    "blocked": text(_TEXT),
    "leaving": flag,
    "sent": _SECONDS,
    "heard": text(200),
    "quiet": _SECONDS,
    "tail": lines,
    "builds": _builds,
    "floor": _ATTEMPT,
    "run_id": text(200),
    "elsewhere": text(_TEXT),
    "named": text(100),
    "checkpoint": text(_LINE),
    "queue": maybe(_queue),
    "no_turn": flag,
    "testing": flag,
    "stepped": flag,
    "opened": maybe(flag),
    "pace": _SECONDS,
    "losses": _losses,
    "chip_error": text(_LINE),
    "unreached": _unreached,
}
ORDER: dict[str, Check] = {
    "phase": one_of(*PHASES),
    "attempt": _ATTEMPT,
    "definition": text(100),
    "run_id": text(200),
    "reason": text(_TEXT),
    "waiting": text(_TEXT * 4),
    "token": text(200),
    "hung": _SECONDS,
    "checkpoint": text(_LINE),
    "queue": maybe(_queue),
    "saved_at": maybe(_SECONDS),
    "yields": flag,
    "fenced": flag,
    "guards": flag,
    "stuck": flag,
    "all_here": flag,
    "hint": text(_TEXT),
    "bad_chips": _bad_chips,
    "cache": text(100),
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


def _said_of_worker_0(report: Report) -> str:
    only_there = report.elsewhere or report.floor or report.run_id
    return "it says what only worker 0 looks at" if only_there else ""


GANG = Words(Report, REPORT, Order, ORDER, _said_of_worker_0)
"""What the agents of one run say."""
read_report, read_order = GANG.read_report, GANG.read_order


def write(message: Any) -> bytes:
    """Return a report or an order as it is sent: no text is longer than the others take."""
    found = {
        name: _cut(value, _LONGEST.get(name, _TEXT)) for name, value in asdict(message).items()
    }
    said = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return said.encode("utf-8", "replace")


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str):
        return "".join(part if part.isprintable() else " " for part in value[:most])
    if isinstance(value, list):
        return [_cut(part, most) for part in value[:_LINES]]
    if isinstance(value, dict):
        return {name: _cut(part, most) for name, part in value.items()}
    return value
