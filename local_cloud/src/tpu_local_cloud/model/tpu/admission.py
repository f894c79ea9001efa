"""Admission of new nodes, which must be offered in the zone and within quota."""

from __future__ import annotations

from typing import Any

from ... import errors
from ...tables._schema.accelerators import AcceleratorType
from ..shared import attachments, catalog
from ..shared.ledger import Ledger
from ..shared.records import NODE_ID, tier_of
from . import node_values, quota


def check(ledger: Ledger, zone: str, name: str, body: dict[str, Any]) -> AcceleratorType:
    """Return the type of a new node, or raise the error of the request."""
    kind = check_form(ledger, zone, name, body)
    check_quota(ledger, zone, name, body, kind)
    where = {"zone": zone, "node": name, "accelerator_type": kind.name}
    where["tier"] = tier_of(body.get("schedulingConfig", {}))
    denied = ledger.faults.hit("queue_denied", ledger.clock.now(), **where)
    if denied:
        queue = denied.options.get("wording") == "queue"
        raise (errors.queue_closed if queue else errors.queue_denied)(kind.name, zone)
    return kind


def check_form(ledger: Ledger, zone: str, name: str, body: dict[str, Any]) -> AcceleratorType:
    """Return the type of a node, or raise the errors that do not depend on how it is requested."""
    if not NODE_ID.fullmatch(name):
        raise errors.malformed_name(ledger.resource(zone, name))
    kind = requested_type(zone, body)
    if not body.get("runtimeVersion"):
        raise errors.bad_request("runtime version must be set.")
    if body["runtimeVersion"] not in catalog.runtimes_in(zone):
        raise errors.runtime_not_in_zone(body["runtimeVersion"], zone)
    if body.get("networkConfig") and body.get("networkConfigs"):
        raise errors.bad_request("network_config and network_configs cannot both be specified.")
    node_values.check(ledger, zone, body)
    attachments.check(ledger, zone, name, body.get("dataDisks") or [], kind.workers)
    return kind


def check_quota(
    ledger: Ledger, zone: str, name: str, body: dict[str, Any], kind: AcceleratorType
) -> None:
    """Raise if the project's quota does not hold this node as well."""
    tier = tier_of(body.get("schedulingConfig", {}))
    quota.refuse(ledger, zone, kind, tier, node=name)


def requested_type(zone: str, body: dict[str, Any]) -> AcceleratorType:
    """Return the type that the node names, as a whole or by parts; by default the oldest."""
    name, config = body.get("acceleratorType"), body.get("acceleratorConfig")
    if name and config:
        raise errors.bad_request(
            "accelerator_type and accelerator_config cannot both be specified."
        )
    if config:
        enum, topology = config.get("type", ""), config.get("topology", "")
        kind = catalog.type_of_config(zone, enum, topology)
        asked = f"{enum} {topology}"
    else:
        asked = name or "v2-8"
        kind = catalog.type_in(zone, asked)
    if kind is None:
        raise errors.type_not_in_zone(asked, zone)
    return kind
