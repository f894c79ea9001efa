"""Which nodes the cloud agrees to make: they have to be on offer in the zone, and within quota."""

from __future__ import annotations

from typing import Any

from ansible_collections.tpu.fleet.plugins.module_utils._accelerators import AcceleratorType

from . import catalog, errors
from .ledger import Ledger
from .records import NODE_ID


def check(ledger: Ledger, zone: str, name: str, body: dict[str, Any]) -> AcceleratorType:
    """Return the type of the node that is to be made, or raise what is wrong with the request."""
    if not NODE_ID.fullmatch(name):
        raise errors.malformed_name(ledger.resource(zone, name))
    kind = requested_type(zone, body)
    if not body.get("runtimeVersion"):
        raise errors.bad_request("runtime version must be set.")
    if body["runtimeVersion"] not in catalog.runtimes_in(zone):
        raise errors.runtime_not_in_zone(body["runtimeVersion"], zone)
    if body.get("networkConfig") and body.get("networkConfigs"):
        raise errors.bad_request("network_config and network_configs cannot both be specified.")
    now = ledger.clock.now()
    fault = ledger.faults.hit("quota", now, zone=zone, node=name)
    if fault:
        scheduling = body.get("schedulingConfig", {})
        preemptible = bool(scheduling.get("preemptible") or scheduling.get("spot"))
        quota = errors.quota_id(kind.generation, kind.name, preemptible)
        limit = int(fault.options.get("limit", 0))
        raise errors.quota_exceeded(quota, limit, zone, ledger.number)
    if ledger.faults.hit("queue_denied", now, zone=zone, node=name):
        raise errors.queue_denied(kind.name, zone)
    return kind


def requested_type(zone: str, body: dict[str, Any]) -> AcceleratorType:
    """Return the type that is named by itself or by its parts; without a word, the oldest."""
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
