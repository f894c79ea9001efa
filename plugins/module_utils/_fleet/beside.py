# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What costs beside the chips: disks, external addresses and buckets. No grant of chips pays it.

What is there is asked for; what a plan creates follows from its slices and from what the modules
would do. Boot disks and addresses of the Cloud TPU API's nodes are no resources of the project, and
are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._compute.disk_plan import DEFAULT_TYPE
from .._compute.machine_types import machine_type
from .._compute.slice_bodies import BOOT_DISK_GB
from .._core.errors import NotFound, TpuError
from .._core.ownership import OWNER_LABEL
from .._google.apis import GoogleApis
from .._google.checkpoints import size_of_bucket
from .._google.disk_prices import address_usd_per_month, disk_usd_per_month
from .._google.storage_prices import GB, usd_per_gb_month, usd_per_month
from .._tpu.model import COMPUTE, Node
from .._tpu.node_spec import NodeSpec

DISK, BOOT, ADDRESSES, BUCKET = "disk", "boot disks", "addresses", "bucket"
PAGES = 10
"""Lists for the size of a bucket: of a thousand objects each."""
SPOT = ("spot", "preemptible")


@dataclass(frozen=True)
class Beside:
    """One thing that costs."""

    what: str
    """DISK, BUCKET, ADDRESSES or BOOT (those of a slice)."""
    name: str
    place: str
    kind: str
    """The type of disks, the storage class of a bucket; empty for addresses."""
    amount: float
    """Gigabytes, or the number of addresses."""
    usd_per_month: float | None
    """By list price; None if it is unknown."""
    is_cut: bool = False
    """Whether a bucket has more objects than were counted."""
    usd_per_gb_month: float | None = None
    """What a gigabyte in a bucket costs; None if it is unknown, or for anything else."""


@dataclass(frozen=True)
class Seen:
    """What costs, and what could not be read, each with why."""

    rows: list[dict[str, Any]]
    unknown: list[str]


def look(apis: GoogleApis, nodes: Iterable[Node], owner: str, buckets: Sequence[str] = ()) -> Seen:
    """Ask for the disks and buckets of a fleet; its addresses are those of its nodes."""
    own = [node for node in nodes if node.labels.get(OWNER_LABEL) == owner]
    rows: list[Beside] = list(addresses_of(own))
    unknown = []
    try:
        rows += disks_of(_disks(apis), own, owner)
    except TpuError as error:
        unknown.append(f"disks: {error.message}")
    for name in buckets:
        try:
            rows.append(_bucket(apis, name))
        except TpuError as error:
            unknown.append(f"bucket {name}: {error.message}")
    return Seen([asdict(row) for row in rows], unknown)


def addresses_of(nodes: Iterable[Node]) -> Iterator[Beside]:
    """Yield the external addresses of each slice on Compute Engine."""
    for node in nodes:
        count = sum(bool(one.external_ip) for one in node.endpoints)
        if node.api == COMPUTE and count:
            yield _addresses(node.name, node.zone, count, node.tier)


def _addresses(name: str, zone: str, count: int, tier: str) -> Beside:
    usd = count * address_usd_per_month(tier in SPOT)
    return Beside(ADDRESSES, name, zone, "", count, usd)


def disks_of(
    disks: Iterable[Mapping[str, Any]], nodes: Iterable[Node], owner: str
) -> Iterator[Beside]:
    """Yield the disks with the fleet's label, and those of its machines."""
    machines = {one.instance.rpartition("/")[2] for node in nodes for one in node.endpoints}
    for disk in disks:
        users = {str(user).rpartition("/")[2] for user in disk.get("users") or ()}
        if (disk.get("labels") or {}).get(OWNER_LABEL) != owner and not users & (machines - {""}):
            continue
        zone, kind = _last(disk.get("zone")), _last(disk.get("type"))
        yield _disk(DISK, str(disk.get("name")), zone, kind, int(disk.get("sizeGb") or 0))


def _disk(what: str, name: str, zone: str, kind: str, size_gb: int) -> Beside:
    return Beside(what, name, zone, kind, size_gb, disk_usd_per_month(kind, size_gb, zone))


def _last(link: Any) -> str:
    return str(link or "").rpartition("/")[2]


def _disks(apis: GoogleApis) -> Iterator[Mapping[str, Any]]:
    path = f"projects/{apis.project}/aggregated/disks"
    for page in apis.transport("compute").pages(path):
        for scope in (page.get("items") or {}).values():
            yield from scope.get("disks") or ()


def _bucket(apis: GoogleApis, name: str) -> Beside:
    """Return a bucket with the size of its live objects."""
    found = apis.find("storage", f"b/{name}")
    if found is None:
        raise NotFound("there is no such bucket")
    size, is_cut = size_of_bucket(apis, name, PAGES)
    place, kind = str(found.get("location", "")), str(found.get("storageClass", ""))
    return _bucket_of(name, place, kind, size, is_cut)


def _bucket_of(name: str, location: str, kind: str, size: int, is_cut: bool = False) -> Beside:
    """Return a bucket with so many bytes."""
    each = usd_per_gb_month(location, kind)
    usd = usd_per_month(size, each)
    return Beside(BUCKET, name, location.lower(), kind, size / GB, usd, is_cut, each)


# -- what a plan creates --------------------------------------------------------------------------


def of_new_slice(spec: NodeSpec, workers: int, tier: str) -> list[Beside]:
    """Return the boot disks and addresses of a slice to be created on Compute Engine."""
    shape = machine_type(spec.machine_type or "")
    size = workers * (spec.boot_disk_size_gb or BOOT_DISK_GB)
    kind = shape.disk_type if shape else ""
    found = [_disk(BOOT, spec.name, spec.zone, kind, size)]
    if spec.external_ips is not False:
        found.append(_addresses(spec.name, spec.zone, workers, tier))
    return found


def of_new_disk(zone: str, result: Mapping[str, Any]) -> Beside | None:
    """Return the disk that the module disk would create, or by how much it would grow it."""
    disk = result.get("disk") or {}
    size, kind = int(disk.get("size_gb") or 0), str(disk.get("type") or DEFAULT_TYPE)
    if _does(result, "resize"):
        size -= int((result.get("diff") or {}).get("before", {}).get("size_gb") or 0)
    elif not _does(result, "create"):
        return None
    return _disk(DISK, str(disk.get("name")), zone, kind, size)


def of_new_bucket(result: Mapping[str, Any]) -> Beside | None:
    """Return the bucket that the module bucket would create, which is empty."""
    bucket = result.get("bucket") or {}
    if not _does(result, "create"):
        return None
    location, kind = str(bucket.get("location") or ""), str(bucket.get("storage_class") or "")
    return _bucket_of(str(bucket.get("name")), location, kind, 0)


def of_calls(calls: Iterable[tuple[str, Mapping[str, Any]]], results: Any) -> list[dict[str, Any]]:
    """Return what modules would create, by their names and options, from what they returned."""
    found: list[Beside | None] = []
    for (module, options), result in zip(calls, results, strict=True):
        if module == "disk":
            found.append(of_new_disk(str(options.get("zone") or ""), result))
        elif module == "bucket":
            found.append(of_new_bucket(result))
    return [asdict(one) for one in found if one is not None]


def _does(result: Mapping[str, Any], action: str) -> bool:
    return any(one.get("action") == action for one in result.get("actions") or ())
