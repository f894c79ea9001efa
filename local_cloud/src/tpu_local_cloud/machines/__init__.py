"""The machines of workers: addresses only (`none`) or system containers (`container`).

May import: nothing.
"""

from __future__ import annotations

from pathlib import Path

from .base import SHUTDOWN_LIMIT, DataDisk, MachineBackend, MachineError, MachineSpec
from .none import NoMachines

__all__ = [
    "BACKENDS",
    "SHUTDOWN_LIMIT",
    "DataDisk",
    "MachineBackend",
    "MachineError",
    "MachineSpec",
    "make_backend",
]

BACKENDS = ("none", "container")


def make_backend(hosts: str, state_dir: Path) -> MachineBackend:
    """Return the machine backend `hosts` for the cloud in `state_dir`."""
    if hosts == "none":
        return NoMachines()
    if hosts == "container":
        from .container import ContainerMachines

        return ContainerMachines(state_dir)
    raise ValueError(f"no machine backend is called {hosts!r}; there are: {', '.join(BACKENDS)}")
