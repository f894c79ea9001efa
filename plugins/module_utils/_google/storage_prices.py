# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a month of storage in a bucket costs, by Google's list prices. No I/O.

What the table does not hold is unknown, and nothing is guessed. Versions that soft delete keeps are
billed too, and are in no list of objects.
"""

from __future__ import annotations

DATE = "2026-09-20"
SOURCE = "https://cloud.google.com/storage/pricing"
GB = 1 << 30
# USD for a GB and month.
_STANDARD = {
    "us-central1": 0.020,
    "us-east1": 0.020,
    "us-east4": 0.023,
    "us-east5": 0.020,
    "us-west1": 0.020,
    "europe-west1": 0.020,
    "europe-west2": 0.023,
}
_COLDER = {"NEARLINE": 0.010, "COLDLINE": 0.004, "ARCHIVE": 0.0012}


def usd_per_gb_month(location: str, storage_class: str) -> float | None:
    """Return the price of a bucket in a region, of Standard or another class; None if unknown."""
    standard = _STANDARD.get(location.lower())
    if standard is None or storage_class.upper() == "STANDARD":
        return standard
    return _COLDER.get(storage_class.upper())


def usd_per_month(size: int, price: float | None) -> float | None:
    """Return what so many bytes cost; None if the price is unknown."""
    return None if price is None else size / GB * price
