"""Future reservations. In calendar mode they become a reservation for some days by themselves.

Source: https://docs.cloud.google.com/tpu/docs/calendar-mode-reservation. In the other mode people
at Google decide, so that such a request stays in review here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ..compute_errors import already_exists, bad, invalid
from ..google.answers import Call
from ..google.operations import link, written
from ..model.cloud import Cloud
from ..model.compute.records import seconds
from ..model.shared.clock import seconds_of
from . import catalog, instance_request, reservations
from .kept import Document, Kept, kept
from .methods import methods
from .reservations import RESERVATIONS

COLLECTION = "futureReservations"
CALENDAR = "CALENDAR"
DAY = 86400.0
SHORTEST, LONGEST = DAY, 90 * DAY
# How many chips a request in calendar mode may be for.
CHIPS = (1, *(2**power for power in range(2, 11)))
_KEPT = (
    *("aggregateReservation", "autoDeleteAutoCreatedReservations", "deploymentType"),
    *("description", "namePrefix", "schedulingType", "shareSettings"),
    *("specificReservationRequired", "specificSkuProperties"),
)


def _read(cloud: Cloud, scope: str, wanted: Document) -> Document:
    zone = scope.partition("/")[2]
    reservations.check(zone, wanted, "specificSkuProperties")
    begins, ends = _window(wanted.get("timeWindow") or {})
    mode = wanted.get("reservationMode") or "DEFAULT"
    status = wanted.get("planningStatus") or "DRAFT"
    document: Document = {
        **kept(wanted, *_KEPT),
        "reservationMode": mode,
        "planningStatus": status,
        "timeWindow": {"startTime": written(begins), "endTime": written(ends)},
        "cancelled": False,
    }
    if begins < cloud.clock.now():
        raise invalid("timeWindow.startTime", written(begins), "It must be in the future.")
    if mode == CALENDAR:
        _check_calendar(zone, wanted, ends - begins)
        day = datetime.fromtimestamp(begins, UTC).strftime("%Y%m%d")
        prefix = wanted.get("namePrefix") or wanted["name"]
        name = str(wanted.get("reservationName") or f"{prefix[:20].rstrip('-')}-{day}-0001")
        instance_request.check_name(name, "reservationName")
        document["reservationName"] = name
        if cloud.around.compute_reservations.get(f"{scope}/{name}"):
            raise already_exists(f"projects/{cloud.project}/{scope}/reservations/{name}")
    return document


def _window(asked: Document) -> tuple[float, float]:
    begins = _moment("timeWindow.startTime", asked.get("startTime"))
    length = seconds(asked.get("duration"))
    if (length is None) == ("endTime" not in asked):
        why = "Exactly one of endTime and duration must be specified."
        raise invalid("timeWindow", asked, why)
    ends = begins + length if length else _moment("timeWindow.endTime", asked.get("endTime"))
    if ends <= begins:
        raise invalid("timeWindow.endTime", written(ends), "It must be after the start time.")
    return begins, ends


def _moment(field: str, value: Any) -> float:
    try:
        return seconds_of(str(value))
    except (TypeError, ValueError):
        raise invalid(field, value or "", "It must be a time of RFC 3339.") from None


def _check_calendar(zone: str, wanted: Document, length: float) -> None:
    """Raise for what calendar mode does not offer."""
    if not SHORTEST <= length <= LONGEST:
        why = "In calendar mode it must be from 1 to 90 days."
        raise invalid("timeWindow", f"{length:g}s", why)
    aggregate = wanted.get("aggregateReservation")
    if not aggregate:
        return
    family = str(aggregate["vmFamily"])
    if not has_family(zone, family):
        why = f"The VM family is not available in {zone}."
        raise invalid("aggregateReservation.vmFamily", family, why)
    chips = reserved_chips(aggregate)
    if chips not in CHIPS:
        why = f"In calendar mode it must be one of {', '.join(map(str, CHIPS))}."
        field = "aggregateReservation.reservedResources[0].accelerator.acceleratorCount"
        raise invalid(field, chips, why)


def reserved_chips(aggregate: Document) -> int:
    """Return how many chips are reserved."""
    resources = aggregate.get("reservedResources") or []
    return sum(int((each.get("accelerator") or {}).get("acceleratorCount") or 0)
               for each in resources)  # fmt: skip


def has_family(zone: str, family: str) -> bool:
    """Return whether a zone offers machine types of a family such as VM_FAMILY_…_CT6E."""
    short = family.rpartition("_")[2].lower()
    return any(name.partition("-")[0] == short for name in catalog.machine_types_in(zone))


def _made(cloud: Cloud, asked: Document) -> None:
    if asked["reservationMode"] == CALENDAR and asked["planningStatus"] == "SUBMITTED":
        name = asked["reservationName"]
        RESERVATIONS.put(cloud, reservations.of_window(asked, name, *_times(asked)))


def _times(asked: Document) -> tuple[float, float]:
    window = asked["timeWindow"]
    return seconds_of(window["startTime"]), seconds_of(window["endTime"])


def _status(cloud: Cloud, asked: Document) -> str:
    if asked["cancelled"]:
        return "CANCELLED"
    if asked["planningStatus"] != "SUBMITTED":
        return "DRAFTING"
    if asked["reservationMode"] != CALENDAR:
        return "PENDING_APPROVAL"
    return "APPROVED" if cloud.clock.now() < _times(asked)[0] else "FULFILLED"


def _show(cloud: Cloud, asked: Document) -> Document:
    status: Document = {"procurementStatus": _status(cloud, asked)}
    if status["procurementStatus"] == "FULFILLED":
        made = f"{asked['scope']}/{reservations.COLLECTION}/{asked['reservationName']}"
        status["autoCreatedReservations"] = [link(cloud, made)]
    return {"status": status}


def _refuse_deletion(cloud: Cloud, asked: Document) -> None:
    if _status(cloud, asked) in ("APPROVED", "FULFILLED"):
        raise bad(
            f"The future reservation '{asked['name']}' is in calendar mode and has been submitted: "
            "it can be neither cancelled nor deleted."
        )


def cancel(cloud: Cloud, call: Call) -> Document:
    """Cancel a request that is not granted yet."""
    asked = FUTURE.named(cloud, call)
    _refuse_deletion(cloud, asked)
    FUTURE.put(cloud, {**asked, "cancelled": True})
    return FUTURE.begin(cloud, "cancel", asked)


FUTURE = Kept(
    COLLECTION,
    "future_reservations",
    "compute#futureReservation",
    {"zones": COLLECTION},
    _read,
    _show,
    _refuse_deletion,
    _made,
)
METHODS = [*FUTURE.methods(), *methods({f"{COLLECTION}.cancel": cancel})]
