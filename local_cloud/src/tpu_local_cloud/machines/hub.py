"""The small machines' part of a cloud's network: a router at the bridge, the hub.

A bridge has at most 1,024 ports, and this computer's neighbour table as many entries. So each small
machine has a link to the hub, whose neighbour entries are static. Full machines reach small ones
through the hub by proxy ARP, this computer by routes.
"""

from __future__ import annotations

import json
from ipaddress import IPv4Address
from pathlib import Path

from .base import MachineError
from .host import run
from .layout import locked
from .network import METADATA, Network, Wiring, link_names

NAME = "hub"
# The two ends of the detour of delayed packets, see delay.py.
OUTER, INNER = "outer", "inner"
_TO_OUTER, _TO_INNER = 100, 101


def _mac(address: str, side: int) -> str:
    octets = ":".join(f"{octet:02x}" for octet in IPv4Address(address).packed)
    return f"02:{side:02x}:{octets}"


def link_name(address: str) -> str:
    """Return the name of a machine's link in the hub."""
    return f"h{int(IPv4Address(address)):08x}"


def hub_words(internal: str, external: str | None, pid: int) -> list[str]:
    """Return the `ip` commands in the hub that link it with a process's namespace."""
    link = link_name(internal)
    words = [
        f"link add {link} address {_mac(internal, 1)} type veth "
        f"peer name eth0 address {_mac(internal, 0)} netns {pid}",
        f"link set {link} up",
        f"neigh replace {internal} lladdr {_mac(internal, 0)} dev {link} nud permanent",
        f"route replace {internal}/32 dev {link}",
    ]
    return words + external_words(internal, external)


def external_words(internal: str, external: str | None) -> list[str]:
    """Return the `ip` command in the hub that routes an external address to a machine."""
    link = link_name(internal)
    return [f"route replace {external}/32 via {internal} dev {link} onlink"] if external else []


def machine_words(network: Network, internal: str, external: str | None) -> list[str]:
    """Return the `ip` commands in the machine's name space."""
    return [
        "link set lo up",
        f"address add {internal}/32 dev eth0",
        *([f"address add {external}/32 dev lo"] if external else []),
        "link set eth0 up",
        f"neigh replace {network.gateway} lladdr {_mac(internal, 1)} dev eth0 nud permanent",
        f"route replace default via {network.gateway} dev eth0 onlink src {internal}",
    ]


def computer_words(network: Network, verb: str, addresses: list[str]) -> list[str]:
    """Return the `ip` commands on this computer that add or delete routes to the hub."""
    way = f"via {network.hub} dev {network.bridge}"
    return [f"route {verb} {address}/32 {way}" for address in addresses]


def detour_words() -> list[str]:
    """Return the `ip` commands in the hub that route outside traffic over the detour.

    Traffic between small machines and to the metadata server does not take it. If the devices of
    the detour are gone, its tables are empty, and packets go the direct way.
    """
    rules = [
        "iif lo lookup main",
        f"from {METADATA} lookup main",
        f"to {METADATA} lookup main",
        f"iif eth0 lookup {_TO_OUTER}",
        f"iif {OUTER} lookup main",
        f"iif {INNER} lookup main",
        # The addresses of the small machines, but not the networks outside.
        "lookup main suppress_prefixlength 31",
        f"lookup {_TO_INNER}",
    ]
    return [
        f"link set {OUTER} up txqueuelen 20000",
        f"link set {INNER} up txqueuelen 20000",
        f"route replace default dev {OUTER} table {_TO_OUTER}",
        f"route replace default dev {INNER} table {_TO_INNER}",
        *(f"rule add pref {100 + number} {rule}" for number, rule in enumerate(rules)),
    ]


# The maximum number of rules; errors for missing ones are ignored.
END_OF_DETOUR = [f"rule del pref {100 + number}" for number in range(8)]


class Hub:
    """Creates the hub, and the small machines' links to it."""

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self._network = wiring.network

    def up(self) -> None:
        """Create the hub, unless it exists."""
        net = self._network
        with locked(self._wiring.folder.parent / "hub.lock"):
            if self._wiring.port(net.hub) in link_names():
                return
            self._wiring.plug(NAME, net.hub)
            knobs = [
                "net.ipv4.ip_forward=1",
                "net.ipv4.conf.all.rp_filter=0",
                "net.ipv4.conf.default.rp_filter=0",
                "net.ipv4.conf.eth0.rp_filter=0",
                "net.ipv4.conf.all.send_redirects=0",
                "net.ipv4.conf.default.send_redirects=0",
                "net.ipv4.conf.eth0.send_redirects=0",
                "net.ipv4.conf.eth0.proxy_arp=1",
                # Otherwise proxy ARP answers only after most of a second.
                "net.ipv4.neigh.eth0.proxy_delay=0",
                # A thousand links need no neighbour discovery.
                "net.ipv6.conf.default.disable_ipv6=1",
            ]
            self._wiring.call(*self.inside(), "sysctl", "-q", "-e", "-w", *knobs)

    def down(self) -> None:
        """Remove the hub with all its links, because removing them one by one takes long."""
        self._wiring.unplug(NAME, self._network.hub)

    def inside(self) -> list[str]:
        """Return the prefix of a command that runs in the hub."""
        return ["nsenter", f"--net={self._wiring.name_space(NAME)}"]

    def wrap(self, command: list[str]) -> list[str]:
        """Return the command prefixed so that it sees the hub."""
        return self._wiring.wrap(command)

    def plug(self, pid: int, internal: str, external: str | None) -> None:
        """Give a process's new name space its addresses and routes."""
        _machine(pid)
        net = self._network
        # Remove the old link, unless the kernel has already cleaned up the old namespace.
        script = 'ip link del "$1" 2>/dev/null; exec ip -batch -'
        command = [*self.inside(), "sh", "-c", script, "sh", link_name(internal)]
        self._batch(command, hub_words(internal, external, pid))
        self._batch([*_machine(pid), "ip", "-batch", "-"], machine_words(net, internal, external))
        addresses = [internal, *([external] if external else [])]
        self._batch(["ip", "-batch", "-"], computer_words(net, "replace", addresses))

    def unplug(self, internal: str) -> None:
        """Remove the route of a machine's address; its link is removed with its name space."""
        words = computer_words(self._network, "del", [internal])
        self._batch(["ip", "-force", "-batch", "-"], words, check=False)

    def route(self, pid: int, internal: str, external: str) -> None:
        """Route an external address to a running machine."""
        self._batch([*self.inside(), "ip", "-batch", "-"], external_words(internal, external))
        command = [*_machine(pid), "ip", "-batch", "-"]
        self._batch(command, [f"address replace {external}/32 dev lo"])
        words = computer_words(self._network, "replace", [external])
        self._batch(["ip", "-batch", "-"], words)

    def unroute(self, pid: int | None, internal: str, external: str) -> None:
        """Remove the route of an external address, unless it now leads to another machine."""
        show = [*self.inside(), "ip", "-json", "route", "show", f"{external}/32"]
        shown = json.loads(self._wiring.call(*show) or "[]")
        if pid is not None:
            inside = [*_machine(pid), "ip", "-force", "-batch", "-"]
            self._batch(inside, [f"address del {external}/32 dev lo"], check=False)
        if any(way.get("dev") != link_name(internal) for way in shown):
            return
        forget = [*self.inside(), "ip", "-force", "-batch", "-"]
        self._batch(forget, [f"route del {external}/32"], check=False)
        words = computer_words(self._network, "del", [external])
        self._batch(["ip", "-force", "-batch", "-"], words, check=False)

    def _batch(self, command: list[str], words: list[str], check: bool = True) -> None:
        text = "".join(f"{line}\n" for line in words)
        command = self._wiring.wrap(command)
        if not check:
            command = ["sh", "-c", '"$@" 2>/dev/null || :', "sh", *command]
        run(command, text=text)


def _machine(pid: int) -> list[str]:
    """Return the prefix of a command that runs in a machine's network."""
    space = Path(f"/proc/{pid}/ns/net")
    try:
        outside = space.samefile("/proc/self/ns/net")
    except OSError:
        outside = True
    if outside:
        # Otherwise the command would change this computer's network.
        raise MachineError(f"process {pid} has no network of its own, or has ended")
    return ["nsenter", f"--net={space}"]
