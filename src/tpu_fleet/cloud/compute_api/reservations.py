"""Reservations: VMs of one machine type, or chips of one family, that are set aside."""

from __future__ import annotations

from typing import Any

from ..compute_errors import ComputeError, already_exists, in_use, invalid, not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from . import catalog, links, lists
from .methods import method

COLLECTION = "reservations"
# In what is stored: the VMs that use a place, as the model notes them.
USERS = "users"
_KEPT = (
    "name",
    "description",
    "specificReservation",
    "aggregateReservation",
    "deploymentType",
    "schedulingType",
    "shareSettings",
    "deleteAtTime",
)


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Set VMs or chips aside in a zone."""
    zone, wanted = catalog.zone_of(cloud, call), call.json()
    name = str(wanted.get("name") or "")
    if not links.NAME.fullmatch(name):
        raise invalid("name", name, f"Must be a match of regex '{links.NAME.pattern}'")
    if f"zones/{zone}/{name}" in cloud.around.compute_reservations:
        raise already_exists(_resource(cloud, zone, name))
    _check(zone, wanted)
    reservation = {
        **{key: wanted[key] for key in _KEPT if key in wanted},
        "specificReservationRequired": bool(wanted.get("specificReservationRequired")),
        "id": operations.number(),
        "creationTimestamp": operations.written(cloud.clock.now()),
        "zone": zone,
        USERS: [],
    }
    _put(cloud, reservation)
    return _begin(cloud, "insert", reservation)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one reservation."""
    return show(cloud, _reservation(cloud, call))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the reservations of a zone."""
    zone = catalog.zone_of(cloud, call)
    shown = [show(cloud, r) for r in cloud.around.compute_reservations if r["zone"] == zone]
    place = f"zones/{zone}/{COLLECTION}"
    return lists.page(cloud, call, "compute#reservationList", place, shown)


def aggregated(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the reservations of all zones."""
    shown = [(f"zones/{r['zone']}", show(cloud, r)) for r in cloud.around.compute_reservations]
    kind = "compute#reservationAggregatedList"
    return lists.aggregated(cloud, call, kind, COLLECTION, catalog.all_zones(), shown)


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a reservation that no VM uses."""
    reservation = _reservation(cloud, call)
    zone, name = reservation["zone"], reservation["name"]
    if reservation[USERS]:
        raise in_use("reservation", _resource(cloud, zone, name), reservation[USERS][0])
    cloud.around.compute_reservations.drop(f"zones/{zone}/{name}")
    return _begin(cloud, "delete", reservation)


def show(cloud: Cloud, reservation: dict[str, Any]) -> dict[str, Any]:
    """Return a reservation as the API shows it."""
    zone, name = reservation["zone"], reservation["name"]
    shown = {key: value for key, value in reservation.items() if key != USERS}
    if "specificReservation" in shown:
        specific = shown["specificReservation"]
        used = str(len(reservation[USERS]))
        shown["specificReservation"] = {
            **specific,
            "assuredCount": specific["count"],
            "inUseCount": used,
        }
    return {
        **shown,
        "kind": "compute#reservation",
        "status": "READY",
        "zone": operations.link(cloud, f"zones/{zone}"),
        "selfLink": operations.link(cloud, f"zones/{zone}/{COLLECTION}/{name}"),
    }


def _check(zone: str, wanted: dict[str, Any]) -> None:
    specific: dict[str, Any] = wanted.get("specificReservation") or {}
    aggregate: dict[str, Any] = wanted.get("aggregateReservation") or {}
    if bool(specific) == bool(aggregate):
        text = "Exactly one of specificReservation and aggregateReservation must be specified."
        raise ComputeError(400, "invalid", text)
    if aggregate:
        if not aggregate.get("vmFamily"):
            raise invalid("aggregateReservation.vmFamily", "", "The VM family must be specified.")
        return
    if int(specific.get("count") or 0) < 1:
        field = "specificReservation.count"
        raise invalid(field, specific.get("count", "0"), "Must be greater than or equal to 1.")
    field = "specificReservation.instanceProperties.machineType"
    value = (specific.get("instanceProperties") or {}).get("machineType", "")
    catalog.machine_type_for(field, zone, value)


def _put(cloud: Cloud, reservation: dict[str, Any]) -> None:
    key = f"zones/{reservation['zone']}/{reservation['name']}"
    cloud.around.compute_reservations.put(key, reservation)


def _reservation(cloud: Cloud, call: Call) -> dict[str, Any]:
    zone, name = catalog.zone_of(cloud, call), call["id"]
    found = cloud.around.compute_reservations.get(f"zones/{zone}/{name}")
    if found is None:
        raise not_found(_resource(cloud, zone, name))
    return found


def _resource(cloud: Cloud, zone: str, name: str) -> str:
    return f"projects/{cloud.project}/zones/{zone}/{COLLECTION}/{name}"


def _begin(cloud: Cloud, kind: str, reservation: dict[str, Any]) -> dict[str, Any]:
    scope = f"zones/{reservation['zone']}"
    target = f"{scope}/{COLLECTION}/{reservation['name']}"
    return operations.begin(cloud, kind, target, scope, reservation["id"])


_OF_ZONE = "/zones/{zone}/reservations"
METHODS = [
    method("GET", "/aggregated/reservations", "reservations.aggregatedList", aggregated),
    method("GET", _OF_ZONE, "reservations.list", listed),
    method("POST", _OF_ZONE, "reservations.insert", insert),
    method("GET", _OF_ZONE + "/{id}", "reservations.get", get),
    method("DELETE", _OF_ZONE + "/{id}", "reservations.delete", delete),
]
