# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a project has of TPUs on Compute Engine, and what failed to be created there, as facts."""

from __future__ import annotations

from typing import Any

from .._core.errors import from_status
from .._tpu.model import Listing, Operation, basename, part_of
from .._tpu.names import natural_key
from .slice_plan import sights
from .slices import GROUPS, INSTANCES, ComputeSlices


def listed(slices: ComputeSlices) -> Listing[dict[str, Any]]:
    """Return the facts of all single instances and slices, by name and zone."""
    seen = slices.list()
    single = {(one.zone, one.name) for one in seen.instances.items if one.is_single}
    found = [
        {**one.facts(), "several": (one.node.zone, one.node.name) not in single}
        for one in sights(seen)
        if one.node
    ]
    found.sort(key=lambda facts: (natural_key(facts["name"]), facts["zone"], facts["several"]))
    return Listing(found, seen.unreachable)


def failures_of(slices: ComputeSlices, zone: str) -> list[dict[str, Any]]:
    """Return what failed lately to be created in a zone, the newest first."""
    return [
        {
            "name": basename(operation.target),
            "time": operation.create_time,
            "kind": from_status(operation.error).kind,
            "message": str(operation.error.get("message") or ""),
        }
        for operation in slices.operations(zone)
        if operation.error and operation.verb == "create" and _is_of_slice(operation)
    ]


def _is_of_slice(operation: Operation) -> bool:
    link = str(operation.raw.get("targetLink") or "")
    return any(part_of(link, kind) for kind in (INSTANCES, GROUPS))
