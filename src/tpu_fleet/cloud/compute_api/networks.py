"""The networks of a project, in auto mode, with the subnetwork that each has in each region."""

from __future__ import annotations

from typing import Any

from ..compute_errors import ComputeError, already_exists, in_use, not_found
from ..google import operations
from ..google.answers import Call, fingerprint
from ..google.operations import link
from ..model import catalog as places
from ..model import networks
from ..model.cloud import Cloud
from ..model.networks import MADE, NETWORK
from ..model.records import NodeRecord
from . import catalog, firewalls, instance_request, lists
from .methods import method


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the networks."""
    found = [_network(cloud, name) for name in networks.names(cloud)]
    return lists.page(cloud, call, "compute#networkList", "global/networks", found)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one network."""
    return _network(cloud, _named(cloud, call))


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a network in auto mode."""
    wanted = call.json()
    name = instance_request.check_name(wanted.get("name"))
    if name in networks.names(cloud):
        raise already_exists(f"projects/{cloud.project}/global/networks/{name}")
    if not wanted.get("autoCreateSubnetworks"):
        text = "The local cloud has no networks in custom mode: set autoCreateSubnetworks to true."
        raise ComputeError(501, "notImplemented", text, "UNIMPLEMENTED")
    document = {
        "name": name,
        "id": operations.number(),
        "creationTimestamp": operations.written(cloud.clock.now()),
        "description": str(wanted.get("description") or ""),
    }
    cloud.around.networks.put(name, document)
    return operations.begin(cloud, "insert", f"global/networks/{name}", target_id=document["id"])


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a network that nothing is in."""
    name = _named(cloud, call)
    full = f"projects/{cloud.project}/global/networks/{name}"
    if name == NETWORK:
        text = f"The local cloud cannot delete '{full}', which other resources need."
        raise ComputeError(501, "notImplemented", text, "UNIMPLEMENTED")
    rules = [r["name"] for r in cloud.around.firewalls if r["network"] == name]
    users = [f"projects/{cloud.project}/global/firewalls/{rule}" for rule in rules]
    users += [node.resource(cloud.project) for node in cloud.nodes.values() if _is_in(node, name)]
    if users:
        raise in_use("network", full, users[0])
    cloud.around.networks.drop(name)
    return operations.begin(cloud, "delete", f"global/networks/{name}")


def _is_in(node: NodeRecord, name: str) -> bool:
    """Return whether a node or an instance has a card in a network."""
    cards = node.compute.get("properties", {}).get("networkInterfaces") or node.networks
    links_of = (str(card.get(key) or "") for card in cards for key in ("network", "subnetwork"))
    return any(link_of.rpartition("/")[2] == name for link_of in links_of)


def effective_firewalls(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the firewall rules of a network; it has no firewall policies."""
    name = _named(cloud, call)
    rules = [rule for rule in cloud.around.firewalls if rule["network"] == name]
    return {"firewalls": [firewalls.show(cloud, rule) for rule in rules]} if rules else {}


def subnetworks(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the subnetworks of a region."""
    region = catalog.region_of(cloud, call)
    found = [_subnetwork(cloud, region, name) for name in networks.names(cloud)]
    place = f"regions/{region}/subnetworks"
    return lists.page(cloud, call, "compute#subnetworkList", place, found)


def subnetwork(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one subnetwork."""
    region = catalog.region_of(cloud, call)
    if call["id"] not in networks.names(cloud):
        raise not_found(f"projects/{cloud.project}/regions/{region}/subnetworks/{call['id']}")
    return _subnetwork(cloud, region, call["id"])


def all_subnetworks(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the subnetworks of all regions."""
    scopes = [f"regions/{region}" for region in places.REGIONS]
    found = [
        (f"regions/{region}", _subnetwork(cloud, region, name))
        for region in places.REGIONS
        for name in networks.names(cloud)
    ]
    kind = "compute#subnetworkAggregatedList"
    return lists.aggregated(cloud, call, kind, "subnetworks", scopes, found)


def _named(cloud: Cloud, call: Call) -> str:
    """Return the name of the network that a request names, which has to exist."""
    if call["id"] not in networks.names(cloud):
        raise not_found(f"projects/{cloud.project}/global/networks/{call['id']}")
    return call["id"]


def _network(cloud: Cloud, name: str) -> dict[str, Any]:
    made = cloud.around.networks.get(name) or {
        "id": catalog.stable_id("network", name),
        "creationTimestamp": MADE,
        "description": "Default network for the project",
    }
    shown = {
        **made,
        "kind": "compute#network",
        "name": name,
        "autoCreateSubnetworks": True,
        "subnetworks": [
            link(cloud, f"regions/{region}/subnetworks/{name}") for region in places.REGIONS
        ],
        "routingConfig": {"routingMode": "REGIONAL"},
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "selfLink": link(cloud, f"global/networks/{name}"),
        "selfLinkWithId": link(cloud, f"global/networks/{made['id']}"),
    }
    return {key: value for key, value in shown.items() if value != ""}


def _subnetwork(cloud: Cloud, region: str, name: str) -> dict[str, Any]:
    made = cloud.around.networks.get(name) or {}
    return {
        "kind": "compute#subnetwork",
        "id": catalog.stable_id("subnetwork", region, name),
        "creationTimestamp": made.get("creationTimestamp", MADE),
        "name": name,
        "network": link(cloud, f"global/networks/{name}"),
        "ipCidrRange": networks.range_in(region),
        "gatewayAddress": networks.gateway_in(region),
        "region": link(cloud, f"regions/{region}"),
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "fingerprint": fingerprint(["subnetwork", region, name]),
        "selfLink": link(cloud, f"regions/{region}/subnetworks/{name}"),
    }


_NETWORKS, _SUBNETWORKS = "/global/networks", "/regions/{region}/subnetworks"
METHODS = [
    method("GET", _NETWORKS, "networks.list", listed),
    method("POST", _NETWORKS, "networks.insert", insert),
    method("GET", _NETWORKS + "/{id}", "networks.get", get),
    method("DELETE", _NETWORKS + "/{id}", "networks.delete", delete),
    method("GET", _NETWORKS + "/{id}/getEffectiveFirewalls", "networks.getEffectiveFirewalls",
           effective_firewalls),
    method("GET", "/aggregated/subnetworks", "subnetworks.aggregatedList", all_subnetworks),
    method("GET", _SUBNETWORKS, "subnetworks.list", subnetworks),
    method("GET", _SUBNETWORKS + "/{id}", "subnetworks.get", subnetwork),
]  # fmt: skip
