# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What costs beside the chips: disks, external addresses and buckets. No grant of chips pays it.

Boot disks and addresses of the Cloud TPU API's nodes are no resources of the project, and are not
counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .._core.errors import NotFound, TpuError
from .._core.ownership import OWNER_LABEL
from .._google.apis import GoogleApis
from .._google.checkpoints import size_of_bucket
from .._google.disk_prices import address_usd_per_month, disk_usd_per_month
from .._google.storage_prices import GB, usd_per_gb_month, usd_per_month
from .._tpu.model import COMPUTE, Node

DISK, ADDRESSES, BUCKET = "disk", "addresses", "bucket"
PAGES = 10
"""Lists for the size of a bucket: of a thousand objects each."""
SPOT = ("spot", "preemptible")


@dataclass(frozen=True)
class Beside:
    """One thing that costs."""

    what: str
    """DISK, ADDRESSES (those of a slice) or BUCKET."""
    name: str
    place: str
    kind: str
    """The type of a disk, the storage class of a bucket; empty for addresses."""
    amount: float
    """Gigabytes, or the number of addresses."""
    usd_per_month: float | None
    """By list price; None if it is unknown."""
    is_cut: bool = False
    """Whether a bucket has more objects than were counted."""


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
            usd = count * address_usd_per_month(node.tier in SPOT)
            yield Beside(ADDRESSES, node.name, node.zone, "", count, usd)


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
        size = int(disk.get("sizeGb") or 0)
        usd = disk_usd_per_month(kind, size, zone)
        yield Beside(DISK, str(disk.get("name")), zone, kind, size, usd)


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
    place, kind = str(found.get("location", "")).lower(), str(found.get("storageClass", ""))
    usd = usd_per_month(size, usd_per_gb_month(place, kind))
    return Beside(BUCKET, name, place, kind, size / GB, usd, is_cut)
