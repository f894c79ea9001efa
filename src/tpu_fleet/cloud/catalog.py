"""Which zones, accelerator types and runtime versions the local cloud offers."""

from __future__ import annotations

from ansible_collections.tpu.fleet.plugins.module_utils._accelerators import (
    ACCELERATOR_TYPES,
    API_ENUM,
    RUNTIMES_BY_GENERATION,
    AcceleratorType,
)

# Source: Google's page of TPU regions and zones.
ZONES: dict[str, tuple[str, ...]] = {
    "asia-east1-c": ("v2",),
    "asia-northeast1-b": ("v6e",),
    "europe-west4-a": ("v2", "v3", "v6e"),
    "europe-west4-b": ("v5e", "v5p"),
    "southamerica-west1-a": ("v6e",),
    "us-central1-a": ("v2", "v3", "v5e", "v5p"),
    "us-central1-b": ("v2", "v3", "v6e"),
    "us-central1-c": ("v2",),
    "us-central1-f": ("v2",),
    "us-central2-b": ("v4",),
    "us-east1-c": ("v5e",),
    "us-east1-d": ("v6e",),
    "us-east5-a": ("v5e", "v5p", "v6e"),
    "us-east5-b": ("v5e", "v6e"),
    "us-south1-a": ("v5e",),
    "us-west1-c": ("v5e",),
    "us-west4-a": ("v5e",),
}


def types_in(zone: str) -> list[AcceleratorType]:
    """Return the types that a zone offers."""
    offered = ZONES.get(zone, ())
    return [kind for kind in ACCELERATOR_TYPES.values() if kind.generation in offered]


def type_in(zone: str, name: str) -> AcceleratorType | None:
    """Return a type if the zone offers it."""
    return next((kind for kind in types_in(zone) if kind.name == name), None)


def type_of_config(zone: str, enum: str, topology: str) -> AcceleratorType | None:
    """Return the type that a chip generation and a topology make, if the zone offers it."""
    return next(
        (k for k in types_in(zone) if API_ENUM[k.generation] == enum and k.topology == topology),
        None,
    )


def runtimes_in(zone: str) -> list[str]:
    """Return the runtime versions that a zone offers; what fits a type is the user's business."""
    versions = {v for g in ZONES.get(zone, ()) for v in RUNTIMES_BY_GENERATION[g]}
    # The API takes a version that the hardware of the zone cannot use; the failure comes in the VM.
    versions.update(v[0] for v in RUNTIMES_BY_GENERATION.values())
    return sorted(versions)
