# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a chip costs for an hour: the table of this collection, and the fleet file's own. No I/O.

Prices change, spot prices as often as every day. The table says of which day it is and where it
comes from; what it does not hold is unknown, and nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest
from .._core.in_zone import region_of
from .._schema.keys import Problem, check_shape, entries, text_of
from .._tpu.model import COMPUTE
from .grant import Place, chips_of, generation_of, grant_tier

DATE = "2026-11-21"
SOURCES = (
    "https://cloud.google.com/tpu/pricing",
    "https://cloud.google.com/spot-vms/pricing",
    # The public price list of Google's Cloud Billing Catalog API, as its maintainers write it down.
    "https://github.com/skypilot-org/skypilot-catalog catalogs/v8/gcp/vms.csv at 8427bbff988a",
)
_REGION = re.compile(r"[a-z]+-[a-z]+[0-9]+")


@dataclass(frozen=True)
class Price:
    """USD for one chip and one hour; of a type where one is named, else of its generation."""

    generation: str | None
    accelerator_type: str | None
    region: str
    tier: str
    usd: float
    # The API that it is for; empty for both.
    api: str = ""


# What Compute Engine bills by another price than the Cloud TPU API: flex-start.
# Source: the Cloud Billing Catalog, 2026-08-11.
_FLEX_START = {
    "us-central1": 1.35,
    "us-east1": 1.35,
    "us-east5": 1.35,
    "us-south1": 1.35,
}
# generation or type, region: on demand, spot.
_TABLE = """
v2-8        us-central1              1.125     0.3375
v2-8        europe-west4             1.2375    0.3155625
v2-8        asia-east1               1.305     0.3915
v2          us-central1              1.5       0.3825
v2          europe-west4             1.5       0.3825
v3-8        us-central1              2.0       0.51
v3-8        europe-west4             2.2       0.561
v3          europe-west4             2.0       0.66
v4          us-central2              3.22      0.9215
v5e         asia-east1               1.38948   0.55579
v5e         asia-northeast1          1.54104   0.47156
v5e         asia-southeast1          1.56      0.78
v5e         europe-north1            1.32132   0.66066
v5e         europe-west1             1.32132   0.52853
v5e         europe-west3             1.416     0.4333
v5e         europe-west4             1.56      0.40453
v5e         northamerica-northeast1  1.32132   0.40432
v5e         southamerica-west1       1.716     0.5251
v5e         us-central1              1.2       0.24493
v5e         us-east1                 1.2       0.24493
v5e         us-east4                 1.2       0.6
v5e         us-east5                 1.2       0.6
v5e         us-south1                1.416     0.5664
v5e         us-west1                 1.2       0.24493
v5e         us-west4                 1.2       0.48
v5p         europe-west1             4.45946   1.78378
v5p         europe-west4             4.2525    1.34849
v5p         us-central1              4.2       0.92856
v5p         us-east1                 4.2       0.92856
v5p         us-east5                 4.2       1.68
v5p         us-south1                4.779     1.46237
v6e         asia-northeast1          3.24      0.85774
v6e         asia-south1              3.24      2.27
v6e         asia-southeast1          2.97      0.40325
v6e         europe-west4             2.97      1.03748
v6e         southamerica-west1       2.7       -
v6e         us-central1              2.7       0.57285
v6e         us-east1                 2.7       0.57285
v6e         us-east4                 2.7       0.64185
v6e         us-east5                 2.7       1.35
v6e         us-south1                2.7       1.35
v6e         us-west1                 2.7       0.57285
"""


class Prices:
    """Look up what a slice costs; the fleet file's own prices come first."""

    def __init__(self, own: Iterable[Price] = ()) -> None:
        self._prices = [*own, *_table()]

    def per_chip(self, place: Place, tier: str) -> float | None:
        """Return the USD for an hour of one chip of such a slice, or None."""
        # On Compute Engine it is a price of its own.
        flex = place.api == COMPUTE and tier == "flex_start"
        wanted = (region_of(place.zone), tier if flex else grant_tier(tier))
        here = [
            price
            for price in self._prices
            if (price.region, price.tier) == wanted and price.api in ("", place.api)
        ]
        generation = generation_of(place.accelerator_type)
        for price in here:
            if price.accelerator_type == place.accelerator_type:
                return price.usd
        for price in here:
            if price.accelerator_type is None and price.generation == generation:
                return price.usd
        return None


def parse_prices(raw: Any) -> Prices:
    """Return the prices with those of the variable fleet_prices first; raise what is wrong."""
    data = {"fleet_prices": raw}
    problems = check_shape(data) + price_rules(data)
    if problems:
        lines = " ".join(map(str, problems))
        raise BadRequest(f"The prices are not written properly: {lines}")
    return Prices(
        Price(
            generation=text_of(entry, "generation"),
            accelerator_type=text_of(entry, "accelerator_type"),
            region=entry["region"],
            tier=entry["tier"] if entry["tier"] == "flex_start" else grant_tier(entry["tier"]),
            usd=float(entry["usd_per_chip_hour"]),
            api=entry.get("api") or "",
        )
        for _field, entry in entries(data, "fleet_prices")
    )


def price_rules(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with fleet_prices beyond its shape."""
    problems = []
    for field, entry in entries(data, "fleet_prices"):
        generation, kind = entry.get("generation"), text_of(entry, "accelerator_type")
        if bool(generation) == bool(kind):
            message = "has both generation and accelerator_type"
            if not kind:
                message = "has neither generation nor accelerator_type"
            problems.append(Problem(field, None, message, "Say which chips the price is for"))
        if kind and chips_of(kind) is None:
            message, remedy = "is not a known accelerator type", "Types look like v4-8 or v6e-8"
            problems.append(Problem(f"{field}.accelerator_type", kind, message, remedy))
        region = text_of(entry, "region")
        if region and not _REGION.fullmatch(region):
            remedy = "Regions look like us-central2; prices are the same in all zones of one"
            problems.append(Problem(f"{field}.region", region, "is not a region", remedy))
        usd = entry.get("usd_per_chip_hour")
        if isinstance(usd, (int, float)) and usd < 0:
            message = "is below zero"
            problems.append(Problem(f"{field}.usd_per_chip_hour", usd, message, "Use 0 or more"))
    return problems


def _table() -> Iterable[Price]:
    for line in _TABLE.split("\n"):
        if not line:
            continue
        what, region, on_demand, spot = line.split()
        kind = what if "-" in what else None
        for tier, text in (("on_demand", on_demand), ("spot", spot)):
            if text != "-":
                yield Price(None if kind else what, kind, region, tier, float(text))
    for region, usd in _FLEX_START.items():
        yield Price("v6e", None, region, "flex_start", usd, COMPUTE)
