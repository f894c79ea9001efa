# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The quotas of Compute Engine that a slice counts against. No I/O.

They count chips in a region, apart from those of the Cloud TPU API. Source:
https://docs.cloud.google.com/tpu/docs/quota. Those of TPU7x have not been seen.
"""

from __future__ import annotations

from dataclasses import dataclass

from .._schema.accelerators import GENERATIONS
from .slice_bodies import RESERVED


@dataclass(frozen=True)
class Quota:
    """One quota: its metric, and the TPU's family where the metric counts several."""

    metric: str
    family: str = ""

    @property
    def name(self) -> str:
        """Return the name by which one asks Google for more of it."""
        return f"{self.metric.upper().replace('_', '-')}-per-project-region"


def quotas_of(generation: str, tier: str) -> tuple[Quota, ...]:
    """Return the quotas of a slice, of which one is enough; none where it needs none."""
    if tier in RESERVED:
        return ()
    preemptible = Quota(f"preemptible_tpu_{generation.removeprefix('tpu')}")
    known = GENERATIONS.get(generation)
    standard = Quota(*known.quota) if known else Quota("tpus_per_tpu_family")
    # Where the first is missing, flex-start uses the second.
    return {"spot": (preemptible,), "flex_start": (preemptible, standard)}.get(tier, (standard,))
