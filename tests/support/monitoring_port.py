"""A monitoring port of the local cloud on this computer, without machines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tpu_local_cloud.model.shared import chips
from tpu_local_cloud.model.shared.faults import Fault, Faults
from tpu_local_cloud.serve.monitoring import MonitoringGrpc

CREATED = 1000.0
NOW = CREATED + 811.5
PAIR = chips.Machine("pair", "us-central2-b", 1, 2, CREATED, (0, 1), 32)


class Port:
    """What one machine reports, with the faults that are switched on."""

    def __init__(self, machine: chips.Machine = PAIR) -> None:
        self.machine, self.now, self.faults, self.how = machine, NOW, Faults(), ""
        self.server = MonitoringGrpc(self.look, "127.0.0.1")

    @property
    def port(self) -> int:
        return self.server.port

    def look(self, _machine: str) -> tuple[chips.Report, str]:
        found = chips.faults_of(self.faults, self.now, self.machine)
        return chips.report(self.machine, self.now, *found), self.how

    def fault(self, kind: str, worker: int, **options: object) -> None:
        self.faults.add(Fault(kind, {"worker": worker}, since=NOW, options=options))


@contextmanager
def serving(machine: chips.Machine = PAIR) -> Iterator[Port]:
    found = Port(machine)
    found.server.start()
    try:
        yield found
    finally:
        found.server.stop()
