"""Workers as system containers, each with systemd, sshd, its own address and disk."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from . import delay, image, kernel, small_agent, sysctls
from .base import SHUTDOWN_LIMIT, AddressPool, MachineError, MachineSpec, PowerStatus
from .disks import REFRESH, DataDisks
from .engine import MACHINE_FLAGS, Engine
from .helpers import stop_helper
from .host import Progress, engine_settings, read_facts
from .hub import Hub
from .keeper import NAME as KEEPER
from .keeper import boot, log, machine_pid, start_keeper
from .layout import (
    AUTHORITY,
    IMAGE_CACHE,
    SHARED_LIB,
    SHARED_RUN,
    Layout,
    locked,
    read_json,
    write_json,
)
from .network import Network, Wiring, choose_network
from .patience import wait_for
from .small import METADATA_KEY, SmallMachines, end_all, refuse_disks

BOOT_LIMIT = 90.0
SHARE = "/mnt/share"
# Marks an image that is kept without any cloud.
_PREPARED = "prepared"


class ContainerMachines:
    """The machines of one cloud."""

    name = "container"

    def __init__(self, state_dir: Path) -> None:
        self._layout = Layout(state_dir)
        self._facts = read_facts()
        self._engine = Engine(self._layout, engine_settings(self._facts))
        self._disks = DataDisks(self._layout)
        self._setup: tuple[Wiring, str] | None = None
        self._pools: tuple[AddressPool, AddressPool] | None = None

    # -- the whole cloud ----------------------------------------------------------------------

    def prepare(self, wanted_image: str, progress: Progress) -> None:
        """Choose a network and get the image; `cloud up` does this before it starts the server."""
        self._engine.prepare()
        sysctls.apply()
        rootfs = image.Images(self._engine, self._facts, progress).ensure(
            wanted_image, self._layout.cloud_id, self._layout.state_dir
        )
        with locked(SHARED_RUN / "lock"):
            host = read_json(self._layout.host_file) or {}
            network = Network(**host["network"]) if host else choose_network(self._layout.cloud_id)
            Wiring(network, self._engine).up()
        write_json(self._layout.host_file, {"network": network.to_dict(), "rootfs": str(rootfs)})

    def open(self) -> None:
        """Adopt the machines; boot those that should run but do not."""
        self._engine.prepare()
        sysctls.apply()
        self._wiring.up()
        self._disks.sweep({path.stem for path in self._layout.machines_dir.glob("*.json")})
        records = [self._record(path.stem) for path in self._layout.machines_dir.glob("*.json")]
        with ThreadPoolExecutor(max_workers=4) as workers:
            for done in [workers.submit(self._revive, record) for record in records if record]:
                done.result()
        start_keeper(self._layout)
        if any(record and record.get("small") for record in records):
            small_agent.start(self._layout)
        if self.round_trip():
            self.round_trip(self.round_trip())

    def _revive(self, record: dict[str, Any]) -> None:
        with locked(self._layout.lock_file(record["machine_id"])):
            if record["power"] == "on":
                if not self._alive(record["machine_id"]):
                    boot(self._engine, self._wiring, record)
                self._route(record)

    def close(self) -> None:
        """Leave the machines to the keeper."""

    def destroy(self, progress: Progress) -> None:
        """Remove the machines, their network and the keeper; the image is `image.release`'s."""
        progress("Ending the machines")
        host = read_json(self._layout.host_file)
        # Without this file the keeper ends by itself, even if it misses the signal.
        self._layout.host_file.unlink(missing_ok=True)
        for name in (KEEPER, small_agent.NAME, delay.NAME):
            stop_helper(self._layout, name)
        # To remove a network, only its names are needed.
        nowhere = Network(self._layout.cloud_id, "0.0.0.0/0", 0).to_dict()
        wiring = Wiring(Network(**(host or {"network": nowhere})["network"]), self._engine)
        Hub(wiring).down()
        end_all(self._layout)
        if self._layout.containers_dir.exists():
            self._engine.prepare()
            self._engine.discard("--all", timeout=600)
        else:
            self._kill_abandoned(wiring)
        progress("Removing their network, disks and files")
        wiring.down()
        self._disks.destroy()
        self._engine.remove()
        for folder in (self._layout.home, self._layout.run_dir):
            shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            SHARED_LIB.rmdir()
        if SHARED_RUN.exists():
            sysctls.restore(self._layout)

    def _kill_abandoned(self, wiring: Wiring) -> None:
        """End machines whose disks were deleted, and remove podman's records of them."""
        for path in self._layout.run_dir.glob("*.pid"):
            pid = machine_pid(self._layout, path.stem)
            if pid is not None and wiring.holds(path.stem, pid):
                os.kill(pid, signal.SIGKILL)

    # -- addresses ----------------------------------------------------------------------------

    @property
    def _wiring(self) -> Wiring:
        return self._prepared()[0]

    def _prepared(self) -> tuple[Wiring, str]:
        if self._setup is None:
            host = read_json(self._layout.host_file)
            if host is None:
                raise MachineError(
                    f"no machines were prepared in {self._layout.state_dir}: "
                    "start the cloud with `tpu-local-cloud up --hosts container`"
                )
            self._setup = Wiring(Network(**host["network"]), self._engine), host["rootfs"]
        return self._setup

    @property
    def network(self) -> Network:
        """Return the choices made for this cloud's network."""
        return self._wiring.network

    def metadata_address(self) -> tuple[str, int]:
        """Return the address at which machines' requests to 169.254.169.254 arrive."""
        return self.network.gateway, self.network.metadata_port

    def _address_pools(self) -> tuple[AddressPool, AddressPool]:
        if self._pools is None:
            network = self.network
            self._pools = (
                AddressPool(*network.internal_range),
                AddressPool(*network.external_range),
            )
        return self._pools

    def allocate_internal(self, used: set[str]) -> str:
        """Return an internal address that is not in `used`."""
        return self._address_pools()[0].take(used)

    def allocate_external(self, used: set[str]) -> str:
        """Return an external address that is not in `used`."""
        return self._address_pools()[1].take(used)

    # -- one machine --------------------------------------------------------------------------

    def create(self, spec: MachineSpec) -> None:
        """Create and boot the machine; return when it answers on its SSH port."""
        wiring, rootfs = self._prepared()
        self._start_helpers(spec)
        with locked(self._layout.lock_file(spec.machine_id)):
            if self._record(spec.machine_id) is None:
                try:
                    self._make(spec, wiring, rootfs)
                except MachineError:
                    # Nothing leads to it yet.
                    self._discard(asdict(replace(spec, disks=(), external_ip=None)))
                    raise
            self._save(spec, "on")
        self._wait_until_up(spec)

    def _make(self, spec: MachineSpec, wiring: Wiring, rootfs: str) -> None:
        if spec.small:
            _refuse_both(spec)
            refuse_disks(spec)
            self._small.name_peers(spec)
            self._small.boot(asdict(spec))
            return
        wiring.plug(spec.machine_id, spec.internal_ip)
        words = self._run_words(spec, rootfs)
        self._engine.podman(
            "run",
            "--detach",
            f"--name={spec.machine_id}",
            f"--hostname={spec.machine_id}",
            f"--network=ns:{wiring.name_space(spec.machine_id)}",
            f"--pidfile={self._layout.pid_file(spec.machine_id)}",
            *words,
        )
        if spec.hosts and not spec.own_kernel:
            add = 'printf %s "$1" >> /etc/hosts'
            self._engine.podman("exec", spec.machine_id, "sh", "-c", add, "sh", spec.hosts)

    def _run_words(self, spec: MachineSpec, rootfs: str) -> list[str]:
        if not spec.own_kernel:
            flags = self._disks.equip(spec.machine_id, spec.disks)
            flags = [*flags, f"--volume={self._layout.authority}:{AUTHORITY}:ro"]
            if spec.shares:
                flags = [*flags, self._share()]
            return [*MACHINE_FLAGS, *flags, "--rootfs", f"{rootfs}:O", "/sbin/init"]
        _refuse_disks(spec)
        program, disk = kernel.Kernels(self._facts, log).ensure(Path(rootfs))
        self._wiring.hand_over(spec.machine_id, spec.internal_ip)
        return kernel.container_words(self._layout, self.network, spec, program, disk)

    def _share(self) -> str:
        """Return the flag for the machines' shared folder, which lasts as long as the cloud."""
        folder = self._layout.home / "share"
        if not folder.is_dir():
            folder.mkdir()
            folder.chmod(0o1777)
        return f"--volume={folder}:{SHARE}"

    def delete(self, machine_id: str) -> None:
        """Remove the machine with its disk immediately."""
        with locked(self._layout.lock_file(machine_id)):
            record = self._record(machine_id)
            if record is None:
                return
            self._discard(record)
        self._layout.lock_file(machine_id).unlink(missing_ok=True)

    def _discard(self, record: dict[str, Any]) -> None:
        """Remove a machine. One whose removal fails stays recorded as off, to be removed later."""
        path = self._layout.record(record["machine_id"])
        write_json(path, {**record, "power": "off"})
        if not record.get("small"):
            self._unroute(record)
        self._remove(record)
        if record.get("small"):
            self._unroute(record)
        path.unlink()

    def _remove(self, record: dict[str, Any]) -> None:
        machine_id, internal_ip = record["machine_id"], record["internal_ip"]
        if record.get("small"):
            self._small.remove(machine_id, machine_pid(self._layout, machine_id), internal_ip)
            self._layout.pid_file(machine_id).unlink(missing_ok=True)
            return
        self._engine.discard(machine_id)
        self._layout.pid_file(machine_id).unlink(missing_ok=True)
        kernel.forget(self._layout, machine_id)
        self._wiring.unplug(machine_id, internal_ip)
        self._disks.release(machine_id)

    def power_off(self, machine_id: str, seconds: float = SHUTDOWN_LIMIT) -> None:
        """Shut the machine down, or kill it after so many seconds; its disk stays."""
        with locked(self._layout.lock_file(machine_id)):
            record = self._existing(machine_id)
            write_json(self._layout.record(machine_id), {**record, "power": "off"})
            self._unroute(record)
            if self._alive(machine_id):
                self._shut_down(machine_id, "RTMIN+4", seconds)

    def power_on(self, spec: MachineSpec) -> None:
        """Boot a stopped machine from its disk; return when it answers on its SSH port."""
        self._start_helpers(spec)
        with locked(self._layout.lock_file(spec.machine_id)):
            self._existing(spec.machine_id)
            record = self._save(spec, "on")
            if not self._alive(spec.machine_id):
                boot(self._engine, self._wiring, record)
        self._wait_until_up(spec)

    def reboot(self, spec: MachineSpec) -> None:
        """Reboot the machine, which comes back with the external address of `spec`."""
        with locked(self._layout.lock_file(spec.machine_id)):
            self._existing(spec.machine_id)
            record = self._save(spec, "on")
            if self._alive(spec.machine_id):
                self._shut_down(spec.machine_id, "RTMIN+5")
            self._layout.pid_file(spec.machine_id).unlink(missing_ok=True)
            boot(self._engine, self._wiring, record)
        self._start_helpers(spec)
        self._wait_until_up(spec)

    def set_external_ip(self, spec: MachineSpec) -> None:
        """Route another external address to the machine, which reads it in its metadata."""
        with locked(self._layout.lock_file(spec.machine_id)):
            record = self._save(spec, self._existing(spec.machine_id)["power"])
            pid = self._living(spec.machine_id)
            if record["small"] and pid is not None and spec.external_ip:
                self._small.hub.route(pid, spec.internal_ip, spec.external_ip)

    def block_ports(self, ports: frozenset[tuple[str, int]]) -> None:
        """Drop what machines send to these ports, each with an internal address, and no others."""
        self._wiring.block(ports)

    def set_disks(self, spec: MachineSpec) -> None:
        """Attach the disks of `spec` to the machine, and detach its others."""
        with locked(self._layout.lock_file(spec.machine_id)):
            self._existing(spec.machine_id)
            if spec.own_kernel or spec.small:
                (refuse_disks if spec.small else _refuse_disks)(spec)
                return
            self._disks.change(spec.machine_id, spec.disks, lambda: self._refresh(spec.machine_id))

    def _refresh(self, machine_id: str) -> None:
        """Show the machine its disks; a stopped one sees them when it boots."""
        if self._alive(machine_id):
            self._engine.podman("exec", machine_id, REFRESH)

    def grow_disk(self, zone: str, name: str, size_gb: int) -> None:
        """Enlarge a disk, also while it is attached."""
        self._disks.grow(zone, name, size_gb)

    def delete_disk(self, zone: str, name: str) -> None:
        """Delete a disk with its contents."""
        self._disks.delete(zone, name)

    def status(self, machine_id: str) -> PowerStatus:
        """Return the state of the machine; a rebooting one counts as running."""
        record = self._record(machine_id)
        if record is None:
            return "gone"
        return "running" if record["power"] == "on" else "stopped"

    def leader(self, machine_id: str) -> int | None:
        """Return the process id of PID 1 of a running machine.

        None for one with a kernel of its own, whose processes are not this computer's.
        """
        record, pid = self._record(machine_id), machine_pid(self._layout, machine_id)
        if record is None or record.get("own_kernel") or pid is None:
            return None
        try:
            # Process ids are reused.
            elsewhere = not os.path.samestat(Path(f"/proc/{pid}/root/").stat(), Path("/").stat())
        except OSError:
            return None
        return pid if elsewhere else None

    def round_trip(self, milliseconds: float | None = None) -> float:
        """Return the round trip to small machines; set it first, if given."""
        if milliseconds is not None:
            self._small.hub.up()
            delay.change(self._layout, self._small.hub, milliseconds)
        return delay.wanted(self._layout)

    # -- parts --------------------------------------------------------------------------------

    def _record(self, machine_id: str) -> dict[str, Any] | None:
        return read_json(self._layout.record(machine_id))

    def _existing(self, machine_id: str) -> dict[str, Any]:
        record = self._record(machine_id)
        if record is None:
            raise MachineError(f"there is no machine {machine_id}")
        return record

    def _save(self, spec: MachineSpec, power: str) -> dict[str, Any]:
        old = self._record(spec.machine_id)
        # Its disks are recorded where they are created.
        record = {**asdict(replace(spec, disks=())), "power": power}
        write_json(self._layout.record(spec.machine_id), record)
        if old and old["external_ip"] != spec.external_ip:
            self._unroute(old)
        if power == "on":
            self._route(record)
        return record

    def _start_helpers(self, spec: MachineSpec) -> None:
        start_keeper(self._layout)
        if spec.small:
            small_agent.start(self._layout)

    @property
    def _small(self) -> SmallMachines:
        return SmallMachines(self._layout, self._wiring)

    def _route(self, record: dict[str, Any]) -> None:
        # That of a small machine is routed when it boots.
        if record["external_ip"] and not record.get("small"):
            self._wiring.route(record["external_ip"], record["internal_ip"])

    def _unroute(self, record: dict[str, Any]) -> None:
        if record["external_ip"] and record.get("small"):
            pid = self._living(record["machine_id"])
            self._small.hub.unroute(pid, record["internal_ip"], record["external_ip"])
        elif record["external_ip"]:
            self._wiring.unroute(record["external_ip"], record["internal_ip"])

    def _alive(self, machine_id: str) -> bool:
        pid = machine_pid(self._layout, machine_id)
        return pid is not None and Path(f"/proc/{pid}").exists()

    def _living(self, machine_id: str) -> int | None:
        return machine_pid(self._layout, machine_id) if self._alive(machine_id) else None

    def _shut_down(
        self, machine_id: str, signal_name: str, seconds: float = SHUTDOWN_LIMIT
    ) -> None:
        """Ask systemd to shut down; kill the machine if that takes too long."""
        if self._existing(machine_id).get("small"):
            self._small.end(machine_id, machine_pid(self._layout, machine_id))
            return
        with suppress(MachineError):
            if self._existing(machine_id).get("own_kernel"):
                kernel.press_power_button(self._layout, machine_id)
            else:
                self._engine.podman("kill", f"--signal={signal_name}", machine_id)
        if not wait_for(lambda: not self._alive(machine_id), seconds):
            self._engine.podman("kill", "--signal=KILL", machine_id)
        self._engine.podman("wait", machine_id)

    def _wait_until_up(self, spec: MachineSpec) -> None:
        if not wait_for(lambda: answers(spec.internal_ip), BOOT_LIMIT):
            raise MachineError(
                f"{spec.machine_id} did not answer on {spec.internal_ip}:22 within {BOOT_LIMIT:g} s"
            )
        external = spec.external_ip
        if spec.small:
            # The agent of all small machines does it, after asking the metadata server.
            pid = machine_pid(self._layout, spec.machine_id)
            wait_for(lambda: self._small.settled(spec.machine_id, pid), 15)
        elif external:
            # The guest agent sets it, after asking the metadata server.
            wait_for(lambda: answers(external), 15)


def _refuse_disks(spec: MachineSpec) -> None:
    if spec.disks:
        raise MachineError(
            f"{spec.machine_id} has a kernel of its own, which takes no data disks here: leave the "
            f"metadata {kernel.METADATA_KEY} out, or the disks"
        )


def _refuse_both(spec: MachineSpec) -> None:
    if spec.own_kernel:
        raise MachineError(
            f"{spec.machine_id} cannot be small and have a kernel of its own: leave the metadata "
            f"{METADATA_KEY} or {kernel.METADATA_KEY} out"
        )


def prepare_image(wanted: str, progress: Progress, own_kernel: bool = False) -> None:
    """Create an image for later clouds."""
    IMAGE_CACHE.mkdir(parents=True, exist_ok=True)
    facts = read_facts()
    with tempfile.TemporaryDirectory(dir=IMAGE_CACHE) as scratch:
        layout = Layout(Path(scratch))
        engine = Engine(layout, engine_settings(facts))
        engine.prepare()
        try:
            rootfs = image.Images(engine, facts, progress).ensure(wanted, _PREPARED, IMAGE_CACHE)
            if own_kernel:
                kernel.Kernels(facts, progress).ensure(rootfs)
        finally:
            engine.remove()
            shutil.rmtree(layout.run_dir)
            shutil.rmtree(layout.home)


def undo_preparation() -> None:
    """Remove the image, unless a cloud uses it."""
    image.release(_PREPARED, keep=False)


def answers(address: str) -> bool:
    """Return whether an SSH server answers at this address."""
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
