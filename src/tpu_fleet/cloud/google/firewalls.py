"""Compute's firewall rules, and the one network that a project of the local cloud has."""

from __future__ import annotations

import ipaddress
from typing import Any

from ..compute_errors import ComputeError, already_exists, invalid, not_found
from ..model.cloud import Cloud
from . import operations
from .answers import Call
from .disks import NAME

_SETTABLE = (
    "name", "description", "network", "priority", "direction", "allowed", "denied",
    "sourceRanges", "sourceTags", "targetTags", "destinationRanges", "disabled", "logConfig",
)  # fmt: skip


def insert(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Create a rule."""
    rule = _checked(call.json())
    if rule["name"] in cloud.around.firewalls:
        raise already_exists(f"projects/{cloud.project}/global/firewalls/{rule['name']}")
    rule["id"], rule["creationTimestamp"] = operations.number(), cloud.clock.timestamp()
    cloud.around.firewalls.put(rule["name"], rule)
    return operations.begin(cloud, "insert", f"global/firewalls/{rule['name']}")


def get(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one rule."""
    return _show(cloud, _rule(cloud, call["id"]))


def listed(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the rules."""
    page = call.page(list(cloud.around.firewalls), "items", lambda rule: _show(cloud, rule))
    return {"kind": "compute#firewallList", **page}


def patch(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Replace the given fields, or all with PUT."""
    rule = _rule(cloud, call["id"])
    wanted = call.json()
    before = rule if call.method == "PATCH" else {"name": rule["name"], "network": rule["network"]}
    changed = _checked({**before, **wanted, "name": rule["name"]})
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


def networks(cloud: Cloud, call: Call) -> dict[str, Any]:
    """List the networks."""
    return {"kind": "compute#networkList", **call.page([_network(cloud)], "items")}


def network(cloud: Cloud, call: Call) -> dict[str, Any]:
    """Return one network."""
    if call["id"] != "default":
        raise not_found(f"projects/{cloud.project}/global/networks/{call['id']}")
    return _network(cloud)


def _network(cloud: Cloud) -> dict[str, Any]:
    return {
        "kind": "compute#network",
        "name": "default",
        "autoCreateSubnetworks": True,
        "selfLink": operations.link(cloud, "global/networks/default"),
    }


def _rule(cloud: Cloud, name: str) -> dict[str, Any]:
    rule = cloud.around.firewalls.get(name)
    if rule is None:
        raise not_found(f"projects/{cloud.project}/global/firewalls/{name}")
    return rule


def _show(cloud: Cloud, rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "kind": "compute#firewall",
        "disabled": False,
        "logConfig": {"enable": False},
        **rule,
        "network": operations.link(cloud, f"global/networks/{rule['network']}"),
        "selfLink": operations.link(cloud, f"global/firewalls/{rule['name']}"),
    }


def _checked(wanted: dict[str, Any]) -> dict[str, Any]:
    rule = {key: wanted[key] for key in _SETTABLE if key in wanted}
    if not NAME.fullmatch(str(rule.get("name", ""))):
        raise invalid("name", rule.get("name", ""), f"Must be a match of regex '{NAME.pattern}'")
    rule["network"] = str(rule.get("network") or "default").rpartition("/")[2]
    if rule["network"] != "default":
        why = "The referenced network resource cannot be found."
        raise invalid("network", wanted.get("network"), why)
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
