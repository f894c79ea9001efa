# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a byte costs that a machine reads from a bucket, or writes to one, by their regions. No I/O.

Free is what stays in a region: a bucket in it, or a dual-region bucket of which it is a part. A
multi-region bucket is in no region: machines of its continent pay for reads as between two regions
of it. Everything else costs by the two continents, whichever way it goes.

Prices are list prices for a gigabyte between two places of Google Cloud. Their source is the table
"data transfer within Google Cloud" of https://cloud.google.com/storage/pricing and that between
regions of https://cloud.google.com/vpc/network-pricing, by secondary sources of 2026-09-20.
Google's page decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DATE = "2026-09-20"
SOURCE = "https://cloud.google.com/storage/pricing#network-pricing"
GB_IN_TB = 1000
# The regions behind the names of dual-region locations.
DUAL_REGIONS = {
    "ASIA1": ("asia-northeast1", "asia-northeast2"),
    "EUR4": ("europe-north1", "europe-west4"),
    "EUR5": ("europe-west1", "europe-west2"),
    "EUR7": ("europe-west2", "europe-west3"),
    "EUR8": ("europe-west3", "europe-west6"),
    "NAM4": ("us-central1", "us-east1"),
}
_CONTINENT_OF = {
    "us": "North America",
    "northamerica": "North America",
    "europe": "Europe",
    "asia": "Asia",
    "southamerica": "South America",
    "australia": "Oceania",
    "me": "Middle East",
    "africa": "Africa",
}
# The multi-regions, and what the names of their regions begin with.
MULTI_REGIONS = {"US": "us-", "EU": "europe-", "ASIA": "asia-"}
_CONTINENT_OF_MULTI = {"US": "North America", "EU": "Europe", "ASIA": "Asia"}
# USD for a GB between two regions of a continent, and from a continent to any other: of two
# continents the dearer one counts.
_WITHIN = {"North America": 0.02, "Europe": 0.02, "Asia": 0.08, "South America": 0.14}
_BETWEEN = {
    "North America": 0.05,
    "Europe": 0.05,
    "Asia": 0.08,
    "Oceania": 0.10,
    "Middle East": 0.11,
    "Africa": 0.11,
    "South America": 0.14,
}

FREE, NEAR, FAR = "free", "near", "far"


@dataclass(frozen=True)
class Transfer:
    """What lies between a bucket and a region."""

    kind: str
    """FREE; NEAR (a multi-region of the same continent), whose reads cost; FAR."""
    place: str = ""
    """Where the bucket is, in words."""
    usd_per_tb: float | None = None
    """List price of a terabyte between them; None if it is unknown."""

    @property
    def price(self) -> str:
        """The price in words."""
        if self.usd_per_tb is None:
            return f"at a price that is not known here ({SOURCE})"
        return f"${self.usd_per_tb:,.0f} a terabyte"


def regions_of(bucket: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the regions of a bucket; empty if its location is not one or two regions."""
    custom = (bucket.get("customPlacementConfig") or {}).get("dataLocations") or ()
    if custom:
        return tuple(str(region).lower() for region in custom)
    location = str(bucket.get("location") or "").upper()
    if location in DUAL_REGIONS:
        return DUAL_REGIONS[location]
    return (location.lower(),) if "-" in location else ()


def transfer(bucket: Mapping[str, Any], region: str) -> Transfer:
    """Return what lies between a bucket, as the JSON API shows it, and a region.

    A bucket without a location, which the API does not show, is taken for free.
    """
    regions, location = regions_of(bucket), str(bucket.get("location") or "").upper()
    if region in regions or not location:
        return Transfer(FREE, location.lower())
    if regions:
        prices = [_price(_continent(one), _continent(region)) for one in regions]
        known = [price for price in prices if price is not None]
        usd = min(known) if len(known) == len(prices) else None
        return Transfer(FAR, " and ".join(regions), usd)
    price = _price(_CONTINENT_OF_MULTI.get(location, ""), _continent(region))
    kind = NEAR if region.startswith(MULTI_REGIONS.get(location, "?")) else FAR
    return Transfer(kind, f"the multi-region {location}", price)


def _continent(region: str) -> str:
    return _CONTINENT_OF.get(region.partition("-")[0], "")


def _price(one: str, other: str) -> float | None:
    """Return the USD for a terabyte between two continents, or between two regions of one."""
    if one == other:
        price = _WITHIN.get(one)
    elif one in _BETWEEN and other in _BETWEEN:
        price = max(_BETWEEN[one], _BETWEEN[other])
    else:
        price = None
    return None if price is None else price * GB_IN_TB
