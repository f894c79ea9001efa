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
DAYS_OF_MONTH = 30
_CLASSES = ("STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE")
# USD for a GB and month: Standard, Nearline, Coldline, Archive. A dual-region is billed in both of
# its regions.
_TABLE = """
asia-east1               0.020  0.010  0.005  0.0015
asia-northeast1          0.023  0.016  0.006  0.0025
asia-south1              0.023  0.016  0.006  0.0025
asia-southeast1          0.020  0.010  0.005  0.0015
europe-north1            0.020  0.010  0.004  0.0012
europe-west1             0.020  0.010  0.004  0.0012
europe-west2             0.023  0.013  0.007  0.0025
europe-west3             0.023  0.013  0.006  0.0025
europe-west4             0.020  0.010  0.004  0.0012
northamerica-northeast1  0.023  0.013  0.007  0.0025
southamerica-west1       0.030  0.015  0.007  0.0030
us-central1              0.020  0.010  0.004  0.0012
us-east1                 0.020  0.010  0.004  0.0012
us-east4                 0.023  0.013  0.006  0.0025
us-east5                 0.020  0.010  0.004  0.0012
us-south1                0.020  0.010  0.004  0.0012
us-west1                 0.020  0.010  0.004  0.0012
us-west4                 0.023  0.013  0.006  0.0025
us                       0.026  0.015  0.00875  0.0030
eu                       0.026  0.015  0.00875  0.0030
asia                     0.026  0.015  0.00875  0.0030
nam4                     0.044  0.022  0.0088  0.0028
"""
# On no public list; it has the prices of its neighbour.
_AS = {"us-central2": "us-central1"}
_PRICES = {words[0]: words[1:] for words in map(str.split, _TABLE.strip().splitlines())}


def usd_per_gb_month(location: str, storage_class: str) -> float | None:
    """Return the price of a bucket, of Standard or another class; None if unknown."""
    place, kind = location.lower(), storage_class.upper()
    row = _PRICES.get(_AS.get(place, place))
    if row is None or kind not in _CLASSES:
        return None
    return float(row[_CLASSES.index(kind)])


def usd_per_month(size: int, price: float | None) -> float | None:
    """Return what so many bytes cost; None if the price is unknown."""
    return None if price is None else size / GB * price


def kept_copies(days: float, seconds_between: float) -> float:
    """Return how many deleted checkpoints a bucket keeps, if one is deleted with each save.

    `days` is how long each is kept; for good, those of a month are counted.
    """
    return min(days, DAYS_OF_MONTH) * 86400 / seconds_between
