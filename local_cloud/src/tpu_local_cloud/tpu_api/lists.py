"""Lists of resources in one zone or in all, with the unreachable zones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ..model.cloud import Cloud
from ..model.shared import catalog
from . import list_filter
from .call import Call, paged

# Prefix of the token of a page after an empty one, which is not empty again.
_FULL = "full-"


class Zoned(Protocol):
    """A resource in a zone."""

    zone: str
    name: str


Item = TypeVar("Item")
ZonedItem = TypeVar("ZonedItem", bound=Zoned)


def zoned_page(
    cloud: Cloud,
    call: Call,
    items: Sequence[ZonedItem],
    key: str,
    show: Callable[[ZonedItem], Any],
) -> dict[str, Any]:
    """Return one page, without unreachable zones, which the answer names.

    Items are ordered by zone and name, and a page starts after the last item of the one before, so
    changes between two pages shift nothing.
    """
    lost = lost_zones(cloud, call)
    found = [item for item in items if item.zone not in lost]
    answer = fault_page(cloud, call, found, key, show, lambda item: f"{item.zone}/{item.name}")
    return name_lost(cloud, answer, lost)


def name_lost(cloud: Cloud, answer: dict[str, Any], lost: list[str]) -> dict[str, Any]:
    """Return an answer that names the unreachable zones."""
    parent = f"projects/{cloud.project}/locations"
    return {**answer, "unreachable": [f"{parent}/{zone}" for zone in lost]} if lost else answer


def lost_zones(cloud: Cloud, call: Call) -> list[str]:
    """Return the unreachable zones of a list."""
    if not len(cloud.faults):
        return []
    zones = list(catalog.ZONES) if call.zone == "-" else [call.zone]
    now = cloud.clock.now()
    return [z for z in zones if cloud.faults.hit("unreachable", now, zone=z, method=call.method)]


def fault_page(
    cloud: Cloud,
    call: Call,
    items: Sequence[Item],
    key: str,
    show: Callable[[Item], Any],
    place: Callable[[Item], str] | None = None,
) -> dict[str, Any]:
    """Return one page of the items that match the filter; faults make it small or empty."""
    size, token = call.argument("pageSize"), call.argument("pageToken")
    items = list_filter.kept(call.argument("filter"), call.argument("orderBy"), items, show)
    if len(cloud.faults):
        now, where = cloud.clock.now(), {"zone": call.zone, "method": call.method}
        small = cloud.faults.hit("page_size", now, **where)
        if small:
            largest = int(small.options.get("size", 1))
            size = str(min(int(size), largest)) if size.isdigit() and int(size) else str(largest)
        if not token.startswith(_FULL) and cloud.faults.hit("empty_page", now, **where):
            return {"nextPageToken": _FULL + token}
    return paged(size, token.removeprefix(_FULL), items, key, show, place, call.listed)
