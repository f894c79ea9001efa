"""Faults that the owner switches on: by place, by count, by probability (seeded), or for a time."""

from __future__ import annotations

import random
import secrets
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...errors import RESERVATION_STATUSES

KINDS = {
    "stock_out": "creating or starting fails for lack of capacity; queued resources wait",
    "quota": "create is refused when more than the capacity quota would exist "
    "(limit: cores or chips, as types count them; scope: zone, region or both)",
    "object_rate": "429 for a write of an object less than so many seconds after the last one",
    "rate_limit": "429, too many requests "
    "(retry_after: seconds to say in Retry-After; per_minute: how many are fine)",
    "api_disabled": "403, the API is not enabled",
    "iam_denied": "403, a permission is missing",
    "location_denied": "403, the zone is closed to the project (wording: new or old)",
    "zone_unsupported": "400, the service does not know the zone",
    "billing_disabled": "403, the project has no billing",
    "quota_project": "403 for a person's token without the header x-goog-user-project",
    "queue_denied": "403, the type is not offered to the project (wording: requests or queue)",
    "unauthenticated": "401",
    "token_expired": "401 for a token that was first seen longer than older_than seconds ago, "
    "or for this token",
    "unavailable": "503",
    "internal": "500",
    "bad_gateway": "502 with a body of HTML (when: before or after the work is done)",
    "drop": "the connection is closed without an answer (when: before or after the work is done)",
    "reset": "the connection is reset in the middle of the answer, after the work is done",
    "slow": "the answer takes so many seconds of the cloud's time",
    "busy": "409, another operation runs",
    "not_found_after_create": "get answers 404 although the node exists",
    "invisible": "new resources are missing from get and list for so many seconds",
    "unreachable": "lists cannot reach the zone",
    "page_size": "pages have at most `size` items",
    "empty_page": "every other page is empty and has a next page",
    "stuck_operation": "the operation never ends, although the node changes "
    "(hold: the node does not change either)",
    "operation_internal": "the operation fails with an internal error",
    "reservation_missing": "the operation fails: there is no such reservation",
    "reservation_full": "the operation fails: the reservation is used up "
    "(status: RESOURCE_EXHAUSTED or FAILED_PRECONDITION)",
    "late_failure": "the operation fails after so many seconds (error: the kind of its error)",
    "guest_attributes_missing": "the worker has no guest attributes",
    "guest_attributes_empty": "no worker has guest attributes",
    "guest_attributes_partial": "some guest attributes are missing "
    "(workers: of which workers; keys: which of theirs)",
    "project_number": "answers carry the project's number in their names",
    "bulk_refused": "400 for a group of several instances on demand or spot, of which Google's "
    "pages say both",
    "stop_refused": "400 for stopping an instance with TPUs, of which users say both",
    "core_stuck": "a core stays in its program, and all others of the slice wait for it "
    "(core: which of the worker's)",
    "core_lags": "a worker has not launched the program in which the others of its slice wait",
    "core_error": "a core reports an error, and the others of the slice wait for it "
    "(core: which of the worker's; message: what it reports)",
    "monitoring": "a worker's monitoring port answers what no runtime does "
    "(how: numbers, text, huge, garbage or silent)",
    "port_blocked": "packets of other machines to ports of a worker are dropped, as by a firewall "
    "(ports: 8482, or several with commas)",
    "unknown_fields": "nodes have fields and enum values that clients do not know (state, health)",
}
# Options of each kind of fault, in addition to where and when it applies.
OPTIONS: dict[str, tuple[str, ...]] = {
    "quota": ("limit", "scope"),
    "rate_limit": ("retry_after", "per_minute"),
    "location_denied": ("wording",),
    "queue_denied": ("wording",),
    "token_expired": ("older_than", "token"),
    "bad_gateway": ("when",),
    "drop": ("when",),
    "object_rate": ("seconds",),
    "slow": ("seconds",),
    "invisible": ("seconds",),
    "page_size": ("size",),
    "stuck_operation": ("hold",),
    "reservation_full": ("status",),
    "late_failure": ("seconds", "error"),
    "guest_attributes_partial": ("workers", "keys"),
    "core_stuck": ("core",),
    "core_error": ("core", "message"),
    "monitoring": ("how",),
    "port_blocked": ("ports",),
    "unknown_fields": ("state", "health"),
}
HOW = ("numbers", "text", "huge", "garbage", "silent")
"""What a monitoring port does that is no runtime's; numbers where none says so."""
WHEN = ("before", "after")
"""Whether an answer is lost before the work is done, as where none says so, or after it."""
# Properties that identify a place. A method is a name such as nodes.create, or HTTP's such as POST.
PLACES = (
    *("accelerator_type", "bucket", "method", "node", "object", "permission", "queued"),
    *("service", "tier", "verb", "version", "worker", "zone"),
)


@dataclass
class Fault:
    """One fault; it applies where each property in `match` has one of the given values."""

    kind: str
    match: dict[str, Any] = field(default_factory=dict)
    count: int | None = None
    probability: float = 1.0
    seed: int = 0
    # Start and end, by the cloud's clock.
    since: float = 0.0
    until: float | None = None
    options: dict[str, Any] = field(default_factory=dict)
    id: str = field(default_factory=lambda: secrets.token_hex(4))
    hits: int = 0
    draws: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # noqa: S311 - repeatable, not secret
        for _ in range(self.draws):
            self._random.random()
        self._calls: deque[float] = deque()

    def to_dict(self) -> dict[str, Any]:
        """Return it as people see it and as it is stored."""
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def applies(self, now: float, where: dict[str, Any]) -> bool:
        """Return whether it is active now at this place."""
        if now < self.since or (self.until is not None and now >= self.until):
            return False
        return all(_meets(wanted, where.get(key)) for key, wanted in self.match.items())

    def draw(self) -> bool:
        """Return whether it applies by its probability."""
        if self.probability >= 1:
            return True
        self.draws += 1
        return self._random.random() < self.probability

    def too_many(self, now: float) -> bool:
        """Count a call; return whether it exceeds the limit per minute (default 0)."""
        limit = self.options.get("per_minute")
        if limit is None:
            return True
        while self._calls and self._calls[0] <= now - 60:
            self._calls.popleft()
        if len(self._calls) >= int(limit):
            return True
        self._calls.append(now)
        return False


def _meets(wanted: Any, found: Any) -> bool:
    """Return whether a wanted value is among the found ones."""
    wanted = wanted if isinstance(wanted, (list, tuple)) else (wanted,)
    found = found if isinstance(found, (list, tuple)) else (found,)
    return any(str(item) in map(str, wanted) for item in found if item is not None)


class Faults:
    """The faults that are switched on; `save` is called with all of them when they change."""

    def __init__(self, save: Callable[[list[dict[str, Any]]], None] | None = None) -> None:
        self._faults: list[Fault] = []
        self._save = save
        self._lock = threading.RLock()

    def restore(self, stored: list[dict[str, Any]]) -> None:
        """Restore the faults from before a restart."""
        self._faults = [Fault(**document) for document in stored]

    def _changed(self) -> None:
        if self._save:
            self._save(self.list())

    def __len__(self) -> int:
        """Return how many are on."""
        return len(self._faults)

    def add(self, fault: Fault) -> None:
        """Switch a fault on."""
        _check(fault)
        with self._lock:
            self._faults.append(fault)
            self._changed()

    def clear(self, fault_id: str | None = None) -> None:
        """Switch one fault off, or all."""
        with self._lock:
            self._faults = [f for f in self._faults if fault_id and f.id != fault_id]
            self._changed()

    def has_ended(self, now: float) -> bool:
        """Return whether there is one for `expire` to remove."""
        return any(fault.until is not None and fault.until <= now for fault in self._faults)

    def expire(self, now: float) -> None:
        """Remove the faults that have ended, once they can no longer apply."""
        with self._lock:
            kept = [f for f in self._faults if f.until is None or now < f.until]
            if len(kept) < len(self._faults):
                self._faults = kept
                self._changed()

    def list(self) -> list[dict[str, Any]]:
        """Return all that are on."""
        return [fault.to_dict() for fault in self._faults]

    def hit(
        self,
        kind: str,
        now: float,
        only: Callable[[Fault], bool] | None = None,
        /,
        **where: Any,
    ) -> Fault | None:
        """Return the fault that applies here and now, if any, and count the use."""
        if not self._faults:
            return None
        with self._lock:
            return self._strike(kind, now, only, where)

    def active(self, kind: str, now: float, /, **where: Any) -> Fault | None:
        """Return the fault that applies here and now, if any; that is no use of it."""
        return next(iter(self.all_active(kind, now, **where)), None)

    def all_active(self, kind: str, now: float, /, **where: Any) -> tuple[Fault, ...]:
        """Return all faults of a kind that apply here and now; that is no use of them."""
        with self._lock:
            return tuple(f for f in self._faults if f.kind == kind and f.applies(now, where))

    def _strike(
        self, kind: str, now: float, only: Callable[[Fault], bool] | None, where: dict[str, Any]
    ) -> Fault | None:
        for fault in list(self._faults):
            if fault.kind != kind or not fault.applies(now, where):
                continue
            if only is not None and not only(fault):
                continue
            strikes = fault.draw()
            fault.hits += strikes
            if strikes and fault.count is not None and fault.hits >= fault.count:
                self._faults.remove(fault)
            if fault.count is not None or fault.probability < 1:
                self._changed()
            if strikes:
                return fault
        return None


def ports_of(fault: Fault) -> list[int]:
    """Return the ports that a fault names; raises ValueError for what is none."""
    words = str(fault.options.get("ports", "")).split(",")
    ports = [int(word) for word in words]
    if not all(0 < port < 65536 for port in ports):
        raise ValueError(f"ports {fault.options.get('ports')!r} are not between 1 and 65535")
    return ports


def _check(fault: Fault) -> None:
    """Raise ValueError for impossible values."""
    if fault.kind not in KINDS:
        raise ValueError(f"no fault is called {fault.kind!r}; there are: {', '.join(KINDS)}")
    known = OPTIONS.get(fault.kind, ())
    for name in fault.options:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"the fault {fault.kind} has no option {name!r}; {has}")
    when = fault.options.get("when", WHEN[0])
    if when not in WHEN:
        raise ValueError(f"when {when!r} is none of {', '.join(WHEN)}")
    how = fault.options.get("how", HOW[0])
    if how not in HOW:
        raise ValueError(f"how {how!r} is none of {', '.join(HOW)}")
    int(fault.options.get("core", 0))
    if fault.kind == "port_blocked":
        ports_of(fault)
    status = fault.options.get("status", RESERVATION_STATUSES[0])
    if status not in RESERVATION_STATUSES:
        raise ValueError(f"status {status!r} is none of {', '.join(RESERVATION_STATUSES)}")
    if not isinstance(fault.match, dict):
        raise ValueError(f"match {fault.match!r} is not of the form place: value")
    if not 0 <= fault.probability <= 1:
        raise ValueError(f"probability {fault.probability} is not between 0 and 1")
    if fault.count is not None and fault.count < 1:
        raise ValueError(f"count {fault.count} is less than 1")
