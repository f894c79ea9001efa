"""The lifecycle of objects: what the rules of a bucket do at a moment of the cloud's clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...compute_errors import ComputeError
from ..shared.clock import seconds_of
from .documents import DAY, check_class
from .index import Document, Row

# Seconds of the cloud's time between two looks at a bucket; Google takes up to a day.
EVERY = 3600.0
_ACTIONS = ("Delete", "SetStorageClass", "AbortIncompleteMultipartUpload")
_CONDITIONS = (
    *("age", "createdBefore", "customTimeBefore", "daysSinceCustomTime", "isLive"),
    *("daysSinceNoncurrentTime", "matchesPrefix", "matchesStorageClass", "matchesSuffix"),
    *("noncurrentTimeBefore", "numNewerVersions"),
)


def check(wanted: Mapping[str, Any]) -> None:
    """Raise for rules that are none."""
    for rule in (wanted.get("lifecycle") or {}).get("rule") or []:
        action, condition = rule.get("action") or {}, rule.get("condition") or {}
        if action.get("type") not in _ACTIONS:
            raise _invalid("action.type", action.get("type"), _ACTIONS)
        for name in condition:
            if name not in _CONDITIONS:
                raise _invalid("condition", name, _CONDITIONS)
        if not condition:
            raise _invalid("condition", "", _CONDITIONS)
        if action["type"] == "SetStorageClass":
            check_class(action.get("storageClass", ""))


def _invalid(field: str, value: object, known: tuple[str, ...]) -> ComputeError:
    text = f"Invalid lifecycle.rule.{field} '{value}'. It is one of {', '.join(known)}."
    return ComputeError(400, "invalid", text)


def action(rules: Mapping[str, Any], row: Row, newer: int, now: float) -> Mapping[str, Any] | None:
    """Return the action for a generation: deletion wins; None: nothing happens.

    newer: how many later generations of its name there are.
    """
    hit = [
        rule["action"]
        for rule in rules.get("rule") or []
        if rule["action"]["type"] != "AbortIncompleteMultipartUpload"
        and all(_holds(name, value, row, newer, now) for name, value in rule["condition"].items())
    ]
    deletes = [each for each in hit if each["type"] == "Delete"]
    return next(iter(deletes or hit), None)


def aborts(rules: Mapping[str, Any], upload: Mapping[str, Any], now: float) -> bool:
    """Return whether a rule ends an upload in several parts."""
    age = now - upload["begun"]
    return any(
        rule["action"]["type"] == "AbortIncompleteMultipartUpload"
        and age >= DAY * int(rule["condition"].get("age", 0))
        and _matches(rule["condition"], upload["name"])
        for rule in rules.get("rule") or []
    )


def _matches(condition: Mapping[str, Any], name: str) -> bool:
    prefixes, suffixes = condition.get("matchesPrefix"), condition.get("matchesSuffix")
    return (prefixes is None or name.startswith(tuple(prefixes))) and (
        suffixes is None or name.endswith(tuple(suffixes))
    )


def _holds(name: str, value: Any, row: Row, newer: int, now: float) -> bool:
    document = row.document
    if name in ("matchesPrefix", "matchesSuffix"):
        return _matches({name: value}, row.name)
    if name == "isLive":
        return (row.state == "live") == bool(value)
    if name == "matchesStorageClass":
        return document["storageClass"] in value
    if name == "numNewerVersions":
        return newer >= int(value)
    return _old_enough(name, value, document, now)


# Field of the object, and whether the value is a number of days or a date.
_TIMES = {
    "age": ("timeCreated", True),
    "createdBefore": ("timeCreated", False),
    "daysSinceCustomTime": ("customTime", True),
    "customTimeBefore": ("customTime", False),
    "daysSinceNoncurrentTime": ("timeDeleted", True),
    "noncurrentTimeBefore": ("timeDeleted", False),
}


def _old_enough(name: str, value: Any, document: Document, now: float) -> bool:
    field, days = _TIMES[name]
    if field not in document:
        return False
    since = seconds_of(document[field])
    if days:
        return now - since >= DAY * int(value)
    return since < seconds_of(f"{value}T00:00:00+00:00")
