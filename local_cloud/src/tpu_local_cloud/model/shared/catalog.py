"""Zones, accelerator types and runtime versions that the local cloud offers."""

from __future__ import annotations

from dataclasses import replace

from ...tables._schema.accelerators import (
    ACCELERATOR_TYPES,
    API_ENUM,
    RUNTIMES_BY_GENERATION,
    AcceleratorType,
    topologies,
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
# Where Compute Engine has TPUs that a user may create. Sources: the same page, and the zones of
# flex-start VMs. Machine types of v5e are listed in its zones, and refused.
COMPUTE_ZONES: dict[str, tuple[str, ...]] = {
    "asia-northeast1-b": ("v6e",),
    "europe-west4-a": ("v6e",),
    "southamerica-west1-a": ("v6e",),
    "us-central1-a": ("v5p", "v6e"),
    "us-central1-ai1a": ("tpu7x",),
    "us-central1-b": ("v6e",),
    "us-central1-c": ("tpu7x",),
    "us-east1-d": ("v6e",),
    "us-east5-a": ("v5p", "v6e"),
    "us-east5-b": ("v6e",),
    "us-south1-ai1b": ("v6e",),
}
# Google's regions, with two things of each: the X of its automatic subnetworks' range, 10.X.0.0/20,
# and the last letters of its zones that every project sees in a list and none may use here.
# Source of the ranges: Google's page about auto mode networks, and for us-central2 the addresses of
# TPUs there.
_REGIONS = {
    "africa-south1": (218, "abc"),
    "asia-east1": (140, "ab"),
    "asia-east2": (170, "abc"),
    "asia-northeast1": (146, "ac"),
    "asia-northeast2": (174, "abc"),
    "asia-northeast3": (178, "abc"),
    "asia-south1": (160, "abc"),
    "asia-south2": (190, "abc"),
    "asia-southeast1": (148, "abc"),
    "asia-southeast2": (184, "abc"),
    "australia-southeast1": (152, "abc"),
    "australia-southeast2": (192, "abc"),
    "europe-central2": (186, "abc"),
    "europe-north1": (166, "abc"),
    "europe-north2": (226, "abc"),
    "europe-southwest1": (204, "abc"),
    "europe-west1": (132, "bcd"),
    "europe-west10": (214, "abc"),
    "europe-west12": (210, "abc"),
    "europe-west2": (154, "abc"),
    "europe-west3": (156, "abc"),
    "europe-west4": (164, "c"),
    "europe-west6": (172, "abc"),
    "europe-west8": (198, "abc"),
    "europe-west9": (200, "abc"),
    "me-central1": (212, "abc"),
    "me-central2": (216, "abc"),
    "me-west1": (208, "abc"),
    "northamerica-northeast1": (162, "abc"),
    "northamerica-northeast2": (188, "abc"),
    "northamerica-south1": (224, "abc"),
    "southamerica-east1": (158, "abc"),
    "southamerica-west1": (194, "bc"),
    "us-central1": (128, ""),
    "us-central2": (130, "acd"),
    "us-east1": (142, "b"),
    "us-east4": (150, "abc"),
    "us-east5": (202, "c"),
    "us-south1": (206, "bc"),
    "us-west1": (138, "ab"),
    "us-west2": (168, "abc"),
    "us-west3": (180, "abc"),
    "us-west4": (182, "bc"),
}
LISTED_ZONES = sorted(
    {*ZONES, *(f"{r}-{letter}" for r, (_, closed) in _REGIONS.items() for letter in closed)}
)
# The zones that Compute Engine lists, and their regions.
ALL_ZONES: tuple[str, ...] = tuple(sorted({*LISTED_ZONES, *COMPUTE_ZONES}))
REGIONS: tuple[str, ...] = tuple(sorted({zone.rpartition("-")[0] for zone in ALL_ZONES}))
# TensorFlow releases with runtime versions.
_TENSORFLOW = (
    *("2.6.5", "2.7.3", "2.8.0", "2.8.3", "2.9.1", "2.9.3", "2.10.0", "2.10.1", "2.11.0", "2.11.1"),
    *("2.12.0", "2.12.1", "2.13.0", "2.13.1", "2.14.0", "2.14.1", "2.15.0", "2.15.1", "2.16.0"),
    *("2.16.1", "2.17.0", "2.17.1", "2.18.0", "2.19.0"),
)


def _tensorflow_runtimes() -> list[str]:
    """Return tpu-vm-tf-x.y.z[-pod][-device], by Google's rule for the device."""
    found = []
    for release in _TENSORFLOW:
        number = tuple(map(int, release.split(".")))
        devices = ["-pjrt", "-se"] if number >= (2, 15) else [""]
        devices += ["-v4"] if number <= (2, 10, 0) else []
        found += [f"tpu-vm-tf-{release}{pod}{d}" for pod in ("", "-pod") for d in devices]
    return found


TENSORFLOW_RUNTIMES = _tensorflow_runtimes()


def range_in(region: str) -> str:
    """Return the range of a region's automatic subnetwork."""
    return f"10.{_REGIONS[region][0]}.0.0/20"


def types_in(zone: str) -> list[AcceleratorType]:
    """Return the types that a zone offers."""
    offered = ZONES.get(zone, ())
    return [kind for kind in ACCELERATOR_TYPES.values() if kind.generation in offered]


def type_in(zone: str, name: str) -> AcceleratorType | None:
    """Return a type if the zone offers it."""
    return next((kind for kind in types_in(zone) if kind.name == name), None)


def type_of_config(zone: str, enum: str, topology: str) -> AcceleratorType | None:
    """Return the type of a chip generation and a topology, if the zone offers it."""
    for kind in types_in(zone):
        if API_ENUM[kind.generation] == enum and topology in topologies(kind):
            return replace(kind, topology=topology)
    return None


def runtimes_in(zone: str) -> list[str]:
    """Return the runtime versions that a zone offers, for any type."""
    versions = {v for g in ZONES.get(zone, ()) for v in RUNTIMES_BY_GENERATION[g]}
    # The API accepts a version that the zone's hardware cannot use; only the VM fails.
    versions.update(v[0] for v in RUNTIMES_BY_GENERATION.values())
    versions.update(TENSORFLOW_RUNTIMES)
    return sorted(versions)
