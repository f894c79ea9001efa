# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide about a firewall rule for mosh, as narrow as possible. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._core.errors import BadRequest
from .._core.ownership import check_name, check_owner, owner_in, with_owner, without_owner
from .._tpu.model import basename

DEFAULT_NAME = "tpu-fleet-mosh"
DEFAULT_TEXT = "Mosh to TPU VMs"
PROTOCOL, FIRST_PORT, LAST_PORT = "udp", 60000, 61000
ALL_PORTS = f"{FIRST_PORT}-{LAST_PORT}"
# Networks larger than these do not belong to one user.
SHORTEST_PREFIX = {4: 8, 6: 32}


@dataclass(frozen=True)
class FirewallSpec:
    """A wanted rule."""

    name: str
    project: str
    source_ranges: tuple[str, ...]
    target_tags: tuple[str, ...]
    ports: str = ALL_PORTS
    network: str = "default"
    description: str | None = None
    owner: str | None = None

    def check(self) -> None:
        """Raise for a rule that would open more than mosh needs, before any request."""
        check_name("rule", self.name)
        check_owner(self.owner)
        if not self.target_tags:
            raise BadRequest(
                "target_tags is empty: the rule would hold for every machine of the network.",
                remedy="Name the network tags of the slices that mosh is to reach.",
            )
        for tag in self.target_tags:
            check_name("network tag", tag)
        networks = [narrow_network(text) for text in self.source_ranges]
        if not networks:
            raise BadRequest(
                "source_ranges is empty: the rule would allow every address.",
                remedy="Give the addresses from which people log in, as 203.0.113.7/32.",
            )
        if len({network.version for network in networks}) > 1:
            raise BadRequest(
                "source_ranges mixes IPv4 and IPv6, which one rule cannot hold.",
                remedy="Make one rule for each.",
            )
        _check_ports(self.ports)

    def body(self) -> dict[str, Any]:
        """Return the rule in the API's format."""
        return {
            "name": self.name,
            "description": with_owner(self.description or DEFAULT_TEXT, self.owner),
            "network": f"projects/{self.project}/global/networks/{basename(self.network)}",
            "direction": "INGRESS",
            "priority": 1000,
            "disabled": False,
            "allowed": [{"IPProtocol": PROTOCOL, "ports": [self.ports]}],
            "sourceRanges": sorted({str(narrow_network(text)) for text in self.source_ranges}),
            "targetTags": sorted(set(self.target_tags)),
        }


def narrow_network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    """Return the network that a text names; raise unless it is valid and small enough."""
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        raise BadRequest(
            f"source_ranges: {text!r} is not a range of addresses.",
            remedy=_suggestion(text),
        ) from None
    if network.prefixlen < SHORTEST_PREFIX[network.version]:
        raise BadRequest(
            f"source_ranges: {text} is {'every address' if not network.prefixlen else 'too wide'}.",
            remedy="Give the addresses from which people log in, as 203.0.113.7/32; at the widest "
            f"a /{SHORTEST_PREFIX[network.version]}.",
        )
    return network


def rule_summary(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule in a comparable form."""
    return {
        "name": str(rule.get("name") or ""),
        "network": basename(str(rule.get("network") or "default")),
        "direction": str(rule.get("direction") or "INGRESS"),
        "priority": int(rule.get("priority", 1000)),
        "disabled": bool(rule.get("disabled")),
        "allowed": _allowed(rule),
        "denied": _allowed(rule, "denied"),
        "source_ranges": sorted(map(str, rule.get("sourceRanges") or [])),
        "source_tags": sorted(map(str, rule.get("sourceTags") or [])),
        "target_tags": sorted(map(str, rule.get("targetTags") or [])),
        "description": str(rule.get("description") or ""),
    }


def differing(spec: FirewallSpec, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the request that correct a rule."""
    have, body = rule_summary(rule), spec.body()
    if spec.description is None and without_owner(have["description"]):
        owner = spec.owner or owner_in(have["description"])
        body["description"] = with_owner(have["description"], owner)
    want = rule_summary(body)
    if want["network"] != have["network"]:
        raise BadRequest(
            f"The rule {spec.name} is in the network {have['network']}, wanted {want['network']}; "
            "a rule cannot move.",
            remedy="Choose another name, or delete the rule with state: absent first.",
        )
    if have["denied"] or have["source_tags"] or have["direction"] != "INGRESS":
        raise BadRequest(
            f"The rule {spec.name} is of another kind (it denies, has source tags, or is for "
            "outgoing traffic).",
            remedy="Choose another name, or delete the rule first.",
        )
    keys = {
        "priority": "priority",
        "disabled": "disabled",
        "allowed": "allowed",
        "source_ranges": "sourceRanges",
        "target_tags": "targetTags",
        "description": "description",
    }
    return {api: body[api] for key, api in keys.items() if have[key] != want[key]}


def wider_rules(
    rules: Iterable[Mapping[str, Any]], network: str, name: str
) -> list[tuple[str, str]]:
    """Return the other rules that open mosh's ports to all addresses, each with its sources."""
    found = []
    for rule in rules:
        seen = rule_summary(rule)
        if seen["name"] == name or seen["network"] != basename(network) or seen["disabled"]:
            continue
        if seen["direction"] != "INGRESS" or not any(map(_reaches_mosh, rule.get("allowed") or [])):
            continue
        wide = [text for text in seen["source_ranges"] if _is_wide(text)]
        if wide:
            found.append((seen["name"], ", ".join(wide)))
    return found


def _allowed(rule: Mapping[str, Any], key: str = "allowed") -> list[str]:
    return sorted(
        f"{item.get('IPProtocol')}:{','.join(item.get('ports') or ['all'])}"
        for item in rule.get(key) or []
    )


def _reaches_mosh(allowed: Mapping[str, Any]) -> bool:
    protocol = str(allowed.get("IPProtocol")).lower()
    if protocol not in ("all", PROTOCOL, "17"):
        return False
    return not allowed.get("ports") or any(map(_overlaps, allowed["ports"]))


def _overlaps(ports: str) -> bool:
    first, _dash, last = str(ports).partition("-")
    return int(first) <= LAST_PORT and int(last or first) >= FIRST_PORT


def _is_wide(text: str) -> bool:
    try:
        network = ipaddress.ip_network(text)
    except ValueError:
        return False
    return network.prefixlen < SHORTEST_PREFIX[network.version]


def _suggestion(text: str) -> str:
    try:
        return f"Say {ipaddress.ip_interface(text).network}, or {text.partition('/')[0]}/32."
    except ValueError:
        return "Write it as 203.0.113.7/32 or 203.0.113.0/24."


def _check_ports(ports: str) -> None:
    match = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", ports)
    first, last = (int(match[1]), int(match[2] or match[1])) if match else (0, 0)
    if not FIRST_PORT <= first <= last <= LAST_PORT:
        raise BadRequest(
            f"ports is {ports!r}; mosh uses {PROTOCOL}:{ALL_PORTS}, and this rule opens nothing "
            "else.",
            remedy=f"Say {ALL_PORTS}, or a part of it.",
        )


def sequence_of(values: Sequence[Any] | None) -> tuple[str, ...]:
    """Return texts without the empty ones, each once."""
    return tuple(dict.fromkeys(str(value).strip() for value in values or () if str(value).strip()))
