"""Advice where and when a future reservation in calendar mode would be granted: here, at once."""

from __future__ import annotations

import uuid
from typing import Any

from ..compute_errors import invalid
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared import catalog as places
from ..model.shared.clock import seconds_of, timestamp
from . import catalog
from .future_reservations import has_family
from .methods import method

Document = dict[str, Any]


def calendar_mode(cloud: Cloud, call: Call) -> Document:
    """Recommend the first zone of the region that has the chips, from the first moment on."""
    region, specs = catalog.region_of(cloud, call), call.json().get("futureResourcesSpecs") or {}
    if len(specs) != 1:
        raise invalid("futureResourcesSpecs", len(specs), "Exactly one must be specified.")
    per_spec = {name: _recommended(cloud, region, spec) for name, spec in specs.items()}
    return {"recommendations": [{"recommendationsPerSpec": per_spec}]}


def _recommended(cloud: Cloud, region: str, spec: Document) -> Document:
    target = (spec.get("targetResources") or {}).get("aggregateResources") or {}
    family = str(target.get("vmFamily") or "")
    if not family:
        field = "futureResourcesSpecs[].targetResources.aggregateResources.vmFamily"
        raise invalid(field, "", "The VM family must be specified.")
    said = (spec.get("locationPolicy") or {}).get("locations") or {}
    denied = {zone for zone, how in said.items() if how.get("preference") == "DENY"}
    zones = [zone for zone in places.ALL_ZONES if zone.rpartition("-")[0] == region]
    open_to_it = [
        z for z in zones if has_family(z, family) and denied.isdisjoint({z, f"zones/{z}"})
    ]
    shown: Document = {
        "recommendationId": str(uuid.uuid4()),
        "recommendationType": "FUTURE_RESERVATION",
        "otherLocations": {
            f"zones/{zone}": {"status": "RECOMMENDED" if zone in open_to_it else "NOT_SUPPORTED"}
            for zone in zones
            if zone not in open_to_it[:1]
        },
    }
    if open_to_it:
        times: Document = spec.get("timeRangeSpec") or {}
        first = times.get("startTimeNotEarlierThan")
        begins = seconds_of(first) if first else cloud.clock.now()
        length = float(str(times.get("maxDuration") or times.get("minDuration") or "86400s")[:-1])
        shown |= {
            "location": f"zones/{open_to_it[0]}",
            "startTime": timestamp(begins),
            "endTime": timestamp(begins + length),
        }
    return shown


METHODS = [
    method("POST", "/regions/{region}/advice/calendarMode", "advice.calendarMode", calendar_mode)
]
