"""Addresses, subnets and rules, before anything touches the computer."""

from __future__ import annotations

import pytest

from tpu_local_cloud.machines.base import AddressPool, MachineError
from tpu_local_cloud.machines.network import (
    Network,
    blocking,
    drops_by_default,
    free_subnet,
    legacy_rules,
    ruleset,
    taken_networks,
)

NETWORK = Network("abc123", "10.99.0.0/16", 8471)


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], "10.99.0.0/16"),
        (["192.168.0.0/24"], "10.99.0.0/16"),
        (["10.99.128.7/32"], "10.100.0.0/16"),
        (["10.99.0.1/17", "10.100.0.0/14"], "10.104.0.0/16"),
        (["0.0.0.0/1"], None),
    ],
)
def test_the_first_subnet_that_nobody_uses_is_taken(taken: list[str], expected: str | None) -> None:
    if expected is None:
        with pytest.raises(MachineError, match="all in use"):
            free_subnet(taken)
    else:
        assert str(free_subnet(taken)) == expected


def test_taken_networks_come_from_routes_and_addresses() -> None:
    routes = [
        {"dst": "default", "gateway": "192.0.2.1"},
        {"dst": "192.0.2.0/24"},
        {"dst": "10.9.9.9"},
    ]
    inet = {"family": "inet", "local": "10.99.0.1", "prefixlen": 17}
    inet6 = {"family": "inet6", "local": "fe80::1", "prefixlen": 64}
    addresses = [{"ifname": "br0", "addr_info": [inet, inet6]}, {"ifname": "down"}]
    assert taken_networks(routes, addresses) == ["192.0.2.0/24", "10.9.9.9", "10.99.0.1/17"]


def test_internal_and_external_addresses_share_the_subnet_in_halves() -> None:
    assert NETWORK.gateway == "10.99.0.1"
    assert str(NETWORK.internal) == "10.99.0.0/17"
    assert NETWORK.internal_range == ("10.99.0.2", "10.99.127.253")
    assert NETWORK.external_range == ("10.99.128.1", "10.99.255.254")
    assert len(NETWORK.bridge) <= 15


def test_every_rule_is_about_the_cloud_itself() -> None:
    rules = [line.strip() for line in ruleset(NETWORK).splitlines()]
    rules = [
        line for line in rules
        if line and not line.startswith(("table", "chain", "type", "}"))
    ]  # fmt: skip
    assert len(rules) == 7
    own = ('"tpufabc123"', "10.99.0.0/16", "10.99.0.1")
    assert all(any(name in rule for name in own) for rule in rules)


@pytest.mark.parametrize(
    ("policies", "chains"),
    [
        ("-P INPUT ACCEPT\n-P FORWARD ACCEPT", []),
        ("-P INPUT ACCEPT\n-P FORWARD DROP", ["FORWARD", "FORWARD"]),
        ("-P INPUT DROP\n-P FORWARD DROP", ["FORWARD", "FORWARD", "INPUT"]),
        ("", []),
    ],
)
def test_a_firewall_that_drops_is_opened_for_the_bridge_alone(
    policies: str, chains: list[str]
) -> None:
    rules = legacy_rules(NETWORK, policies)
    assert [rule[0] for rule in rules] == chains
    assert all(NETWORK.bridge in rule and NETWORK.table in rule for rule in rules)


def test_a_rule_that_drops_is_not_a_policy() -> None:
    assert not drops_by_default("-P FORWARD ACCEPT\n-A FORWARD -j DROP", "FORWARD")


def test_a_pool_does_not_hand_out_at_once_what_came_back() -> None:
    pool = AddressPool("10.0.0.1", "10.0.0.3")
    assert [pool.take(set()) for _ in range(4)] == ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.1"]
    assert pool.take({"10.0.0.2"}) == "10.0.0.3"


def test_an_empty_pool_says_so() -> None:
    with pytest.raises(MachineError, match=r"all 2 addresses from 10\.0\.0\.1 are in use"):
        AddressPool("10.0.0.1", "10.0.0.2").take({"10.0.0.1", "10.0.0.2"})


def test_ports_are_blocked_between_machines_alone() -> None:
    rules = blocking(NETWORK, [("10.99.0.3", 8482), ("10.99.0.2", 8471)])
    assert rules.startswith(f"\ntable bridge {NETWORK.table} {{")
    assert [line.strip() for line in rules.splitlines() if "drop" in line] == [
        "ip daddr 10.99.0.2 tcp dport 8471 drop",
        "ip daddr 10.99.0.3 tcp dport 8482 drop",
    ]
