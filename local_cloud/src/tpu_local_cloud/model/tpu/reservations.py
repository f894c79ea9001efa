"""Reservations: capacity that the cloud's owner has set aside for queued resources."""

from __future__ import annotations

from typing import Any

from ... import errors
from ...errors import ApiError
from ...tables._schema.accelerators import GENERATIONS, parse
from ..shared import catalog
from ..shared.clock import seconds_of
from ..shared.ledger import Ledger
from ..shared.queue_records import QueueRecord, ReservationRecord
from ..shared.records import NodeRecord
from .queue_request import reservation_of

STATES = ("APPROVED", "PROVISIONING", "ACTIVE", "DEPROVISIONING", "EXPIRED", "FAILED")
# States in which a queued resource holds its chips.
_HOLDING = ("PROVISIONING", "ACTIVE", "SUSPENDING")


def within(ledger: Ledger, zone: str, name: str = "-") -> list[ReservationRecord]:
    """Return the reservations of a zone with this name; `-` means any zone or name."""
    found = [
        each
        for each in ledger.reservations.values()
        if zone in ("-", each.zone) and name in ("-", each.name)
    ]
    return sorted(found, key=lambda each: (each.zone, each.name))


def asked_for(ledger: Ledger, record: QueueRecord) -> list[ReservationRecord] | None:
    """Return the reservations that a request may draw on; None if it asks for none.

    A request for reserved capacity that names no reservation may use any.
    """
    name = reservation_of(record.body.get("reservationName", ""), record.zone)
    if name is None and record.tier == "reserved":
        name = "-"
    return None if name is None else within(ledger, record.zone, name)


def claim(ledger: Ledger, node: NodeRecord) -> ApiError | None:
    """Assign a new node to its requested reservation; return why that is impossible."""
    scheduling = node.body.get("schedulingConfig", {})
    name = reservation_of(scheduling.get("reservationName", ""), node.zone)
    if name is None and node.tier != "reserved":
        return None
    found = within(ledger, node.zone, name or "-")
    if not found:
        return errors.reservation_not_found()
    source = _with_room(ledger, found, [node.accelerator_type], _chips(node))
    if source is None:
        return errors.insufficient_reservation()
    node.reservation = source.key
    return None


def _chips(node: NodeRecord) -> int:
    kind = parse(node.accelerator_type)
    return kind.chips if kind else 0


def used(ledger: Ledger, reservation: ReservationRecord) -> int:
    """Return how many chips of a reservation are in use."""
    return sum(
        record.chips
        for record in ledger.queued.values()
        if record.reservation == reservation.key and record.state in _HOLDING
    ) + sum(_chips(n) for n in ledger.nodes.values() if n.reservation == reservation.key)


def with_room(ledger: Ledger, record: QueueRecord) -> ReservationRecord | None:
    """Return the first reservation with room for the request now."""
    types = [order.accelerator_type for order in record.orders]
    return _with_room(ledger, asked_for(ledger, record) or [], types, record.chips)


def _with_room(
    ledger: Ledger, found: list[ReservationRecord], types: list[str], chips: int
) -> ReservationRecord | None:
    now = ledger.clock.now()
    for each in found:
        begun = not each.start or seconds_of(each.start) <= now
        over = each.end and seconds_of(each.end) <= now
        fits = all(_is_of(each, accelerator_type) for accelerator_type in types)
        room = each.chips - used(ledger, each) >= chips
        if each.state == "ACTIVE" and begun and not over and fits and room:
            return each
    return None


def _is_of(reservation: ReservationRecord, accelerator_type: str) -> bool:
    kind = parse(accelerator_type)
    known = ("", accelerator_type, kind.generation if kind else "")
    return reservation.accelerator_type in known


def declare(ledger: Ledger, asked: dict[str, Any]) -> ReservationRecord:
    """Add or change a reservation."""
    reservation = ReservationRecord(**asked)
    if reservation.zone not in catalog.ZONES:
        raise ValueError(f"zone {reservation.zone!r} is none of {', '.join(catalog.ZONES)}")
    wanted = reservation.accelerator_type
    if wanted and wanted not in GENERATIONS and parse(wanted) is None:
        raise ValueError(
            f"type {wanted!r} is no type such as v4-8, and none of the generations "
            f"{', '.join(GENERATIONS)}"
        )
    if reservation.state not in STATES:
        raise ValueError(f"state {reservation.state!r} is none of {', '.join(STATES)}")
    if not isinstance(reservation.chips, int) or reservation.chips < 0:
        raise ValueError(f"chips {reservation.chips!r} is no number of chips")
    for moment in filter(None, (reservation.start, reservation.end)):
        seconds_of(moment)
    with ledger.lock:
        ledger.reservations[reservation.key] = reservation
        ledger.store.save("reservation", reservation.key, reservation.to_dict())
    return reservation


def forget(ledger: Ledger, zone: str, name: str) -> None:
    """Remove a reservation; nodes created from it stay."""
    with ledger.lock:
        if ledger.reservations.pop(f"{zone}/{name}", None) is None:
            raise ValueError(f"there is no reservation {name!r} in {zone!r}")
        ledger.store.delete("reservation", f"{zone}/{name}")
