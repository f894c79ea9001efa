"""The monitoring ports of machines whose processes hold chips: open as long as these hold them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from contextlib import suppress
from dataclasses import dataclass

from ..machines import MachineBackend, chips
from ..model.cloud import Cloud
from ..model.shared import chips as reports
from ..model.shared.clock import seconds_of
from ..model.shared.records import NodeRecord
from ..tables._schema.accelerators import GENERATIONS, parse
from .monitoring import MonitoringGrpc, socket_name

METADATA_KEY = "local-cloud-chips"
"""A node's metadata with this key has so many chips on each machine: their device files."""
LOOK_EVERY = 1.0
_HIGHEST = 64


@dataclass
class _Open:
    """A port that is open in a machine."""

    leader: int
    uid: int
    server: asyncio.Server


def wanted_chips(node: NodeRecord, worker: int) -> int:
    """Return the number of chips that a machine's metadata declares; 0 if it is not a number."""
    own = node.machines[worker].get("metadata") if node.api == "compute" else None
    said = str((own or node.body.get("metadata") or {}).get(METADATA_KEY, ""))
    return min(int(said), _HIGHEST) if said.isdigit() else 0


class ChipPorts:
    """Opens and closes the monitoring ports of one cloud's machines."""

    def __init__(self, cloud: Cloud, backend: MachineBackend) -> None:
        self._cloud, self._backend = cloud, backend
        self._grpc = MonitoringGrpc(self.report)
        self._held: dict[str, reports.Machine] = {}
        self._open: dict[str, _Open] = {}
        self._count = itertools.count()

    def report(self, machine_id: str) -> tuple[reports.Report, str] | None:
        """Return what a machine's port reports now, and how it lies."""
        machine = self._held.get(machine_id)
        if machine is None:
            return None
        now, faults = self._cloud.clock.now(), self._cloud.faults
        found = reports.report(machine, now, *reports.faults_of(faults, now, machine))
        where = {"node": machine.node, "zone": machine.zone, "worker": machine.worker}
        lies = faults.active("monitoring", now, **where)
        return found, str(lies.options.get("how", "numbers")) if lies else ""

    async def run(self) -> None:
        """Serve until this task is cancelled."""
        self._grpc.start()
        try:
            while True:
                await self._look()
                await asyncio.sleep(LOOK_EVERY)
        finally:
            for machine_id in list(self._open):
                self._close(machine_id)
            self._grpc.stop()

    async def _look(self) -> None:
        leaders, held = await asyncio.to_thread(self._seen)
        for machine_id, found in list(self._open.items()):
            now = held.get(machine_id)
            if now is None or (leaders[machine_id], now.uid) != (found.leader, found.uid):
                self._close(machine_id)
        for machine_id, now in held.items():
            if machine_id not in self._open:
                await self._begin(machine_id, leaders[machine_id], now.uid)

    def _seen(self) -> tuple[dict[str, int], dict[str, chips.Held]]:
        """Return PID 1 of each running machine, and what is held on each."""
        records = [*self._cloud.nodes_in("-"), *self._cloud.compute.records()]
        places = {
            machine["machine_id"]: (node, worker)
            for node in records
            for worker, machine in enumerate(node.machines)
        }
        found = {machine_id: self._backend.leader(machine_id) for machine_id in places}
        leaders = {machine_id: pid for machine_id, pid in found.items() if pid is not None}
        for machine_id, leader in leaders.items():
            with suppress(OSError):
                chips.provide(leader, wanted_chips(*places[machine_id]))
        held = chips.held(leaders)
        self._held = {
            machine_id: machine_of(*places[machine_id], one.chips)
            for machine_id, one in held.items()
        }
        return leaders, held

    async def _begin(self, machine_id: str, leader: int, uid: int) -> None:
        try:
            there = await asyncio.to_thread(chips.listener, leader, uid)
        except OSError as error:
            # Another program has the port, as may happen to libtpu.
            logging.getLogger(__name__).debug("%s: no monitoring port: %s", machine_id, error)
            return

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._relay(machine_id, reader, writer)

        server = await asyncio.start_server(relay, sock=there)
        self._open[machine_id] = _Open(leader, uid, server)

    def _close(self, machine_id: str) -> None:
        self._open.pop(machine_id).server.close()

    async def _relay(
        self, machine_id: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Pass a connection on to the gRPC server, from a socket that names the machine."""
        there = socket.socket(socket.AF_UNIX)
        there.setblocking(False)
        there.bind(socket_name(machine_id, next(self._count)))
        with suppress(OSError):
            await asyncio.get_running_loop().sock_connect(there, self._grpc.path)
            back, forth = await asyncio.open_unix_connection(sock=there)
            await asyncio.gather(_pump(reader, forth), _pump(back, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def machine_of(node: NodeRecord, worker: int, held: tuple[int, ...]) -> reports.Machine:
    """Return what the report of a worker needs; of an unknown type chips of v4."""
    kind = parse(node.accelerator_type)
    row = GENERATIONS[kind.generation if kind else "v4"]
    return reports.Machine(
        node=node.name,
        zone=node.zone,
        worker=worker,
        workers=len(node.machines),
        created=seconds_of(node.created),
        chips=held,
        hbm_gib=row.hbm_gib,
        devices_per_chip=row.devices_per_chip,
    )
