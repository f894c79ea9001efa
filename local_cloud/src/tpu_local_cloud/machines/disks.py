"""Data disks: sparse files, which machines see as block devices through loop devices.

A running container cannot be allowed further devices, but it can create the allowed ones at any
time. So every machine gets a range of loop device numbers at its creation, and may use no others.
It reads in a table which of them exist, and under which names.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

from .base import DataDisk, MachineError
from .host import run
from .layout import SHARED_LIB, SHARED_RUN, Layout, locked, read_json, write_json
from .patience import wait_for

SLOTS = 16
"""Maximum number of data disks of a machine: /dev/sdb to /dev/sdq."""
# Far above what `losetup --find` gives to others.
FIRST = 1024
# Path of the table in the machine; /run is a separate file system there.
IN_MACHINE = "/usr/local/lib/tpu-vm/disks"
REFRESH = "/usr/local/sbin/data-disks"

# How long a machine that is being removed may still hold a disk.
BUSY_LIMIT = 30.0
RELEASE_LIMIT = 5.0
_ADD, _REMOVE = 0x4C80, 0x4C81  # LOOP_CTL_ADD and LOOP_CTL_REMOVE of linux/loop.h
_MAJOR = 7

Slots = dict[int, DataDisk]


def placed(old: Mapping[int, DataDisk], wanted: Iterable[DataDisk], busy: Collection[int]) -> Slots:
    """Return the slot of each disk: it keeps its slot or gets the lowest free one."""
    disks = list(wanted)
    slots = {slot: disk for slot, had in old.items() for disk in disks if disk.same_attachment(had)}
    free = (slot for slot in range(1, SLOTS + 1) if slot not in slots and slot not in busy)
    for disk in disks:
        if disk not in slots.values():
            slot = next(free, None)
            if slot is None:
                raise MachineError(f"no room for the data disk {disk.name}: {SLOTS} are the most")
            slots[slot] = disk
    return dict(sorted(slots.items()))


def table(slots: Mapping[int, DataDisk], minor: Callable[[int], int]) -> str:
    """Return the table for a machine: slot, minor number and name of each disk."""
    return "".join(f"{slot} {minor(slot)} {disk.name}\n" for slot, disk in sorted(slots.items()))


class DataDisks:
    """The data disks of one cloud, and where they are attached."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._files = layout.home / "disks"
        self._attached = layout.home / "attached"

    # -- disks --------------------------------------------------------------------------------

    def file(self, zone: str, name: str) -> Path:
        """Return the file with the contents of a disk."""
        return self._files / zone / f"{name}.img"

    def grow(self, zone: str, name: str, size_gb: int) -> None:
        """Enlarge an existing disk, also while it is attached."""
        path = self.file(zone, name)
        with self._locked():
            if path.exists():
                _enlarge(path, size_gb)
                for number, backing in loops():
                    if backing == str(path):
                        run(["losetup", "--set-capacity", f"/dev/loop{number}"])

    def delete(self, zone: str, name: str) -> None:
        """Delete a disk's contents."""
        with self._locked():
            self.file(zone, name).unlink(missing_ok=True)

    # -- machines -----------------------------------------------------------------------------

    def equip(self, machine_id: str, wanted: Iterable[DataDisk]) -> list[str]:
        """Give a new machine its slots and disks; return the flags to run it with."""
        first = _claim(self._layout.cloud_id)
        self._save(machine_id, first, placed({}, wanted, ()))
        self.connect(machine_id)
        minors = [_minor(number) for number in range(first, first + SLOTS)]
        return [
            *(f"--device-cgroup-rule=b {_MAJOR}:{minor} rwm" for minor in minors),
            f"--volume={self._attached / machine_id}:{IN_MACHINE}:ro",
        ]

    def connect(self, machine_id: str) -> None:
        """Create the missing loop devices of a machine, before each boot."""
        first, slots = self._load(machine_id)
        for slot, disk in slots.items():
            self._bind(machine_id, first + slot - 1, disk)

    def change(
        self, machine_id: str, wanted: Iterable[DataDisk], refresh: Callable[[], None]
    ) -> None:
        """Detach unwanted disks, then attach new ones.

        `refresh` makes the machine look at its table, if it runs.
        """
        disks = list(wanted)
        first, old = self._load(machine_id)
        if not first:
            if disks:
                raise MachineError(f"{machine_id} is too old for data disks: recreate its node")
            return
        kept = {s: had for s, had in old.items() if any(d.same_attachment(had) for d in disks)}
        if kept != old:
            self._save(machine_id, first, kept)
            refresh()
            for slot in old.keys() - kept.keys():
                _unbind(first + slot - 1)
        busy = {number - first + 1 for number, _ in loops()} - kept.keys()
        new = placed(kept, disks, busy)
        if new.keys() != kept.keys():
            self._save(machine_id, first, new)
            try:
                self.connect(machine_id)
            except MachineError:
                self._save(machine_id, first, kept)
                for slot in new.keys() - kept.keys():
                    _unbind(first + slot - 1)
                raise
            refresh()

    def release(self, machine_id: str) -> None:
        """Release everything that a machine held; keep the disks."""
        first, _ = self._load(machine_id)
        if first:
            for number in range(first, first + SLOTS):
                _unbind(number)
            shutil.rmtree(self._attached / machine_id)
            _give_back(self._layout.cloud_id, first)

    # -- the whole cloud ----------------------------------------------------------------------

    def sweep(self, machines: Collection[str]) -> None:
        """Release, after a crash, what removed machines held."""
        for folder in self._attached.glob("*"):
            if folder.name not in machines:
                self.release(folder.name)

    def destroy(self) -> None:
        """Release every loop device of this cloud, even without records."""
        for number, backing in loops():
            if backing.startswith(f"{self._files}/"):
                _unbind(number)
        _give_back(self._layout.cloud_id)

    # -- parts --------------------------------------------------------------------------------

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(self._layout.run_dir / "disks.lock"):
            yield

    def _load(self, machine_id: str) -> tuple[int, Slots]:
        """Return the number of a machine's first loop device, 0 for none, and its disks."""
        data = read_json(self._attached / machine_id / "slots.json")
        if data is None:
            return 0, {}
        return data["first"], {int(slot): DataDisk(**d) for slot, d in data["slots"].items()}

    def _save(self, machine_id: str, first: int, slots: Slots) -> None:
        folder = self._attached / machine_id
        data = {str(slot): asdict(disk) for slot, disk in slots.items()}
        write_json(folder / "slots.json", {"first": first, "slots": data})
        scratch = folder / ".table"
        scratch.write_text(table(slots, lambda slot: _minor(first + slot - 1)))
        scratch.replace(folder / "table")

    def _bind(self, machine_id: str, number: int, disk: DataDisk) -> None:
        path = self.file(disk.zone, disk.name)

        def bound() -> bool:
            with self._locked():
                others = []
                for other, backing in loops():
                    if backing == str(path) and other == number:
                        return True
                    if backing == str(path) and (disk.writes or not _read_only(other)):
                        others.append(other)
                # A machine that was just preempted may still write.
                if others:
                    return False
                path.parent.mkdir(parents=True, exist_ok=True)
                _enlarge(path, disk.size_gb)
                _add(number)
                flags = [] if disk.writes else ["--read-only"]
                run(["losetup", *flags, f"/dev/loop{number}", str(path)])
                return True

        if not wait_for(bound, BUSY_LIMIT):
            raise MachineError(
                f"the disk {disk.name} cannot be attached to {machine_id}: another machine of this "
                f"cloud still had it after {BUSY_LIMIT:g} s; unmount it there"
            )


def loops() -> list[tuple[int, str]]:
    """Return the loop devices of this computer that are in use, and their files."""
    found = []
    for path in Path("/sys/block").glob("loop*"):
        # One that disappears meanwhile is unused.
        with suppress(OSError):
            backing = (path / "loop/backing_file").read_text().rstrip("\n")
            found.append((int(path.name.removeprefix("loop")), backing))
    return sorted(found)


def _read_only(number: int) -> bool:
    try:
        return Path(f"/sys/block/loop{number}/ro").read_text().strip() == "1"
    except OSError:
        return True  # It no longer exists, and writes nothing.


def _enlarge(path: Path, size_gb: int) -> None:
    size = size_gb << 30
    try:
        with path.open("ab") as file:
            if file.tell() < size:
                file.truncate(size)
    except OSError as error:
        raise MachineError(f"{path} cannot be made {size_gb} GB large: {error}") from error


def _add(number: int) -> None:
    try:
        _control(_ADD, number)
    except FileExistsError:
        pass
    except OSError as error:
        raise MachineError(
            f"data disks need loop devices, which this computer does not provide: {error}"
        ) from error


def _control(request: int, number: int) -> None:
    handle = os.open("/dev/loop-control", os.O_RDWR)
    try:
        fcntl.ioctl(handle, request, number)
    finally:
        os.close(handle)


def _unbind(number: int) -> None:
    """Release and remove a loop device.

    The kernel removes one that a machine still has open once it is closed.
    """
    device = Path(f"/sys/block/loop{number}")
    if not device.exists():
        return
    if (device / "loop").exists():
        with suppress(MachineError):
            run(["losetup", "--detach", f"/dev/loop{number}"])

    def removed() -> bool:
        with suppress(OSError):
            _control(_REMOVE, number)
        return not device.exists()

    wait_for(removed, RELEASE_LIMIT)


def _minor(number: int) -> int:
    """Return a loop device's minor number, which depends on how many partitions one may have."""
    try:
        partitions = int(Path("/sys/module/loop/parameters/max_part").read_text())
    except OSError:
        partitions = 0
    return number << partitions.bit_length()


def _claims() -> Path:
    return SHARED_LIB / "loops"


def _claim(cloud_id: str) -> int:
    """Reserve loop device numbers for a machine; all clouds of this computer share them."""
    with locked(SHARED_RUN / "lock"):
        _claims().mkdir(parents=True, exist_ok=True)
        taken = {path.name for path in _claims().iterdir()}
        first = next(n for n in range(FIRST, 1 << 20, SLOTS) if str(n) not in taken)
        (_claims() / str(first)).write_text(cloud_id)
        return first


def _give_back(cloud_id: str, only: int | None = None) -> None:
    with locked(SHARED_RUN / "lock"):
        for path in _claims().glob("*" if only is None else str(only)):
            if path.read_text() == cloud_id:
                path.unlink()
        with suppress(OSError):
            _claims().rmdir()
