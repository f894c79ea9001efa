"""Reservations of Compute Engine, as instances use them.

A reservation of instances has so many places of a machine type; one of a whole family is not
counted.
"""

from __future__ import annotations

from typing import Any

from ..errors import ApiError
from .ledger import Ledger
from .records import NodeRecord


def lack(ledger: Ledger, node: NodeRecord) -> ApiError | None:
    """Return why a record cannot use the reservation that it names, if so."""
    if not _name(node):
        return None
    found = _reservation(ledger, node)
    if found is None:
        return ledger.failure("reservation_missing", node)
    specific = found.get("specificReservation")
    if not specific:
        return None
    own = _users(ledger, node)
    others = [user for user in found["users"] if user not in own]
    fits = specific["instanceProperties"]["machineType"] == node.compute["machineType"]
    if fits and len(others) + len(own) <= int(specific["count"]):
        return None
    return ledger.failure("reservation_full", node)


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
    return ledger.around.compute_reservations.get(f"zones/{node.zone}/{_name(node)}")


def _name(node: NodeRecord) -> str:
    """Return the name of the reservation that the request names; empty for none."""
    affinity = node.compute["properties"].get("reservationAffinity") or {}
    named = affinity.get("consumeReservationType") == "SPECIFIC_RESERVATION"
    values = affinity.get("values") or []
    return str(values[0]).rpartition("/")[2] if named and values else ""


def _users(ledger: Ledger, node: NodeRecord) -> list[str]:
    place = f"projects/{ledger.project}/zones/{node.zone}/instances"
    return [f"{place}/{machine['name']}" for machine in node.machines]
