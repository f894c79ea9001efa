"""Reservations of Compute Engine, as instances use them.

A reservation of instances has so many places of a machine type; one of a whole family has so many
chips, or is not counted. One in calendar mode begins and ends by itself, and what is bound to it
ends with it.
"""

from __future__ import annotations

from typing import Any

from ...errors import ApiError
from ...tables._compute.machine_types import machine_type
from ..shared.ledger import Ledger
from ..shared.records import NodeRecord
from ..shared.surroundings import exists
from .records import scheduling


def lack(ledger: Ledger, node: NodeRecord) -> ApiError | None:
    """Return why a record cannot use the reservation that it names, if so."""
    if not _name(node):
        return None
    found = _reservation(ledger, node)
    if found is None:
        return ledger.failure("reservation_missing", node)
    if is_calendar(found) and not _is_bound(node):
        return ledger.failure("reservation_full", node)
    own = _users(ledger, node)
    others = [user for user in found["users"] if user not in own]
    fits = (_fits_places if "specificReservation" in found else _fits_chips)(
        ledger, found, node, others
    )
    return None if fits else ledger.failure("reservation_full", node)


def _fits_places(
    _ledger: Ledger, found: dict[str, Any], node: NodeRecord, others: list[str]
) -> bool:
    specific = found["specificReservation"]
    kind = specific["instanceProperties"]["machineType"].rpartition("/")[2]
    more = len(others) + len(node.machines)
    return bool(kind == node.compute["machineType"]) and more <= int(specific["count"])


def _fits_chips(ledger: Ledger, found: dict[str, Any], node: NodeRecord, others: list[str]) -> bool:
    aggregate = found["aggregateReservation"]
    family = aggregate["vmFamily"].rpartition("_")[2].lower()
    if node.compute["machineType"].partition("-")[0] != family:
        return False
    reserved = aggregate.get("reservedResources")
    if not reserved:
        return True
    chips = sum(int(each["accelerator"]["acceleratorCount"]) for each in reserved)
    return chips_of(ledger, others) + _chips(node) * len(node.machines) <= chips


def is_calendar(reservation: dict[str, Any]) -> bool:
    """Return whether a reservation begins and ends by itself."""
    return "ends" in reservation


def end_of(ledger: Ledger, node: NodeRecord) -> float | None:
    """Return when a record ends with its reservation; None if it does not."""
    found = _reservation(ledger, node) if _is_bound(node) else None
    return found.get("ends") if found else None


def chips_of(ledger: Ledger, users: list[str]) -> int:
    """Return how many chips these instances have."""
    return sum(
        _chips(node) * len(set(users).intersection(_users(ledger, node)))
        for node in ledger.nodes.values()
        if node.api == "compute"
    )


def hold(ledger: Ledger, node: NodeRecord) -> None:
    """Note that the instances of a record use their reservation."""
    _replace(ledger, node, _users(ledger, node))


def release(ledger: Ledger, node: NodeRecord) -> None:
    """Note that they use it no longer."""
    _replace(ledger, node, [])


def _replace(ledger: Ledger, node: NodeRecord, users: list[str]) -> None:
    found = _reservation(ledger, node)
    if found is None:
        return
    own = _users(ledger, node)
    kept = [*(user for user in found["users"] if user not in own), *users]
    if kept != found["users"]:
        key = f"zones/{node.zone}/{_name(node)}"
        ledger.around.compute_reservations.put(key, {**found, "users": kept})


def _reservation(ledger: Ledger, node: NodeRecord) -> dict[str, Any] | None:
    found = ledger.around.compute_reservations.get(f"zones/{node.zone}/{_name(node)}")
    return found if found and exists(found, ledger.clock.now()) else None


def _is_bound(node: NodeRecord) -> bool:
    return scheduling(node).get("provisioningModel") == "RESERVATION_BOUND"


def _chips(node: NodeRecord) -> int:
    kind = machine_type(str(node.compute["machineType"]))
    return kind.chips if kind else 0


def _name(node: NodeRecord) -> str:
    """Return the name of the reservation that the request names; empty for none."""
    affinity = node.compute["properties"].get("reservationAffinity") or {}
    named = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    values = affinity.get("values") or []
    return str(values[0]).rpartition("/")[2] if named and values else ""


def _users(ledger: Ledger, node: NodeRecord) -> list[str]:
    place = f"projects/{ledger.project}/zones/{node.zone}/instances"
    return [f"{place}/{machine['name']}" for machine in node.machines]
