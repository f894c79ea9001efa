"""What takes the place of machines in a cloud that has only addresses."""

from __future__ import annotations

from .ledger import Ledger
from .records import NodeRecord, made_up_host_key


def note_running(ledger: Ledger, node: NodeRecord) -> None:
    """Note which machines run for a backend without machines, which stores nothing."""
    if ledger.backend.name == "none":
        for worker in range(len(node.machines)):
            ledger.backend.create(node.spec(worker))


def make_up_guest_attributes(node: NodeRecord) -> None:
    """Publish what real machines would, for machines that do not exist."""
    node.guest = [
        {
            "hostkeys": {"ssh-ed25519": made_up_host_key(machine["machine_id"])},
            "guestInventory": {"Hostname": machine["machine_id"]},
            "tpu": {"hostname": machine["machine_id"]},
        }
        for machine in node.machines
    ]
