"""The machines' power supply: boots a machine again when it rebooted itself.

One small process for each cloud, apart from the API server, so that `sudo reboot` in a machine
works while the server is down. A system container that reboots ends with exit code 129; one that
powers off, with 130; both are final for podman, so somebody has to tell them apart.
"""

from __future__ import annotations

import fcntl
import os
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from .base import MachineError
from .disks import DataDisks
from .engine import Engine
from .host import engine_settings, read_facts
from .kernel import wants_reboot
from .layout import Layout, locked, read_json, write_json
from .network import Network, Wiring

REBOOT = 129


class Keeper:
    """Watches the machines of one cloud."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._engine = Engine(layout, engine_settings(read_facts()))
        self._watched: dict[int, tuple[str, int]] = {}
        self._poll = select.poll()

    def run(self) -> None:
        """Work until the cloud is gone."""
        while self._layout.host_file.exists():
            self._look_for_new()
            for handle, _ in self._poll.poll(500):
                machine_id, pid = self._watched.pop(handle)
                self._poll.unregister(handle)
                os.close(handle)
                self._ended(machine_id, pid)

    def _look_for_new(self) -> None:
        seen = set(self._watched.values())
        for path in self._layout.machines_dir.glob("*.json"):
            machine_id = path.stem
            pid = machine_pid(self._layout, machine_id)
            if pid is None or (machine_id, pid) in seen:
                continue
            try:
                handle = os.pidfd_open(pid)
            except ProcessLookupError:
                self._ended(machine_id, pid)
                continue
            self._watched[handle] = (machine_id, pid)
            self._poll.register(handle, select.POLLIN)

    def _ended(self, machine_id: str, pid: int) -> None:
        """Do what has to be done about a machine whose PID 1 ended."""
        with locked(self._layout.lock_file(machine_id)):
            if machine_pid(self._layout, machine_id) != pid:
                return  # The server has booted it again meanwhile, or removed it.
            self._layout.pid_file(machine_id).unlink(missing_ok=True)
            record = read_json(self._layout.record(machine_id))
            host = read_json(self._layout.host_file)
            if host is None or record is None or record["power"] != "on":
                return
            try:
                code = int(self._engine.podman("wait", machine_id).split()[-1])
                if code == REBOOT or wants_reboot(self._layout, machine_id):
                    log(f"{machine_id}: reboots")
                    boot(self._engine, Wiring(Network(**host["network"]), self._engine), record)
                else:
                    log(f"{machine_id}: is off (exit code {code})")
                    write_json(self._layout.record(machine_id), {**record, "power": "off"})
            except MachineError as error:
                log(f"{machine_id}: {error}")


def boot(engine: Engine, wiring: Wiring, record: dict[str, Any]) -> None:
    """Start a machine that exists and is off."""
    # Firewall rules and sysctls are a kernel's memory: they do not outlive it.
    wiring.plug(record["machine_id"], record["internal_ip"])
    if record.get("own_kernel"):
        wiring.hand_over(record["machine_id"], record["internal_ip"])
    # So are loop devices.
    DataDisks(engine.layout).connect(record["machine_id"])
    engine.podman("start", record["machine_id"])


def machine_pid(layout: Layout, machine_id: str) -> int | None:
    """Return the process id of a machine's PID 1, as it was when it booted last."""
    try:
        return int(layout.pid_file(machine_id).read_text())
    except (OSError, ValueError):
        return None


def log(text: str) -> None:
    """Write a line to the keeper's log."""
    print(f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {text}", flush=True)


def _sole(layout: Layout) -> IO[str] | None:
    """Return the lock of the one keeper, or None when there is one already."""
    handle = (layout.run_dir / "keeper.lock").open("a+")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return None
    handle.seek(0)
    handle.truncate()
    handle.write(f"{os.getpid()}\n")
    handle.flush()
    return handle


def keeper_pid(layout: Layout) -> int | None:
    """Return the running keeper's process id."""
    try:
        handle = (layout.run_dir / "keeper.lock").open("r+")
    except FileNotFoundError:
        return None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = handle.read().strip()
            return int(text) if text else None
    return None


def start_keeper(layout: Layout) -> None:
    """Start the keeper, unless it runs."""
    if keeper_pid(layout) is not None:
        return
    with (layout.home / "keeper.log").open("a") as output:
        # By way of a shell that ends at once: the keeper must be nobody's child.
        subprocess.run(
            ["sh", "-c", '"$@" &', "sh", sys.executable, "-m", __name__, str(layout.state_dir)],
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            cwd="/",
        )


def main() -> None:
    """Keep the machines of the cloud in the given state directory."""
    layout = Layout(Path(sys.argv[1]))
    lock = _sole(layout)
    if lock is not None:
        with lock:
            Keeper(layout).run()


if __name__ == "__main__":
    main()
