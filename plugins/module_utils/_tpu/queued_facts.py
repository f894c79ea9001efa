# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe a queued resource, as the modules return it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .._core.errors import from_status
from .model import Node
from .queued_resources import QueuedResource
from .workers import node_facts

# What each state means for a user who waits.
STATE_REASONS = {
    "CREATING": "is being taken into the queue",
    "ACCEPTED": "waits for capacity",
    "WAITING_FOR_RESOURCES": "waits for capacity",
    "PROVISIONING": "has capacity; its nodes are being made",
    "ACTIVE": "has made all its nodes",
    "SUSPENDING": "is losing its nodes",
    "SUSPENDED": "has lost its nodes for good; delete it and request it again",
    "FAILED": "has failed for good; delete it and request it again",
    "DELETING": "is being deleted",
}


def queued_facts(queued: QueuedResource, nodes: Iterable[Node] = ()) -> dict[str, Any]:
    """Return the facts of a queued resource, with its nodes as they are, or as requested."""
    real = {
        node.name: node
        for node in nodes
        if node.zone == queued.zone and node.queued_resource == queued.name
    }
    return {
        "name": queued.name,
        "project": queued.project,
        "zone": queued.zone,
        "state": queued.state,
        "initiator": queued.initiator,
        "reason": reason_of(queued),
        "tier": queued.tier,
        "reservation": queued.reservation,
        "valid_until": queued.valid_until,
        "create_time": queued.create_time,
        "labels": queued.labels,
        "error": from_status(queued.error, queued.name).to_dict() if queued.error else {},
        "nodes": [
            {**node_facts(real.get(node.name, node)), "exists": node.name in real}
            for node in queued.nodes
        ],
    }


def reason_of(queued: QueuedResource) -> str:
    """Return what the state means, who caused it, and the error if it failed."""
    text = STATE_REASONS.get(queued.state, f"is in state {queued.state}")
    by = {"USER": "by a user", "SERVICE": "by the service"}.get(queued.initiator)
    why = f"{queued.state} {by}" if by else ""
    if queued.error:
        why = from_status(queued.error, queued.name).message
    return f"{text} ({why})" if why else text
