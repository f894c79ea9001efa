"""Firewall rules of the network of a project."""

from __future__ import annotations

import ipaddress
from typing import Any

from ..compute_errors import ComputeError, already_exists, invalid, not_found
from ..google import operations
from ..google.answers import Call
from ..model.cloud import Cloud
from ..model.shared.networks import MADE, NETWORK, is_network
from . import catalog, lists, values
from .instance_request import check_name
from .methods import methods

_SETTABLE = (
    "name", "description", "network", "priority", "direction", "allowed", "denied",
    "sourceRanges", "sourceTags", "targetTags", "destinationRanges", "disabled", "logConfig",
)  # fmt: skip


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a rule."""
    rule = _checked(cloud, call.json())
    if rule["name"] in cloud.around.firewalls:
        raise already_exists(f"projects/{cloud.project}/global/firewalls/{rule['name']}")
    rule["id"] = operations.number()
    rule["creationTimestamp"] = operations.written(cloud.clock.now())
    cloud.around.firewalls.put(rule["name"], rule)
    return operations.begin(cloud, "insert", f"global/firewalls/{rule['name']}")


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one rule."""
    return show(cloud, _rule(cloud, call["id"]))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the rules."""
    found = [show(cloud, rule) for rule in cloud.around.firewalls]
    return lists.page(cloud, call, "global/firewalls", found)


def patch(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the given fields, or all with PUT."""
    rule = _rule(cloud, call["id"])
    wanted = call.json()
    before = rule if call.method == "PATCH" else {"name": rule["name"], "network": rule["network"]}
    changed = _checked(cloud, {**before, **wanted, "name": rule["name"]})
    if changed["network"] != rule["network"]:
        raise invalid("network", wanted.get("network"), "The network of a rule cannot be changed.")
    kept = {key: rule[key] for key in ("id", "creationTimestamp") if key in rule}
    cloud.around.firewalls.put(rule["name"], changed | kept)
    return operations.begin(cloud, "patch", f"global/firewalls/{rule['name']}")


def delete(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Delete a rule."""
    rule = _rule(cloud, call["id"])
    cloud.around.firewalls.drop(rule["name"])
    return operations.begin(cloud, "delete", f"global/firewalls/{rule['name']}")


def _rule(cloud: Cloud, name: str) -> dict[str, Any]:
    rule = cloud.around.firewalls.get(name)
    if rule is None:
        raise not_found(f"projects/{cloud.project}/global/firewalls/{name}")
    return rule


def show(cloud: Cloud, rule: dict[str, Any]) -> dict[str, Any]:
    """Return a rule as the API shows it."""
    return {
        "kind": "compute#firewall",
        # Those of Google's own rules.
        "id": catalog.stable_id("firewall", rule["name"]),
        "creationTimestamp": MADE,
        "disabled": False,
        "logConfig": {"enable": False},
        **rule,
        "network": operations.link(cloud, f"global/networks/{rule['network']}"),
        "selfLink": operations.link(cloud, f"global/firewalls/{rule['name']}"),
    }


def _checked(cloud: Cloud, wanted: dict[str, Any]) -> dict[str, Any]:
    rule = {key: wanted[key] for key in _SETTABLE if key in wanted}
    check_name(rule.get("name"))
    network = str(rule.get("network") or NETWORK)
    if not is_network(cloud, network):
        raise values.not_there("resource.network", network, "network")
    rule["network"] = network.rpartition("/")[2]
    rule.setdefault("priority", 1000)
    rule.setdefault("direction", "INGRESS")
    if bool(rule.get("allowed")) == bool(rule.get("denied")):
        text = "Exactly one of 'allowed' and 'denied' has to be given."
        raise ComputeError(400, "invalid", f"Invalid value for field 'resource.allowed': {text}")
    if (
        rule["direction"] == "INGRESS"
        and not rule.get("sourceRanges")
        and not rule.get("sourceTags")
    ):
        rule["sourceRanges"] = ["0.0.0.0/0"]
    versions = set()
    for place, text in enumerate(rule.get("sourceRanges") or []):
        try:
            versions.add(ipaddress.ip_network(text).version)
        except ValueError:
            why = "Must be a valid IPV4 or IPV6 address range."
            raise invalid(f"sourceRanges[{place}]", text, why) from None
    if len(versions) > 1:
        why = "IPv4 and IPv6 ranges cannot be mixed in one rule."
        raise invalid("sourceRanges", rule["sourceRanges"], why)
    return rule


METHODS = methods(
    {
        "firewalls.list": listed,
        "firewalls.insert": insert,
        "firewalls.get": get,
        "firewalls.patch": patch,
        "firewalls.update": patch,
        "firewalls.delete": delete,
    }
)
