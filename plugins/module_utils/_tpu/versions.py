# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the API version of a request: v2, or v2alpha1 if only that has its fields. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

V2 = "v2"
V2ALPHA1 = "v2alpha1"

# By the object that contains them: the fields of requests that v2 does not know.
ALPHA_FIELDS: dict[str, frozenset[str]] = {
    "QueuedResource": frozenset({"bestEffort", "provisioningModel", "runDuration"}),
    "Guaranteed": frozenset({"reserved"}),
    "NodeSpec": frozenset({"multiNodeParams"}),
    "Node": frozenset({"autocheckpointEnabled"}),
    "BootDiskConfig": frozenset(
        {
            "diskSizeGb",
            "enableConfidentialCompute",
            "provisionedIops",
            "provisionedThroughput",
            "sourceImage",
            "storagePool",
        }
    ),
    "AttachedDisk": frozenset({"workerIds"}),
    "SchedulingConfig": frozenset({"provisioningModel", "reservationName"}),
}
# Fields that have another name in v2alpha1.
RENAMED = {"multisliceParams": "multiNodeParams"}


def api_version_of(body: Mapping[str, Any]) -> str:
    """Return the version of the API that a request for a node or queued resource needs."""
    for kind, part in _parts(body):
        if ALPHA_FIELDS[kind] & part.keys():
            return V2ALPHA1
    return V2


def _parts(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the parts of a request that may have such fields; users' own maps are left out."""
    if "tpu" not in body:
        yield from _node_parts(body)
        return
    yield "QueuedResource", body
    yield "Guaranteed", body.get("guaranteed") or {}
    for spec in body["tpu"].get("nodeSpec") or []:
        yield "NodeSpec", spec
        yield from _node_parts(spec.get("node") or {})


def _node_parts(node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield "Node", node
    yield "BootDiskConfig", node.get("bootDiskConfig") or {}
    yield "SchedulingConfig", node.get("schedulingConfig") or {}
    for disk in node.get("dataDisks") or []:
        yield "AttachedDisk", disk
