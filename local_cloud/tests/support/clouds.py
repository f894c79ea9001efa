"""Clouds in this process: without machines, or with machines that come up when a test lets them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tpu_local_cloud.machines import MachineError, MachineSpec
from tpu_local_cloud.machines.none import NoMachines
from tpu_local_cloud.model.cloud import Cloud
from tpu_local_cloud.model.shared.clock import Clock, Mode
from tpu_local_cloud.model.shared.store import Store


def a_cloud(mode: Mode = "immediate", path: Path | None = None, **more: Any) -> Cloud:
    """Return a cloud without machines, whose state is kept at the path, if there is one."""
    return Cloud(NoMachines(), Store(path), Clock(mode), **more)


class SlowMachines(NoMachines):
    """Machines that come up when they are let, unless they are broken."""

    name = "slow"

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.broken = False

    def create(self, spec: MachineSpec) -> None:
        """Wait until it may go on."""
        self.begun.set()
        assert self.go_on.wait(10)
        if self.broken:
            raise MachineError("it does not come up")
        super().create(spec)


def until(cloud: Cloud, condition: Callable[[], Any]) -> None:
    """Wait until a condition holds, while the cloud carries out what is due."""
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline, [(t.kind, t.node) for t in cloud.tasks.values()]
        time.sleep(0.01)
        cloud.advance()
