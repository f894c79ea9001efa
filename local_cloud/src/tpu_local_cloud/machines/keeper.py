"""The keeper: boots a machine again after it rebooted itself.

One small process for each cloud, separate from the API server, so that `sudo reboot` in a machine
works while the server is down. A system container that reboots exits with 129, one that powers off
with 130. podman treats both as final, so the keeper distinguishes them.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path
from typing import Any

from .base import MachineError
from .census import Census, allow_many_files
from .disks import DataDisks
from .engine import Engine
from .helpers import sole, start_helper
from .host import engine_settings, read_facts
from .kernel import wants_reboot
from .layout import Layout, locked, read_json, write_json
from .network import Network, Wiring
from .small import SmallMachines, asks_for_reboot

NAME = "keeper"
REBOOT = 129
TRIES = 3


class Keeper:
    """Watches the machines of one cloud."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._engine = Engine(layout, engine_settings(read_facts()))
        self._census = Census(layout)
        self._watched: dict[int, tuple[str, int]] = {}
        self._poll = select.poll()

    def run(self) -> None:
        """Run until the cloud is removed."""
        while self._layout.host_file.exists():
            self._look_for_new()
            for handle, _ in self._poll.poll(500):
                machine_id, pid = self._watched.pop(handle)
                self._poll.unregister(handle)
                os.close(handle)
                self._ended(machine_id, pid)

    def _look_for_new(self) -> None:
        seen = set(self._watched.values())
        for machine_id, pid in (self._census.look() or {}).items():
            if (machine_id, pid) in seen:
                continue
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                self._ended(machine_id, pid)
                continue
            self._watched[handle] = (machine_id, pid)
            self._poll.register(handle, select.POLLIN)

    def _ended(self, machine_id: str, pid: int) -> None:
        """Handle a machine whose PID 1 has ended."""
        with locked(self._layout.lock_file(machine_id)):
            if machine_pid(self._layout, machine_id) != pid:
                return  # The server has booted or removed it meanwhile.
            self._layout.pid_file(machine_id).unlink(missing_ok=True)
            record = read_json(self._layout.record(machine_id))
            host = read_json(self._layout.host_file)
            if host is None or record is None or record["power"] != "on":
                return
            try:
                if self._wants_reboot(record):
                    log(f"{machine_id}: reboots")
                    self._boot(record, Network(**host["network"]))
                else:
                    log(f"{machine_id}: is off")
                    write_json(self._layout.record(machine_id), {**record, "power": "off"})
            except MachineError as error:
                log(f"{machine_id}: {error}")

    def _boot(self, record: dict[str, Any], network: Network) -> None:
        """Boot a machine; retry failures, because no caller would."""
        for left in reversed(range(TRIES)):
            try:
                boot(self._engine, Wiring(network, self._engine), record)
            except MachineError as error:
                if not left:
                    raise
                log(f"{record['machine_id']}: {error}; retrying")
                time.sleep(1)
            else:
                return

    def _wants_reboot(self, record: dict[str, Any]) -> bool:
        machine_id = record["machine_id"]
        if record.get("small"):
            return asks_for_reboot(self._layout, machine_id)
        code = int(self._engine.podman("wait", machine_id).split()[-1])
        return code == REBOOT or wants_reboot(self._layout, machine_id)


def boot(engine: Engine, wiring: Wiring, record: dict[str, Any]) -> None:
    """Start a machine that exists and is off."""
    if record.get("small"):
        SmallMachines(engine.layout, wiring).boot(record)
        return
    # Firewall rules and sysctls are lost when the computer reboots.
    wiring.plug(record["machine_id"], record["internal_ip"])
    if record.get("own_kernel"):
        wiring.hand_over(record["machine_id"], record["internal_ip"])
    # So are loop devices.
    DataDisks(engine.layout).connect(record["machine_id"])
    engine.podman("start", record["machine_id"])


def machine_pid(layout: Layout, machine_id: str) -> int | None:
    """Return the process id of a machine's PID 1 at its last boot."""
    try:
        return int(layout.pid_file(machine_id).read_text())
    except (OSError, ValueError):
        return None


def log(text: str) -> None:
    """Write a line to the keeper's log."""
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}", flush=True)


def start_keeper(layout: Layout) -> None:
    """Start the keeper, unless it runs."""
    start_helper(layout, NAME, __name__)


def main() -> None:
    """Keep the machines of the cloud in the given state directory."""
    layout = Layout(Path(sys.argv[1]))
    lock = sole(layout, NAME)
    if lock is not None:
        allow_many_files()
        with lock:
            Keeper(layout).run()


if __name__ == "__main__":
    main()
