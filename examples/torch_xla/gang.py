"""The programs on all workers as one job.

With torch_xla the chips of a slice are one mesh, on which the compiler itself adds up what its
parts compute. For the CPUs of several workers it has no collectives: there each program is a mesh
of its own, and what they compute is added up through the hosts, by gloo. So it is without
torch_xla, where the mesh of a program is one chip with TorchTPU, or the CPU. All else that workers
agree on goes through the hosts everywhere.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import socket
import struct
from typing import Any

import accelerator  # first: it prepares what torch_xla reads when it is imported
import numpy as np
import torch
import torch.distributed as dist

XLA = importlib.util.find_spec("torch_xla") is not None
if XLA:
    import torch_xla
    import torch_xla.runtime as xr
    from torch_xla.distributed import spmd

_SIOCGIFADDR = 0x8915


class Gang:
    """One worker's view of the job."""

    def __init__(self) -> None:
        self.worker = int(os.environ.get("TPU_FLEET_WORKER", "0"))
        self.workers = int(os.environ.get("TPU_FLEET_WORKERS", "1"))
        if self.workers > 1:
            coordinator = os.environ["TPU_FLEET_COORDINATOR"]
            # By itself gloo takes the host's name for its address, which may lead to loopback.
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface_to(coordinator))
            place = {"rank": self.worker, "world_size": self.workers}
            dist.init_process_group("gloo", init_method=f"tcp://{coordinator}", **place)
        # How many meshes there are: with torch_xla one on TPUs, otherwise as many as workers.
        self.meshes = self.workers
        devices = 1
        if XLA:
            xr.use_spmd()
            devices = xr.global_runtime_device_count()
            self._mesh = spmd.Mesh(np.arange(devices), (devices,), ("data",))
            self.meshes //= xr.process_count()
        self.device = "xla" if XLA else "tpu" if accelerator.tpu_chips() else "cpu"
        self.devices = devices * self.meshes

    def share(self, batch: np.ndarray) -> torch.Tensor:
        """Put a batch on the mesh; where there are several, this worker's part of it."""
        part = np.split(batch, self.meshes)[self.worker] if self.meshes > 1 else batch
        tensor = torch.from_numpy(part).to(self.device)
        if XLA:
            spmd.mark_sharding(tensor, self._mesh, ("data",) + (None,) * (part.ndim - 1))
        return tensor

    def compute(self) -> None:
        """Have computed what was said so far; torch_xla collects it, the others do it at once."""
        if XLA:
            torch_xla.sync()

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """Add up a vector in the hosts' memory over all workers."""
        if self.workers > 1:
            dist.all_reduce(values)
        return values

    def from_first(self, value: Any) -> Any:
        """Return what worker 0 gives, on all workers."""
        given = [value]
        if self.workers > 1:
            dist.broadcast_object_list(given)
        return given[0]


def interface_to(coordinator: str) -> str:
    """Name the network interface on the way to worker 0."""
    host, _, port = coordinator.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((host, int(port)))
        own = socket.inet_aton(probe.getsockname()[0])
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue  # it has no address
            if answer[20:24] == own:
                return name
    raise OSError(f"no network interface has the address {socket.inet_ntoa(own)}")
