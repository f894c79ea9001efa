"""What Compute Engine offers: zones and regions, TPU machine types, and their images."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from ..compute_errors import ComputeError, invalid, invalid_at, not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared import catalog
from ..tables._compute.machine_types import IMAGE_PROJECT, MACHINE_TYPES, MachineType, machine_type
from . import links, lists
from .methods import methods

# Of a disk that a request leaves open: the size of the image.
BOOT_DISK_GB = 10
# Machine types of v5e: listed, and refused except for GKE. vCPUs, GiB, chips.
CLOSED = {
    "ct5lp-hightpu-1t": (24, 48, 1),
    "ct5lp-hightpu-4t": (112, 192, 4),
    "ct5lp-hightpu-8t": (224, 384, 8),
}
# A new build each week deprecates the one before.
_BUILDS = ("v20261020", "v20261013")
_IMAGE = re.compile(
    rf"(?:https?://[^/]+/)?(?:compute/(?:v1|beta|alpha)/)?projects/{IMAGE_PROJECT}/"
    r"(?P<place>global/images|global/images/family|zones/[^/]+/imageFamilyViews)/(?P<name>[^/]+)"
)
_FAMILIES = tuple(sorted({kind.image_family for kind in MACHINE_TYPES.values()}))


@dataclass(frozen=True)
class _Shape:
    vcpus: int
    memory_gib: int
    chips: int


def machine_types_in(zone: str) -> list[str]:
    """Return the names of the TPU machine types that a zone lists, those that are refused too."""
    offered = catalog.COMPUTE_ZONES.get(zone, ())
    names = [name for name, kind in MACHINE_TYPES.items() if kind.generation in offered]
    names += [f"{name}-tpu" for name in names]
    if "v5e" in catalog.ZONES.get(zone, ()):
        names += CLOSED
    return sorted(names)


def machine_type_for(field: str, zone: str, value: str) -> MachineType:
    """Return the machine type in a field of a request for a VM, by its name or link."""
    name = value.rpartition("/")[2]
    link = links.read(value)
    elsewhere = link is not None and link.scope != f"zones/{zone}"
    if name not in machine_types_in(zone) or elsewhere:
        raise invalid(field, value, "The referenced resource does not exist.")
    known = machine_type(name)
    if known is None:
        text = f"This user agent is not allowed to use the machine type [{name}]."
        raise ComputeError(400, "badRequest", text)
    return known


def get_machine_type(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one machine type of a zone."""
    zone, name = zone_of(cloud, call), call["id"]
    if name not in machine_types_in(zone):
        raise not_found(f"projects/{cloud.project}/zones/{zone}/machineTypes/{name}")
    return _machine_type(cloud, zone, name)


def list_machine_types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the machine types of a zone."""
    zone = zone_of(cloud, call)
    shown = [_machine_type(cloud, zone, name) for name in machine_types_in(zone)]
    return lists.page(cloud, call, f"zones/{zone}/machineTypes", shown)


def all_machine_types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the machine types of all zones."""
    shown = [
        (f"zones/{zone}", _machine_type(cloud, zone, name))
        for zone in catalog.ALL_ZONES
        for name in machine_types_in(zone)
    ]
    return lists.aggregated(cloud, call, "machineTypes", shown)


def list_accelerator_types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List no accelerator types: TPUs are part of their machine types."""
    zone = zone_of(cloud, call)
    return lists.page(cloud, call, f"zones/{zone}/acceleratorTypes", [])


def all_accelerator_types(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List no accelerator types in any zone."""
    return lists.aggregated(cloud, call, "acceleratorTypes", [])


def list_zones(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the zones."""
    shown = [_zone(cloud, zone) for zone in catalog.ALL_ZONES]
    return lists.page(cloud, call, "zones", shown)


def get_zone(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one zone."""
    if call["zone"] not in catalog.ALL_ZONES:
        raise not_found(f"projects/{cloud.project}/zones/{call['zone']}")
    return _zone(cloud, call["zone"])


def list_regions(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the regions."""
    shown = [_region(cloud, region) for region in catalog.REGIONS]
    return lists.page(cloud, call, "regions", shown)


def get_region(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one region."""
    if call["region"] not in catalog.REGIONS:
        raise not_found(f"projects/{cloud.project}/regions/{call['region']}")
    return _region(cloud, call["region"])


def list_images(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the public images; the cloud's project has none of its own."""
    shown = [] if call["project"] else _images()
    answer = lists.page(cloud, call, "global/images", shown)
    if call["project"]:
        return answer
    of = f"projects/{IMAGE_PROJECT}/global/images"
    return {**answer, "id": of, "selfLink": f"{operations.LINKS}/{of}"}


def get_image(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one image."""
    return _found(cloud, call, f"global/images/{call['id']}")


def get_image_of_family(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the newest image of a family."""
    return _found(cloud, call, f"global/images/family/{call['id']}")


def get_image_family_view(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the newest image of a family as a zone sees it."""
    tail = f"zones/{call['zone']}/imageFamilyViews/{call['id']}"
    if call["zone"] != "-":
        zone_of(cloud, call)
    return {"image": _found(cloud, call, tail)}


def image(url: str) -> dict[str, Any] | None:
    """Return the image that a request names by itself or by its family; None if there is none."""
    match = _IMAGE.fullmatch(url)
    if match is None:
        return None
    of_family = match["place"] != "global/images"
    known = (each for each in _images() if match["name"] == each["family" if of_family else "name"])
    return next(known, None)


def zone_of(cloud: Cloud, call: Call) -> str:
    """Return the zone of a request, which has to exist."""
    if call["zone"] not in catalog.ALL_ZONES:
        raise invalid_at("zone", call["zone"], "Unknown zone.")
    return call["zone"]


def region_of(cloud: Cloud, call: Call) -> str:
    """Return the region of a request, which has to exist."""
    if call["region"] not in catalog.REGIONS:
        raise invalid_at("region", call["region"], "Unknown region.")
    return call["region"]


def scope_of(cloud: Cloud, call: Call) -> str:
    """Return where a request points: `global`, `regions/R` or `zones/Z`, which has to exist."""
    if call["zone"]:
        return f"zones/{zone_of(cloud, call)}"
    return f"regions/{region_of(cloud, call)}" if call["region"] else "global"


def stable_id(*words: str) -> str:
    """Return the id of something that Google made: always the same."""
    digest = hashlib.sha256("/".join(words).encode()).digest()
    return str(int.from_bytes(digest[:8], "big") >> 1 | 1 << 60)


def _shape(name: str) -> _Shape:
    known = machine_type(name)
    if known is None:
        return _Shape(*CLOSED[name])
    return _Shape(known.vcpus, known.memory_gib, known.chips)


def _machine_type(cloud: Cloud, zone: str, name: str) -> dict[str, Any]:
    shape = _shape(name)
    return {
        "kind": "compute#machineType",
        "id": stable_id(zone, name),
        "creationTimestamp": "1969-12-31T16:00:00.000-08:00",
        "name": name,
        "description": f"{shape.vcpus} vCPUs {shape.memory_gib} GB RAM",
        "guestCpus": shape.vcpus,
        "memoryMb": shape.memory_gib * 1024,
        "maximumPersistentDisks": 128,
        "maximumPersistentDisksSizeGb": "263168",
        "isSharedCpu": False,
        "architecture": "X86_64",
        "accelerators": [
            {
                "guestAcceleratorType": name.partition("-")[0],
                "guestAcceleratorCount": shape.chips,
            }
        ],
        "zone": zone,
        "selfLink": operations.link(cloud, f"zones/{zone}/machineTypes/{name}"),
    }


def _zone(cloud: Cloud, name: str) -> dict[str, Any]:
    return {
        "kind": "compute#zone",
        "id": stable_id(name),
        "name": name,
        "description": name,
        "status": "UP",
        "region": operations.link(cloud, f"regions/{name.rpartition('-')[0]}"),
        "selfLink": operations.link(cloud, f"zones/{name}"),
    }


def _region(cloud: Cloud, name: str) -> dict[str, Any]:
    zones = [zone for zone in catalog.ALL_ZONES if zone.rpartition("-")[0] == name]
    return {
        "kind": "compute#region",
        "id": stable_id(name),
        "name": name,
        "description": name,
        "status": "UP",
        "zones": [operations.link(cloud, f"zones/{zone}") for zone in zones],
        # Of TPUs a region lists these alone; the quotas of newer ones are in another API.
        "quotas": [{"metric": "TPU_LITE_PODSLICE_V5", "limit": 32.0, "usage": 0.0}],
        "selfLink": operations.link(cloud, f"regions/{name}"),
    }


def _images() -> list[dict[str, Any]]:
    return [_image(family, build) for family in _FAMILIES for build in _BUILDS]


def _image(family: str, build: str) -> dict[str, Any]:
    day = f"{build[1:5]}-{build[5:7]}-{build[7:]}"
    shown: dict[str, Any] = {
        "kind": "compute#image",
        "id": stable_id(family, build),
        "creationTimestamp": f"{day}T03:00:00.000-07:00",
        "name": f"{family}-{build}",
        "family": family,
        "status": "READY",
        "sourceType": "RAW",
        "diskSizeGb": str(BOOT_DISK_GB),
        "architecture": "X86_64",
        "guestOsFeatures": [{"type": "GVNIC"}, {"type": "UEFI_COMPATIBLE"}],
        "selfLink": _image_link(family, build),
    }
    if build != _BUILDS[0]:
        replacement = _image_link(family, _BUILDS[0])
        shown["deprecated"] = {"state": "DEPRECATED", "replacement": replacement}
    return shown


def _image_link(family: str, build: str) -> str:
    return f"{operations.LINKS}/projects/{IMAGE_PROJECT}/global/images/{family}-{build}"


def _found(cloud: Cloud, call: Call, tail: str) -> dict[str, Any]:
    place = f"projects/{cloud.project if call['project'] else IMAGE_PROJECT}/{tail}"
    found = image(place)
    if found is None:
        raise not_found(place)
    return found


_IMAGE_HANDLERS = {
    "images.list": list_images,
    "images.get": get_image,
    "images.getFromFamily": get_image_of_family,
    "imageFamilyViews.get": get_image_family_view,
}

METHODS = [
    *methods(
        {
            "zones.list": list_zones,
            "zones.get": get_zone,
            "regions.list": list_regions,
            "regions.get": get_region,
            "machineTypes.aggregatedList": all_machine_types,
            "machineTypes.list": list_machine_types,
            "machineTypes.get": get_machine_type,
            "acceleratorTypes.aggregatedList": all_accelerator_types,
            "acceleratorTypes.list": list_accelerator_types,
        }
    ),
    *methods(_IMAGE_HANDLERS, IMAGE_PROJECT),
    *methods(_IMAGE_HANDLERS),
]
