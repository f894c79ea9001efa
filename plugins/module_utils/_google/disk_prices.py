# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What disks and external addresses of Compute Engine cost, by Google's list prices. No I/O.

A disk costs by its whole size, used or not. Of hyperdisks this is the capacity alone: operations
and throughput above the free ones cost besides. Google's pages decide:
https://cloud.google.com/compute/disks-image-pricing and
https://cloud.google.com/vpc/network-pricing. The regional factors are those of pd-balanced.
"""

from __future__ import annotations

from .._core.in_zone import region_of

DATE = "2026-09-20"
SOURCE = "https://cloud.google.com/compute/disks-image-pricing"
HOURS_OF_MONTH = 730
# USD for a GB and month in the cheapest regions, and how many times that a region costs.
_TYPES = {
    "pd-standard": 0.04,
    "pd-balanced": 0.10,
    "pd-ssd": 0.17,
    "pd-extreme": 0.125,
    "hyperdisk-balanced": 0.08,
    "hyperdisk-ml": 0.08,
    "hyperdisk-extreme": 0.125,
    "hyperdisk-throughput": 0.005,
}
_REGIONS = {
    "asia-east1": 1.0,
    "asia-northeast1": 1.3,
    "asia-south1": 1.2,
    "asia-southeast1": 1.1,
    "europe-north1": 1.1,
    "europe-west1": 1.0,
    "europe-west3": 1.2,
    "europe-west4": 1.1,
    "northamerica-northeast1": 1.1,
    "southamerica-west1": 1.43,
    "us-central1": 1.0,
    "us-central2": 1.0,  # on no public list; as its neighbour
    "us-east1": 1.0,
    "us-east4": 1.1,
    "us-east5": 1.0,
    "us-south1": 1.18,
    "us-west1": 1.0,
    "us-west4": 1.1,
}
# USD an hour for an external address in use.
_ADDRESS, _SPOT_ADDRESS = 0.005, 0.0025


def disk_usd_per_month(kind: str, size_gb: int, zone: str) -> float | None:
    """Return what a disk of a type costs a month; None if the price is unknown."""
    each, factor = _TYPES.get(kind), _REGIONS.get(region_of(zone))
    return None if each is None or factor is None else each * factor * size_gb


def address_usd_per_month(spot: bool) -> float:
    """Return what an external address of a machine costs a month."""
    return (_SPOT_ADDRESS if spot else _ADDRESS) * HOURS_OF_MONTH
