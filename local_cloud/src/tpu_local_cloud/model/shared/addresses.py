"""The addresses of workers. Callers that change them hold the cloud's lock."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from ...machines import MachineBackend
from .records import NodeRecord

# What the machines' helpers are called, with whose files a machine's would be confused.
_HELPERS = ("agent", "delay", "hub", "keeper", "small-common")


class AddressBook:
    """The internal and external addresses of all nodes, from the backend's pools."""

    def __init__(self, backend: MachineBackend) -> None:
        self._backend = backend
        self._internal: set[str] = set()
        self._external: set[str] = set()
        self._workers: dict[str, tuple[str, int]] = {}
        self._machines: set[str] = set()

    def worker_at(self, address: str) -> tuple[str, int] | None:
        """Return the key of the node and the worker that have this internal address."""
        return self._workers.get(address)

    def has_external(self, address: str) -> bool:
        """Return whether a worker has this external address."""
        return address in self._external

    def is_empty(self) -> bool:
        """Return whether no address is in use."""
        return not (self._internal or self._external or self._workers)

    def equip(self, node: NodeRecord, workers: int, names: list[str] | None = None) -> None:
        """Assign names and addresses to the machines of a new node."""
        stem = f"t1v-n-{secrets.token_hex(4)}-w"
        ids = [self._free_id(name) for name in names or []]
        node.guest = [{} for _ in range(workers)]
        for worker in range(workers):
            node.machines.append(
                {
                    "machine_id": ids[worker] if ids else f"{stem}-{worker}",
                    "internal_ip": self._take_internal(),
                    "external_ip": self._take_external() if node.external_ips else None,
                }
            )
            if len(node.networks) > 1:
                node.extra_nics.append([self._take_internal() for _ in node.networks[1:]])
        self.enter(node)

    def _free_id(self, name: str) -> str:
        """Return an instance's name, unless something else has it: one in another zone, say."""
        taken = name in self._machines or name in _HELPERS
        return f"{name}-{secrets.token_hex(2)}" if taken else name

    def enter(self, node: NodeRecord) -> None:
        """Record the addresses of a node."""
        for worker, machine in enumerate(node.machines):
            self._machines.add(machine["machine_id"])
            self._internal.add(machine["internal_ip"])
            self._workers[machine["internal_ip"]] = (node.key, worker)
            if machine["external_ip"]:
                self._external.add(machine["external_ip"])
        for addresses in node.extra_nics:
            self._internal.update(addresses)

    def release(self, node: NodeRecord) -> None:
        """Release the addresses of a node."""
        for machine in node.machines:
            self._machines.discard(machine["machine_id"])
            self._workers.pop(machine["internal_ip"], None)
            self._internal.discard(machine["internal_ip"])
            self._external.discard(machine["external_ip"])
        for addresses in node.extra_nics:
            self._internal.difference_update(addresses)

    def change_external(
        self, node: NodeRecord, workers: Iterable[int], address: str | bool | None
    ) -> None:
        """Give workers another external address: the given one, any other (True), or none."""
        for worker in workers:
            machine = node.machines[worker]
            old = machine["external_ip"]
            if isinstance(address, str):
                machine["external_ip"] = address
                self._external.add(address)
            else:
                # The old one stays in use until the new one is chosen, so that they differ.
                machine["external_ip"] = self._take_external() if address else None
            if old:
                self._external.discard(old)

    def clear(self) -> None:
        """Release every address."""
        self._internal.clear()
        self._external.clear()
        self._workers.clear()
        self._machines.clear()

    def _take_internal(self) -> str:
        return _take(self._internal, self._backend.allocate_internal)

    def _take_external(self) -> str:
        return _take(self._external, self._backend.allocate_external)


def _take(used: set[str], allocate: Callable[[set[str]], str]) -> str:
    address = allocate(used)
    used.add(address)
    return address
