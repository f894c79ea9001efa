"""Faults that the user switches on: by count, by probability (seeded), or for a time."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field
from typing import Any

KINDS = {
    "stock_out": "creating or starting fails with no more capacity",
    "quota": "create is refused: the capacity quota is used up (limit: the number in it)",
    "rate_limit": "429, too many requests (retry_after: seconds to say in Retry-After)",
    "api_disabled": "403, the API is not switched on",
    "iam_denied": "403, a permission is missing",
    "location_denied": "403, the zone is closed to the project",
    "billing_disabled": "403, the project has no billing",
    "queue_denied": "403, the type is not offered to the project",
    "unauthenticated": "401",
    "unavailable": "503",
    "internal": "500",
    "bad_gateway": "502 with a body of HTML",
    "drop": "the connection is cut; with after: true when the request has been carried out",
    "busy": "409, another operation runs",
    "not_found_after_create": "get answers 404 although the node exists",
    "unreachable": "lists cannot see the zone",
    "stuck_operation": "the operation is never done, whatever happens to the node",
    "operation_internal": "the operation fails with an internal error",
    "reservation_missing": "the operation fails: there is no such reservation",
    "reservation_full": "the operation fails: the reservation is used up",
    "late_failure": "the operation fails after `seconds` (error: like which other kind)",
    "guest_attributes_missing": "guest attributes are empty",
    "project_number": "answers carry the project's number in their names",
    "unknown_fields": "nodes carry fields and enum values that nobody knows",
}


@dataclass
class Fault:
    """One fault; it applies where all that `match` names is equal."""

    kind: str
    match: dict[str, str] = field(default_factory=dict)
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    until: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    hits: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - repeatable, not secret

    def to_dict(self) -> dict[str, Any]:
        """Return what a person sees of it."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}


class Faults:
    """The faults that are switched on."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []

    def add(self, fault: Fault) -> None:
        """Switch a fault on."""
        if fault.kind not in KINDS:
            raise ValueError(f"no fault is called {fault.kind!r}; there are: {', '.join(KINDS)}")
        self._faults.append(fault)

    def clear(self, fault_id: str | None = None) -> None:
        """Switch one fault off, or all."""
        self._faults = [f for f in self._faults if fault_id and f.id != fault_id]

    def list(self) -> list[dict[str, Any]]:
        """Return all that are on."""
        return [fault.to_dict() for fault in self._faults]

    def hit(self, kind: str, now: float, **where: str) -> Fault | None:
        """Return the fault that strikes here and now, if any; it counts as used."""
        for fault in list(self._faults):
            if fault.until is not None and now >= fault.until:
                self._faults.remove(fault)
                continue
            if fault.kind != kind or any(where.get(k) != v for k, v in fault.match.items()):
                continue
            if fault._random.random() >= fault.probability:
                continue
            fault.hits += 1
            if fault.count is not None and fault.hits >= fault.count:
                self._faults.remove(fault)
            return fault
        return None
