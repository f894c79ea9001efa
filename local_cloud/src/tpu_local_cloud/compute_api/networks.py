"""The networks of a project and their subnetworks: in auto mode one in each region."""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

from ..compute_errors import ComputeError, already_exists, bad, in_use, invalid, not_found
from ..google import operations
from ..google.answers import Call, fingerprint
from ..google.operations import link
from ..model.cloud import Cloud
from ..model.shared import catalog as places
from ..model.shared import networks
from ..model.shared.networks import MADE, NETWORK
from ..model.shared.records import NodeRecord
from . import catalog, firewalls, instance_request, lists, values
from .methods import methods


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the networks."""
    found = [_network(cloud, name) for name in networks.names(cloud)]
    return lists.page(cloud, call, "global/networks", found)


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one network."""
    return _network(cloud, _named(cloud, call))


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a network, in auto mode with subnetworks, in custom mode without."""
    wanted = call.json()
    name = instance_request.check_name(wanted.get("name"))
    if name in networks.names(cloud):
        raise already_exists(f"projects/{cloud.project}/global/networks/{name}")
    document: dict[str, Any] = {
        "name": name,
        "autoCreateSubnetworks": bool(wanted.get("autoCreateSubnetworks")),
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
    here = f"projects/{cloud.project}"
    users = [f"{here}/global/firewalls/{rule['name']}" for rule in _rules(cloud, name)]
    users += [
        f"{here}/regions/{each['region']}/subnetworks/{each['name']}"
        for each in cloud.around.subnetworks
        if each["network"] == name
    ]
    _refuse_if_used(cloud, "network", full, name, users)
    cloud.around.networks.drop(name)
    return operations.begin(cloud, "delete", f"global/networks/{name}")


def _rules(cloud: Cloud, name: str) -> list[dict[str, Any]]:
    return [rule for rule in cloud.around.firewalls if rule["network"] == name]


def _refuse_if_used(cloud: Cloud, what: str, full: str, name: str, users: list[str]) -> None:
    """Raise if something uses a network or a subnetwork, or a node or an instance is in it."""
    within = [n for n in cloud.nodes.values() if _is_in(n, f"{what}s", name)]
    users = [*users, *(node.resource(cloud.project) for node in within)]
    if users:
        raise in_use(what, full, users[0])


def _is_in(node: NodeRecord, collection: str, name: str) -> bool:
    """Return whether a node or an instance has a card in a network or a subnetwork."""
    cards = node.compute.get("properties", {}).get("networkInterfaces") or node.networks
    key = collection.removesuffix("s")
    return any(str(card.get(key) or "").rpartition("/")[2] == name for card in cards)


def effective_firewalls(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return the firewall rules of a network; it has no firewall policies."""
    name = _named(cloud, call)
    rules = [firewalls.show(cloud, rule) for rule in _rules(cloud, name)]
    return {"firewalls": rules} if rules else {}


def subnetworks(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the subnetworks of a region."""
    region = catalog.region_of(cloud, call)
    found = [_subnetwork(cloud, region, each) for each in networks.subnetworks_in(cloud, region)]
    place = f"regions/{region}/subnetworks"
    return lists.page(cloud, call, place, found)


def subnetwork(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one subnetwork."""
    return _subnetwork(cloud, *_named_in(cloud, call))


def insert_subnetwork(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a subnetwork of a network in custom mode."""
    region, wanted = catalog.region_of(cloud, call), call.json()
    name = instance_request.check_name(wanted.get("name"))
    network = str(wanted.get("network") or "")
    if not networks.is_network(cloud, network):
        raise values.not_there("resource.network", network, "network")
    if name in networks.subnetworks_in(cloud, region):
        raise already_exists(f"projects/{cloud.project}/regions/{region}/subnetworks/{name}")
    text = str(wanted.get("ipCidrRange") or "")
    try:
        IPv4Network(text)
    except ValueError:
        raise invalid("ipCidrRange", text, "Must be a valid IPV4 address range.") from None
    document: dict[str, Any] = {
        "name": name,
        "id": operations.number(),
        "creationTimestamp": operations.written(cloud.clock.now()),
        "region": region,
        "network": network.rpartition("/")[2],
        "ipCidrRange": text,
    }
    cloud.around.subnetworks.put(f"{region}/{name}", document)
    return _begin(cloud, "insert", region, name)


def delete_subnetwork(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a subnetwork of a network in custom mode that nothing is in."""
    region, name = _named_in(cloud, call)
    full = f"projects/{cloud.project}/regions/{region}/subnetworks/{name}"
    if name in networks.in_auto_mode(cloud):
        raise bad(f"Invalid resource usage: '{full}' is of a network in auto mode.")
    _refuse_if_used(cloud, "subnetwork", full, name, [])
    cloud.around.subnetworks.drop(f"{region}/{name}")
    return _begin(cloud, "delete", region, name)


def _begin(cloud: Cloud, verb: str, region: str, name: str) -> dict[str, Any]:
    scope = f"regions/{region}"
    return operations.begin(cloud, verb, f"{scope}/subnetworks/{name}", scope)


def _named_in(cloud: Cloud, call: Call) -> tuple[str, str]:
    """Return region and name of the subnetwork that a request names, which has to exist."""
    region = catalog.region_of(cloud, call)
    if call["id"] not in networks.subnetworks_in(cloud, region):
        raise not_found(f"projects/{cloud.project}/regions/{region}/subnetworks/{call['id']}")
    return region, call["id"]


def all_subnetworks(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the subnetworks of all regions."""
    scopes = [f"regions/{region}" for region in places.REGIONS]
    found = [
        (f"regions/{region}", _subnetwork(cloud, region, name))
        for region in places.REGIONS
        for name in networks.subnetworks_in(cloud, region)
    ]
    return lists.aggregated(cloud, call, "subnetworks", found, scopes)


def _named(cloud: Cloud, call: Call) -> str:
    """Return the name of the network that a request names, which has to exist."""
    if call["id"] not in networks.names(cloud):
        raise not_found(f"projects/{cloud.project}/global/networks/{call['id']}")
    return call["id"]


def _network(cloud: Cloud, name: str) -> dict[str, Any]:
    made = cloud.around.networks.get(name) or {
        "id": catalog.stable_id("network", name),
        "creationTimestamp": MADE,
        "autoCreateSubnetworks": True,
        "description": "Default network for the project",
    }
    shown = {
        **made,
        "kind": "compute#network",
        "name": name,
        "subnetworks": _of_network(cloud, name),
        "routingConfig": {"routingMode": "REGIONAL"},
        "networkFirewallPolicyEnforcementOrder": "AFTER_CLASSIC_FIREWALL",
        "selfLink": link(cloud, f"global/networks/{name}"),
        "selfLinkWithId": link(cloud, f"global/networks/{made['id']}"),
    }
    return {key: value for key, value in shown.items() if value not in ("", [])}


def _of_network(cloud: Cloud, name: str) -> list[str]:
    """Return the links of the subnetworks of a network."""
    if name in networks.in_auto_mode(cloud):
        return [link(cloud, f"regions/{region}/subnetworks/{name}") for region in places.REGIONS]
    return [
        link(cloud, f"regions/{each['region']}/subnetworks/{each['name']}")
        for each in cloud.around.subnetworks
        if each["network"] == name
    ]


def _subnetwork(cloud: Cloud, region: str, name: str) -> dict[str, Any]:
    made = cloud.around.subnetworks.get(f"{region}/{name}")
    if made is None:
        network = cloud.around.networks.get(name) or {}
        made = {
            "id": catalog.stable_id("subnetwork", region, name),
            "creationTimestamp": network.get("creationTimestamp", MADE),
            "network": name,
            "ipCidrRange": places.range_in(region),
        }
    return {
        "kind": "compute#subnetwork",
        "id": made["id"],
        "creationTimestamp": made["creationTimestamp"],
        "name": name,
        "network": link(cloud, f"global/networks/{made['network']}"),
        "ipCidrRange": made["ipCidrRange"],
        "gatewayAddress": str(IPv4Network(made["ipCidrRange"])[1]),
        "region": link(cloud, f"regions/{region}"),
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        "fingerprint": fingerprint(["subnetwork", region, name]),
        "selfLink": link(cloud, f"regions/{region}/subnetworks/{name}"),
    }


METHODS = methods(
    {
        "networks.list": listed,
        "networks.insert": insert,
        "networks.get": get,
        "networks.delete": delete,
        "networks.getEffectiveFirewalls": effective_firewalls,
        "subnetworks.aggregatedList": all_subnetworks,
        "subnetworks.list": subnetworks,
        "subnetworks.insert": insert_subnetwork,
        "subnetworks.get": subnetwork,
        "subnetworks.delete": delete_subnetwork,
    }
)
