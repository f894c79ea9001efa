# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is working on a fleet just now: a label with owner and expiry on one of its resources. Pure.

The API has no locks and labels no compare-and-set, so this keeps people apart, not races of
milliseconds: against those, names are unique in a zone and each look settles what is too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

HOLDER_LABEL = "tpu-fleet-lease"
UNTIL_LABEL = "tpu-fleet-lease-until"


@dataclass(frozen=True)
class Lease:
    """Who works on the fleet, and until when at the latest."""

    holder: str
    until: datetime

    @classmethod
    def from_labels(cls, labels: Mapping[str, str]) -> Lease | None:
        """Return the lease that labels carry; what nobody can read is none."""
        holder, until = labels.get(HOLDER_LABEL), labels.get(UNTIL_LABEL, "")
        if not holder or not re.fullmatch(r"[0-9]{1,11}", until):
            return None
        return cls(holder, datetime.fromtimestamp(int(until), timezone.utc))

    def labels(self) -> dict[str, str]:
        """Return the labels that carry the lease."""
        return {HOLDER_LABEL: self.holder, UNTIL_LABEL: str(int(self.until.timestamp()))}


def without_lease(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels as they are when nobody works on the fleet."""
    ours = (HOLDER_LABEL, UNTIL_LABEL)
    return {key: value for key, value in labels.items() if key not in ours}


def held_by_another(
    labels: Iterable[Mapping[str, str]], holder: str, now: datetime
) -> Lease | None:
    """Return the lease of somebody else that has not run out."""
    found = (Lease.from_labels(item) for item in labels)
    others = [lease for lease in found if lease and lease.holder != holder and lease.until > now]
    return max(others, key=lambda lease: lease.until, default=None)


def holder_name(user: str, host: str) -> str:
    """Return who this is, as a label may say it."""
    return re.sub(r"[^a-z0-9_-]+", "-", f"{user}_at_{host}".lower())[:63].strip("-_")
