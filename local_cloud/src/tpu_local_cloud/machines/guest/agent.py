"""The guest agent: host keys, accounts and the external address, at boot and on every change."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from . import accounts
from .metadata import Metadata, Unavailable

LAST_EXTERNAL = Path("/var/lib/google/external_ip")
HOST_KEYS = Path("/etc/ssh")
# Long enough to cause little traffic, short enough to see keys expire in time.
WAIT = 60


def host_keys(folder: Path) -> dict[str, str]:
    """Return the machine's public keys by type."""
    found = {}
    for path in sorted(folder.glob("ssh_host_*_key.pub")):
        fields = path.read_text().split()
        if len(fields) >= 2:
            found[fields[0]] = fields[1]
    return found


def external_ip(tree: dict[str, Any]) -> str:
    """Return the machine's external address, or nothing."""
    for interface in tree.get("instance", {}).get("networkInterfaces", [])[:1]:
        for access in interface.get("accessConfigs", [])[:1]:
            return str(access.get("externalIp", ""))
    return ""


def address_changes(have: list[str], want: str) -> list[list[str]]:
    """Return the `ip address` commands that leave only `want` and 127.0.0.1 on `lo`."""
    wanted = [want] if want else []
    stale = [address for address in have if address not in wanted]
    fresh = [address for address in wanted if address not in have]
    return [["del", f"{a}/32", "dev", "lo"] for a in stale] + [
        ["add", f"{a}/32", "dev", "lo"] for a in fresh
    ]


def apply_external(want: str) -> None:
    """Put the external address on this machine."""
    shown = subprocess.run(
        ["ip", "-4", "-json", "address", "show", "dev", "lo"],
        check=False,
        capture_output=True,
        text=True,
    )
    links = json.loads(shown.stdout or "[]")
    have = [
        entry["local"]
        for link in links
        for entry in link.get("addr_info", [])
        if not entry["local"].startswith("127.")
    ]
    for change in address_changes(have, want):
        subprocess.run(["ip", "address", *change], check=False)
    LAST_EXTERNAL.parent.mkdir(parents=True, exist_ok=True)
    LAST_EXTERNAL.write_text(want)


def publish(metadata: Metadata) -> None:
    """Publish the machine's host keys and name to the cloud."""
    for kind, key in host_keys(HOST_KEYS).items():
        metadata.put_guest_attribute("hostkeys", kind, key)
    metadata.put_guest_attribute("guestInventory", "hostname", socket.gethostname())


def apply(tree: dict[str, Any]) -> None:
    """Update the accounts of this machine from the metadata."""
    instance = tree.get("instance", {}).get("attributes", {})
    project = tree.get("project", {}).get("attributes", {})
    if instance.get("enable-oslogin", "").lower() != "true":
        accounts.apply(accounts.wanted_keys(instance, project, accounts.now()))


def main() -> None:
    """Follow the metadata until the machine goes down."""
    metadata = Metadata()
    if LAST_EXTERNAL.exists():
        # While the cloud does not answer, the machine keeps its address.
        apply_external(LAST_EXTERNAL.read_text())
    published, etag = False, ""
    while True:
        try:
            tree, etag = metadata.tree(etag, WAIT if etag else 0)
            apply(tree)
            if not published:
                publish(metadata)
                published = True
                print("host keys are published", flush=True)
            # Last: once the machine is reachable from outside, the rest is done.
            apply_external(external_ip(tree))
            if not etag:
                time.sleep(5)
        except Unavailable:
            # A restarted cloud may have lost what was published.
            published, etag = False, ""
            time.sleep(1)


if __name__ == "__main__":
    main()
