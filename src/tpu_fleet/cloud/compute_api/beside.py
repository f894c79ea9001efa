"""What gcloud asks for beside a managed group: its instance group, and an autoscaler."""

from __future__ import annotations

from typing import Any

from ..compute_errors import not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.records import NodeRecord
from . import catalog, lists
from .methods import method
from .times import of_stamp

COLLECTION = "instanceGroups"


def list_groups(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the instance groups of a zone, of which each belongs to a managed group."""
    found = [_show(cloud, node) for node in cloud.compute.groups(catalog.zone_of(cloud, call))]
    return lists.of_zone(cloud, call, "compute#instanceGroupList", COLLECTION, found)


def get_group(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one instance group."""
    zone, name = catalog.zone_of(cloud, call), call["id"]
    for node in cloud.compute.groups(zone):
        if node.name == name:
            return _show(cloud, node)
    raise not_found(f"projects/{cloud.project}/zones/{zone}/{COLLECTION}/{name}")


def list_autoscalers(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List no autoscalers: groups of TPUs cannot have them."""
    catalog.zone_of(cloud, call)
    return lists.of_zone(cloud, call, "compute#autoscalerList", "autoscalers", [])


def _show(cloud: Cloud, node: NodeRecord) -> dict[str, Any]:
    here = f"zones/{node.zone}"
    return {
        "kind": "compute#instanceGroup",
        "id": catalog.stable_id(node.uid, COLLECTION),
        "creationTimestamp": of_stamp(node.created),
        "name": node.name,
        "size": node.compute["group"]["size"],
        "zone": operations.link(cloud, here),
        "selfLink": operations.link(cloud, f"{here}/{COLLECTION}/{node.name}"),
    }


_OF_ZONE = "/zones/{zone}/instanceGroups"
METHODS = [
    method("GET", _OF_ZONE, "instanceGroups.list", list_groups),
    method("GET", _OF_ZONE + "/{id}", "instanceGroups.get", get_group),
    method("GET", "/zones/{zone}/autoscalers", "autoscalers.list", list_autoscalers),
]
