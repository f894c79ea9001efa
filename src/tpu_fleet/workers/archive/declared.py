"""The archives that the fleet file declares."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansible_collections.tpu.fleet.plugins.module_utils._core.archive import Life, prefix_of

from ..inventory.read import PlayError, read_inventory

if TYPE_CHECKING:
    # It brings Ansible, which a log of a machine that is there does not need.
    from ansible_collections.tpu.fleet.plugins.module_utils._google.archive import RunArchive
    from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import Inventory


@dataclass(frozen=True)
class Kept:
    """The archive of a run, and what was in it when it was listed."""

    run: str
    address: str
    archive: RunArchive
    lives: list[Life]


@dataclass
class Archives:
    """Lists each archive once; the fleet file is read when the first is asked for.

    Several threads may ask: the first one reads, and the others wait for it.
    """

    read: Callable[[], Inventory] = read_inventory
    elsewhere: Callable[[str], str] = lambda _run: ""
    """Returns where a run has its archive that the fleet file does not declare; empty: nowhere."""
    _inventory: list[Inventory] = field(default_factory=list)
    _addresses: dict[str, str] = field(default_factory=dict)
    _kept: dict[str, Kept | None] = field(default_factory=dict)
    _one: threading.RLock = field(default_factory=threading.RLock)

    @property
    def inventory(self) -> Inventory:
        """Return the inventory; raises PlayError."""
        with self._one:
            if not self._inventory:
                self._inventory.append(self.read())
            return self._inventory[0]

    def said(self, name: str, otherwise: Any = None) -> Any:
        """Return what the fleet file says under a variable; raises PlayError."""
        from ansible_collections.tpu.fleet.plugins.plugin_utils._inventory.read import (
            InventoryError,
        )

        try:
            return self.inventory.said(name, otherwise)
        except InventoryError as error:
            raise PlayError(str(error)) from error

    def addresses(self) -> Mapping[str, str]:
        """Return where each declared run has its archive; raises PlayError."""
        from ansible_collections.tpu.fleet.plugins.module_utils._roles.training_run import (
            definition,
        )

        if not self._addresses:
            runs: list[Mapping[str, Any]] = list(self.said("fleet_runs", ()))
            found = {str(run.get("name")): definition.archive_of(run) for run in runs}
            self._addresses = {run: address for run, address in found.items() if address}
        return self._addresses

    def of(self, run: str) -> Kept | None:
        """Return a run's archive; None if it has none.

        Raises PlayError and TpuError.
        """
        with self._one:
            if run not in self._kept:
                address = self.addresses().get(run) or self.elsewhere(run)
                self._kept[run] = self._listed(run, address)
            return self._kept[run]

    def _listed(self, run: str, address: str) -> Kept | None:
        from ansible_collections.tpu.fleet.plugins.module_utils._google.apis import GoogleApis
        from ansible_collections.tpu.fleet.plugins.module_utils._google.archive import RunArchive

        from ..inventory.client import client_of

        place = prefix_of(address, run)
        if place is None:
            return None
        archive = RunArchive(GoogleApis(client_of(self.inventory)), *place)
        return Kept(run, address, archive, archive.lives())

    def folder_of_results(self) -> Path:
        """Return the folder to which the playbook collect brings what runs left."""
        declared = self.said("fleet_results_dir")
        if not declared:
            return Path.cwd() / "collected"
        first = Path(self.inventory.sources[0]).absolute()
        return (first if first.is_dir() else first.parent) / Path(str(declared)).expanduser()
