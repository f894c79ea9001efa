"""Reservations: VMs of one machine type, or chips of one family, that are set aside."""

from __future__ import annotations

from ..compute_errors import ComputeError, in_use, invalid
from ..google.operations import written
from ..model.cloud import Cloud
from ..model.compute.reservations import chips_of
from . import catalog
from .kept import Document, Kept, kept

COLLECTION = "reservations"
# In what is stored: the VMs that use a place, as the model notes them.
USERS = "users"
_KEPT = (
    *("description", "specificReservation", "aggregateReservation", "deploymentType"),
    *("schedulingType", "shareSettings", "deleteAtTime"),
)


def _read(_cloud: Cloud, scope: str, wanted: Document) -> Document:
    check(scope.partition("/")[2], wanted)
    required = bool(wanted.get("specificReservationRequired"))
    return {**kept(wanted, *_KEPT), "specificReservationRequired": required, USERS: []}


def check(zone: str, wanted: Document, what: str = "specificReservation") -> None:
    """Raise for what cannot be set aside; `what` is the field for VMs of one type."""
    specific: Document = wanted.get(what) or {}
    aggregate: Document = wanted.get("aggregateReservation") or {}
    if bool(specific) == bool(aggregate):
        text = f"Exactly one of {what} and aggregateReservation must be specified."
        raise ComputeError(400, "invalid", text)
    if aggregate:
        if not aggregate.get("vmFamily"):
            raise invalid("aggregateReservation.vmFamily", "", "The VM family must be specified.")
        return
    count = "count" if what == "specificReservation" else "totalCount"
    if int(specific.get(count) or 0) < 1:
        why = "Must be greater than or equal to 1."
        raise invalid(f"{what}.{count}", specific.get(count, "0"), why)
    value = (specific.get("instanceProperties") or {}).get("machineType", "")
    catalog.machine_type_for(f"{what}.instanceProperties.machineType", zone, value)


def of_window(asked: Document, name: str, begins: float, ends: float) -> Document:
    """Return the reservation that a future one becomes: it begins and ends by itself."""
    document: Document = {
        "name": name,
        "scope": asked["scope"],
        "id": str(int(asked["id"]) + 1),
        "creationTimestamp": written(begins),
        "deleteAtTime": written(ends),
        "specificReservationRequired": True,
        USERS: [],
        "begins": begins,
        "ends": ends,
        **kept(asked, "aggregateReservation", "deploymentType", "schedulingType", "shareSettings"),
    }
    if "specificSkuProperties" in asked:
        specific = asked["specificSkuProperties"]
        properties = kept(specific, "instanceProperties")
        document["specificReservation"] = {"count": specific["totalCount"], **properties}
    return document


def _show(cloud: Cloud, reservation: Document) -> Document:
    shown: Document = {"status": "READY"}
    if "specificReservation" in reservation:
        specific = reservation["specificReservation"]
        counts = {"assuredCount": specific["count"], "inUseCount": str(len(reservation[USERS]))}
        shown["specificReservation"] = {**specific, **counts}
    elif reservation[USERS]:
        accelerator = {"acceleratorCount": chips_of(cloud, reservation[USERS])}
        used = {"inUseResources": [{"accelerator": accelerator}]}
        shown["aggregateReservation"] = {**reservation["aggregateReservation"], **used}
    return shown


def _refuse_deletion(cloud: Cloud, reservation: Document) -> None:
    if reservation[USERS]:
        full = f"projects/{cloud.project}/{RESERVATIONS.tail(reservation)}"
        raise in_use("reservation", full, reservation[USERS][0])


RESERVATIONS = Kept(
    COLLECTION,
    "compute_reservations",
    "compute#reservation",
    {"zones": COLLECTION},
    _read,
    _show,
    _refuse_deletion,
)
METHODS = RESERVATIONS.methods()
