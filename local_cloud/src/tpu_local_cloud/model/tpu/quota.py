"""The capacity quota: how much of a kind of TPU may exist in a zone or region, dead or alive."""

from __future__ import annotations

from typing import Any

from ... import errors
from ...tables._schema.accelerators import AcceleratorType, parse
from ..shared.faults import Fault
from ..shared.ledger import Ledger
from ..shared.records import PREEMPTIBLE

SCOPES = ("zone", "region", "both")


def refuse(
    ledger: Ledger, zone: str, kind: AcceleratorType, tier: str, many: int = 1, **where: Any
) -> None:
    """Raise if this many more of a type would exceed the quota that a fault sets."""
    quota = errors.quota_id(kind.generation, kind.name, tier in PREEMPTIBLE)

    def exceeded(fault: Fault) -> bool:
        return bool(_exceeded(ledger, fault, quota, zone, kind, many))

    fault = ledger.faults.hit(
        "quota",
        ledger.clock.now(),
        exceeded,
        zone=zone,
        accelerator_type=kind.name,
        tier=tier,
        **where,
    )
    if fault:
        scopes = _exceeded(ledger, fault, quota, zone, kind, many)
        raise errors.quota_exceeded(quota, _limit(fault), zone, ledger.number, scopes)


def _exceeded(
    ledger: Ledger, fault: Fault, quota: str, zone: str, kind: AcceleratorType, many: int
) -> tuple[str, ...]:
    scope = fault.options.get("scope", "zone")
    if scope not in SCOPES:
        raise ValueError(f"scope {scope!r} is none of {', '.join(SCOPES)}")
    scopes = ("zone", "region") if scope == "both" else (scope,)
    more = units(kind.name) * many
    return tuple(s for s in scopes if used(ledger, quota, zone, s) + more > _limit(fault))


def _limit(fault: Fault) -> int:
    return int(fault.options.get("limit", 0))


def units(accelerator_type: str) -> int:
    """Return how much quota a type uses: the cores or chips that its name counts."""
    number = accelerator_type.rpartition("-")[2]
    return int(number) if number.isdigit() else 0


def used(ledger: Ledger, quota: str, zone: str, scope: str) -> int:
    """Return how much of a quota existing and queued resources use, in any state."""
    place = errors.region_of(zone) if scope == "region" else zone
    return sum(
        units(name)
        for where, name, tier in ledger.claims()
        if place == (errors.region_of(where) if scope == "region" else where)
        and _quota_of(name, tier) == quota
    )


def _quota_of(name: str, tier: str) -> str:
    kind = parse(name)
    return errors.quota_id(kind.generation, kind.name, tier in PREEMPTIBLE) if kind else ""
