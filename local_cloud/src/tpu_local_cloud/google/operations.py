"""Compute's operations: the work is done immediately, and reported as done a little later."""

from __future__ import annotations

import secrets
import time
from datetime import datetime, timedelta, timezone
from typing import Any

from ..model.cloud import Cloud
from .answers import Call

LINKS = "https://www.googleapis.com/compute/v1"
# Compute Engine writes times as its head office has them.
_OFFICE = timezone(timedelta(hours=-8))

# Internal fields of an operation.
_OWN = ("due", "scope", "request")


def link(cloud: Cloud, tail: str) -> str:
    """Return the link to a resource of the project."""
    return f"{LINKS}/projects/{cloud.project}/{tail}".rstrip("/")


def number() -> str:
    """Return a new numeric id."""
    return str(secrets.randbits(62) | 1 << 61)


def written(moment: float) -> str:
    """Return a moment in seconds since 1970 as Compute Engine writes it."""
    return datetime.fromtimestamp(round(moment, 3), _OFFICE).isoformat(timespec="milliseconds")


def scope_of(call: Call) -> str:
    """Return where a request's path points: `global`, `regions/R` or `zones/Z`."""
    if call["zone"]:
        return f"zones/{call['zone']}"
    return f"regions/{call['region']}" if call["region"] else "global"


def begin(
    cloud: Cloud, kind: str, target: str, scope: str = "global", target_id: str = ""
) -> dict[str, Any]:
    """Open an operation on a resource of the scope: `global`, `regions/R` or `zones/Z`."""
    name = f"operation-{time.time_ns() // 1_000_000}-{secrets.token_hex(7)[:13]}"
    operation = {
        "kind": "compute#operation",
        "id": number(),
        "name": name,
        "operationType": kind,
        "targetLink": link(cloud, target),
        "user": "you@example.com",
        "insertTime": written(cloud.clock.now()),
        "startTime": written(cloud.clock.now()),
        "selfLink": link(cloud, f"{scope}/operations/{name}"),
        "scope": scope,
        "due": cloud.clock.due(cloud.delays["update"]),
    }
    if scope != "global":
        operation["zone" if scope.startswith("zones/") else "region"] = link(cloud, scope)
    if target_id:
        operation["targetId"] = target_id
    cloud.around.operations.put(name, operation)
    return show(cloud, operation)


def show(cloud: Cloud, operation: dict[str, Any]) -> dict[str, Any]:
    """Return an operation as the API shows it."""
    done = cloud.clock.now() >= operation["due"]
    shown = {key: value for key, value in operation.items() if key not in _OWN}
    shown |= {"status": "DONE" if done else "RUNNING", "progress": 100 if done else 0}
    if done:
        shown["endTime"] = shown["startTime"]
    return shown
