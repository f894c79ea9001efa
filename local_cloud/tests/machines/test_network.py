"""Addresses: they move between machines, and end at the cloud's border."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from container_cloud import ContainerCloud, eventually

PING = "ping -c 1 -W 1 "


@pytest.fixture(scope="module")
def pair(container_cloud: ContainerCloud) -> list[tuple[str, str]]:
    """The addresses of a node with two workers."""
    return container_cloud.create("pair", "v4-16")


def test_workers_reach_each_other(
    container_cloud: ContainerCloud, pair: list[tuple[str, str]]
) -> None:
    (_, first), second = pair
    for address in second:
        assert "1 received" in container_cloud.ssh(first, PING + address)


def test_maintenance_reboots_one_worker_to_another_external_address(
    container_cloud: ContainerCloud, pair: list[tuple[str, str]]
) -> None:
    before = [container_cloud.boot_id(internal) for internal, _ in pair]
    container_cloud.command("maintain", "pair", "--worker=1", "--wait")
    now = container_cloud.addresses("pair")
    assert [internal for internal, _ in now] == [internal for internal, _ in pair]
    assert now[0] == pair[0]
    assert now[1][1] != pair[1][1]
    eventually(lambda: container_cloud.boot_id(now[1][1]))
    assert container_cloud.boot_id(pair[1][1]) is None
    after = [container_cloud.boot_id(internal) for internal, _ in pair]
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_an_external_address_moves_to_another_machine(container_cloud: ContainerCloud) -> None:
    ((inner_a, outer_a),) = container_cloud.create("giver")
    ((_, outer_b),) = container_cloud.create("taker")
    # Somebody who talked to the old owner of the address finds the new one.
    ((_, watcher),) = container_cloud.create("watcher")
    keyscan = f"ssh-keyscan -t ed25519 {outer_a} 2>/dev/null"
    old_key = container_cloud.ssh(watcher, keyscan)
    container_cloud.command("maintain", "giver", "--wait")
    container_cloud.command("maintain", "taker", f"--external-ip={outer_a}", "--wait")
    taker = eventually(lambda: container_cloud.try_ssh(outer_a, "hostname").stdout.strip())
    giver = container_cloud.ssh(inner_a, "hostname")
    assert taker != giver
    assert container_cloud.addresses("taker")[0][1] == outer_a
    new_key = container_cloud.ssh(watcher, keyscan)
    assert old_key
    assert new_key
    assert new_key != old_key
    assert container_cloud.boot_id(outer_b) is None
    for node in ("giver", "taker", "watcher"):
        container_cloud.delete(node)


# A refusal has reached its target, too. Port 9 is closed on machines, as on most computers.
REACHES = """
import errno, socket, sys
with socket.socket() as one:
    one.settimeout(2)
    sys.exit(one.connect_ex((sys.argv[1], 9)) not in (0, errno.ECONNREFUSED))
"""
LAN, HERE, THERE = "tpuf-test-lan", "198.51.100.1", "198.51.100.2"


@contextmanager
def another_computer() -> Iterator[list[str]]:
    """Connect a name space with this computer, as a network does; yield how to run words there."""
    ip = f"ip -n {LAN}"
    try:
        for words in (
            f"ip netns add {LAN}",
            f"ip link add {LAN} type veth peer name eth0 netns {LAN}",
            f"ip address add {HERE}/30 dev {LAN}",
            f"ip link set {LAN} up",
            f"{ip} address add {THERE}/30 dev eth0",
            f"{ip} link set eth0 up",
            f"{ip} route add default via {HERE}",
        ):
            subprocess.run(words.split(), check=True)
        yield ["ip", "netns", "exec", LAN]
    finally:
        subprocess.run(["ip", "netns", "del", LAN], check=False)


def test_another_computer_begins_no_connection_to_a_machine(
    container_cloud: ContainerCloud, pair: list[tuple[str, str]]
) -> None:
    gateway = str(container_cloud.host["network"]["subnet"]).replace(".0.0/16", ".0.1")
    with another_computer() as there:

        def reaches(address: str) -> bool:
            words = [*there, sys.executable, "-c", REACHES, address]
            return subprocess.run(words, check=False).returncode == 0

        assert reaches(HERE)
        assert not any(map(reaches, (*pair[0], gateway)))
        assert "1 received" in container_cloud.ssh(pair[0][1], PING + THERE)


def test_clouds_stand_side_by_side_and_do_not_meet(
    container_cloud: ContainerCloud, own_cloud: ContainerCloud, pair: list[tuple[str, str]]
) -> None:
    own_cloud.up()
    assert own_cloud.host["network"]["subnet"] != container_cloud.host["network"]["subnet"]
    ((_, neighbour),) = own_cloud.create("pair")
    inner, outer = container_cloud.addresses("pair")[0]
    gateway = str(container_cloud.host["network"]["subnet"]).replace(".0.0/16", ".0.1")
    for address in (inner, outer, gateway):
        done = own_cloud.try_ssh(neighbour, PING + address)
        assert "0 received" in done.stdout, address
    asked = "curl -s -H 'Metadata-Flavor: Google' http://169.254.169.254/computeMetadata/v1/"
    worker_count = f"{asked}instance/attributes/worker-network-endpoints"
    assert "," not in own_cloud.ssh(neighbour, worker_count)
    assert "," in container_cloud.ssh(outer, worker_count)
    # The image is common: the second cloud had nothing to build.
    assert own_cloud.host["rootfs"] == container_cloud.host["rootfs"]
