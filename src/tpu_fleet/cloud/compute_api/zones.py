"""Zones in which Compute Engine offers TPUs.

Source: https://docs.cloud.google.com/tpu/docs/regions-zones
"""

from __future__ import annotations

from ..compute_errors import ComputeError
from ..model import catalog

_ONLY_HERE = {"us-central1-c": ("tpu7x",), "us-central1-ai1a": ("tpu7x",)}
# The generations of each zone that Compute Engine can create.
ZONES: dict[str, tuple[str, ...]] = {
    zone: (
        *(each for each in catalog.ZONES.get(zone, ()) if each in ("v5p", "v6e")),
        *_ONLY_HERE.get(zone, ()),
    )
    for zone in sorted({*catalog.ZONES, *_ONLY_HERE})
}


def known(zone: str) -> str:
    """Return a zone that exists, or raise."""
    if zone not in ZONES:
        text = f"Invalid value for field 'zone': '{zone}'. Unknown zone."
        raise ComputeError(400, "invalid", text)
    return zone
