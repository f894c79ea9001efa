"""The machines' network: one bridge for each cloud, and one namespace for each machine.

The lower half of the cloud's subnet holds the internal addresses. The upper half holds the external
ones: the machine sets its external address on `lo` itself, from the metadata server, and the
computer has a route to it through the internal address. External addresses are never resolved by
ARP, so one that moves to another machine is reachable there immediately.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from .base import MachineError
from .engine import Engine
from .host import run

BRIDGES = "tpuf"
METADATA = "169.254.169.254"
# Where the buckets are, by the name storage.googleapis.com.
HTTPS = 443
# The network device of a machine's own kernel, in the machine's namespace.
TAP = "tap0"
_CANDIDATES = [IPv4Network(f"10.{second}.0.0/16") for second in range(99, 128)]


@dataclass(frozen=True)
class Network:
    """The choices made for one cloud."""

    cloud_id: str
    subnet: str
    metadata_port: int

    @property
    def bridge(self) -> str:
        """Return the bridge's name."""
        return f"{BRIDGES}{self.cloud_id}"

    @property
    def table(self) -> str:
        """Return the name of the nftables table."""
        return f"tpuf_{self.cloud_id}"

    @property
    def internal(self) -> IPv4Network:
        """Return the range of the internal addresses."""
        return next(IPv4Network(self.subnet).subnets())

    @property
    def gateway(self) -> str:
        """Return the computer's own address on the bridge."""
        return str(self.internal[1])

    @property
    def internal_range(self) -> tuple[str, str]:
        """Return the first and last internal address of machines."""
        return str(self.internal[2]), str(self.internal[-3])

    @property
    def hub(self) -> str:
        """Return the address of the small machines' router on the bridge."""
        return str(self.internal[-2])

    @property
    def external(self) -> IPv4Network:
        """Return the range of the external addresses."""
        return list(IPv4Network(self.subnet).subnets())[1]

    @property
    def external_range(self) -> tuple[str, str]:
        """Return the first and last external address of machines."""
        return str(self.external[1]), str(self.external[-2])

    def to_dict(self) -> dict[str, Any]:
        """Return the choices for JSON."""
        return asdict(self)


def free_subnet(taken: Iterable[str]) -> IPv4Network:
    """Return the first candidate that overlaps with none of the networks in `taken`."""
    networks = [IPv4Network(text, strict=False) for text in taken]
    for candidate in _CANDIDATES:
        if not any(candidate.overlaps(network) for network in networks):
            return candidate
    raise MachineError(
        f"no free network for the machines: {_CANDIDATES[0]} to {_CANDIDATES[-1]} are all in use"
    )


def taken_networks(
    routes: Sequence[dict[str, Any]], addresses: Sequence[dict[str, Any]]
) -> list[str]:
    """Return the networks of the computer's routes and addresses, from `ip -json`."""
    found = [str(route["dst"]) for route in routes if route.get("dst", "default") != "default"]
    for link in addresses:
        found += [
            f"{entry['local']}/{entry['prefixlen']}"
            for entry in link.get("addr_info", [])
            if entry.get("family") == "inet"
        ]
    return found


def choose_network(cloud_id: str) -> Network:
    """Choose a subnet that this computer does not use."""
    routes = json.loads(run(["ip", "-4", "-json", "route", "show", "table", "all"]) or "[]")
    addresses = json.loads(run(["ip", "-4", "-json", "address", "show"]) or "[]")
    routes = [route for route in routes if route.get("type") not in ("local", "broadcast")]
    subnet = free_subnet(taken_networks(routes, addresses))
    return Network(cloud_id, str(subnet), _free_port())


def _free_port() -> int:
    """Return a port that is free on all addresses, the usual one if possible."""
    for port in (8471, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise MachineError("no free TCP port for the metadata server")


def ruleset(network: Network) -> str:
    """Return the nftables table of a cloud.

    The computer forwards packets for its machines, and so for everything else. Another cloud of it,
    or another computer of its networks, begins no connection to a machine or to the cloud.
    """
    bridge, gateway = network.bridge, network.gateway
    return f"""
table ip {network.table} {{
  chain prerouting {{
    type nat hook prerouting priority dstnat;
    iifname "{bridge}" ip daddr {METADATA} tcp dport 80 dnat to {gateway}:{network.metadata_port}
    iifname "{bridge}" ip daddr {METADATA} tcp dport {HTTPS} dnat to {gateway}:{HTTPS}
  }}
  chain postrouting {{
    type nat hook postrouting priority srcnat;
    ip saddr {network.subnet} oifname != "{bridge}" masquerade
  }}
  chain input {{
    type filter hook input priority filter;
    iifname "{bridge}" ip daddr 169.254.0.0/16 drop
    ip daddr {gateway} iifname != {{ "{bridge}", "lo" }} drop
  }}
  chain forward {{
    type filter hook forward priority filter;
    iifname "{bridge}" ip daddr 169.254.0.0/16 drop
    oifname "{bridge}" iifname != "{bridge}" ct state new drop
  }}
}}
"""


def blocking(network: Network, ports: Iterable[tuple[str, int]]) -> str:
    """Return the nftables table that keeps packets between machines from these ports."""
    rules = "\n".join(
        f"    ip daddr {address} tcp dport {port} drop" for address, port in sorted(ports)
    )
    return f"""
table bridge {network.table} {{
  chain forward {{
    type filter hook forward priority filter;
{rules}
  }}
}}
"""


def drops_by_default(rules: str, chain: str) -> bool:
    """Return whether an iptables chain (`iptables -S`) drops by default."""
    return f"-P {chain} DROP" in rules.splitlines()


def legacy_rules(network: Network, rules: str) -> list[list[str]]:
    """Return the iptables rules that let the machines through a firewall that drops by default."""
    mark = ["-m", "comment", "--comment", network.table, "-j", "ACCEPT"]
    wanted = []
    if drops_by_default(rules, "FORWARD"):
        wanted += [
            ["FORWARD", "-i", network.bridge, *mark],
            ["FORWARD", "-o", network.bridge, *mark],
        ]
    if drops_by_default(rules, "INPUT"):
        wanted += [["INPUT", "-i", network.bridge, *mark]]
    return wanted


def link_names() -> set[str]:
    """Return the names of this computer's network links."""
    return {link["ifname"] for link in json.loads(run(["ip", "-json", "link"]))}


class Wiring:
    """Creates and removes the links, addresses, routes and rules of one cloud."""

    def __init__(self, network: Network, engine: Engine) -> None:
        self.network = network
        self._engine = engine

    def up(self) -> None:
        """Create the bridge and the rules, unless they exist."""
        net = self.network
        if net.bridge not in link_names():
            run(["ip", "link", "add", net.bridge, "type", "bridge"])
        address = f"{net.gateway}/{net.internal.prefixlen}"
        run(["ip", "address", "replace", address, "dev", net.bridge])
        run(["ip", "link", "set", net.bridge, "up"])
        # Packets to an unused external address must not leave this computer.
        run(["ip", "route", "replace", "unreachable", str(net.external)])
        run(
            ["nft", "-f", "-"],
            text=f"table ip {net.table}\ndelete table ip {net.table}\n" + ruleset(net),
        )
        for rule in legacy_rules(net, _iptables("-S") or ""):
            if _iptables("-C", *rule) is None:
                _iptables("-I", *rule)

    def block(self, ports: Iterable[tuple[str, int]]) -> None:
        """Drop packets between machines to these ports, each with an address, and no others."""
        net, wanted = self.network, list(ports)
        table = f"table bridge {net.table}\ndelete table bridge {net.table}\n"
        run(["nft", "-f", "-"], text=table + (blocking(net, wanted) if wanted else ""))

    def down(self) -> None:
        """Remove whatever exists."""
        net = self.network
        with suppress(MachineError):  # without the kernel's part for bridges there is none
            self.block(())
        for line in (_iptables("-S") or "").splitlines():
            if f"--comment {net.table}" in line and line.startswith("-A "):
                _iptables("-D", *line.split()[1:])
        run(["nft", "-f", "-"], text=f"table ip {net.table}\ndelete table ip {net.table}\n")
        if net.bridge in link_names():
            run(["ip", "link", "del", net.bridge])
        if run(["ip", "route", "show", "type", "unreachable", "exact", str(net.external)]):
            run(["ip", "route", "del", "unreachable", str(net.external)])
        for path in self.folder.glob("*"):
            self._remove_name_space(path)
        # They are removed with their namespaces, but for many of those the kernel takes long.
        ports = [name for name in link_names() if name.startswith(self._ports)]
        words = "".join(f"link del {port}\n" for port in sorted(ports))
        run(["sh", "-c", "ip -force -batch - 2>/dev/null || :"], text=words)

    @property
    def folder(self) -> Path:
        """Return the folder with the namespace files."""
        return self._engine.layout.run_dir / "net"

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command prefixed so that it sees the name spaces."""
        return self._engine.wrap(command)

    def call(self, *command: str) -> str:
        """Run a program that sees the namespaces."""
        return self._engine.call(*command)

    def name_space(self, machine_id: str) -> Path:
        """Return the file that holds a machine's network name space."""
        return self.folder / machine_id

    def holds(self, machine_id: str, pid: int) -> bool:
        """Return whether a process runs in the machine's name space."""
        ours = self._engine.call("stat", "-L", "-c", "%i", str(self.name_space(machine_id)))
        try:
            return Path(f"/proc/{pid}/ns/net").stat().st_ino == int(ours)
        except OSError:
            return False

    def _remove_name_space(self, path: Path) -> None:
        if path.exists():
            self._engine.call("sh", "-c", 'umount "$1" 2>/dev/null; rm -f "$1"', "sh", str(path))

    def port(self, internal_ip: str) -> str:
        """Return the name of a machine's link at the bridge."""
        host = int(IPv4Address(internal_ip)) - int(self.network.internal.network_address)
        return f"{self._ports}{host:x}"

    @property
    def _ports(self) -> str:
        return f"tv{self.network.cloud_id}"

    def plug(self, machine_id: str, internal_ip: str) -> None:
        """Give the machine a new name space with its internal address."""
        self.unplug(machine_id, internal_ip)
        path, port, net = self.name_space(machine_id), self.port(internal_ip), self.network
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        octets = ":".join(f"{octet:02x}" for octet in IPv4Address(internal_ip).packed)
        # External addresses are routed, never resolved by ARP or learnt from redirects.
        knobs = [
            f"net.ipv4.conf.{where}.{knob}"
            for where in ("all", "default", "eth0")
            for knob in ("accept_redirects=0", "arp_ignore=1")
        ]
        inside = [
            "set -e",
            "ip link set lo up",
            f"ip link set eth0 address 02:00:{octets}",
            f"ip address add {internal_ip}/{net.internal.prefixlen} dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {net.gateway}",
            f"sysctl -q -w {' '.join(knobs)}",
        ]
        call = self._engine.call
        call("unshare", f"--net={path}", "true")
        call(*f"ip link add {port} type veth peer name eth0 netns {path}".split())
        call("ip", "link", "set", port, "master", net.bridge, "up")
        call("nsenter", f"--net={path}", "sh", "-c", "\n".join(inside))

    def hand_over(self, machine_id: str, internal_ip: str) -> None:
        """Give the link of a new name space to the machine's own kernel."""
        path = self.name_space(machine_id)
        script = "\n".join(bridge_words(internal_ip))
        self._engine.call("nsenter", f"--net={path}", "sh", "-c", script)

    def unplug(self, machine_id: str, internal_ip: str) -> None:
        """Remove the machine's name space and link, if they exist."""
        port = self.port(internal_ip)
        if port in link_names():
            run(["ip", "link", "del", port])
        self._remove_name_space(self.name_space(machine_id))

    def route(self, external_ip: str, internal_ip: str) -> None:
        """Route an external address to the machine."""
        way = ["via", internal_ip, "dev", self.network.bridge]
        run(["ip", "route", "replace", f"{external_ip}/32", *way])

    def unroute(self, external_ip: str, internal_ip: str) -> None:
        """Remove the route of an external address, unless it now leads to another machine."""
        shown = json.loads(run(["ip", "-json", "route", "show", f"{external_ip}/32"]) or "[]")
        if any(route.get("gateway") == internal_ip for route in shown):
            run(["ip", "route", "del", f"{external_ip}/32", "via", internal_ip])


def bridge_words(internal_ip: str) -> list[str]:
    """Return the commands that hand a namespace's link to the kernel in it."""
    octets = ":".join(f"{int(part):02x}" for part in internal_ip.split("."))
    return [
        "set -e",
        "ip address flush dev eth0",
        # The machine's kernel now uses the MAC address.
        f"ip link set eth0 down address 02:01:{octets}",
        "ip link add br0 type bridge",
        f"ip tuntap add {TAP} mode tap",
        f"ip link set {TAP} master br0 up",
        "ip link set eth0 master br0 up",
        "ip link set br0 up",
    ]


def _iptables(*arguments: str) -> str | None:
    """Return what iptables prints; None if it fails or is not there."""
    try:
        return run(["iptables", "-w", *arguments])
    except MachineError:
        return None
