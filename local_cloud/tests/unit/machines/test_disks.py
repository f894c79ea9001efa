"""Which disk gets which place, and what machines see of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tpu_local_cloud.machines import DataDisk, MachineError, disks, make_backend
from tpu_local_cloud.machines.disks import SLOTS, DataDisks, placed, table
from tpu_local_cloud.machines.layout import Layout

ONE, TWO, THREE = (DataDisk("us-central2-b", name, 10, True) for name in ("one", "two", "three"))


class Kernel:
    """Loop devices that are only noted."""

    def __init__(self) -> None:
        self.files: dict[int, str] = {}
        self.read_only: set[int] = set()

    def run(self, command: list[str]) -> str:
        """Do what losetup would."""
        device, path = command[-2:]
        number = int(device.removeprefix("/dev/loop"))
        assert number not in self.files
        self.files[number] = path
        if "--read-only" in command:
            self.read_only.add(number)
        return ""

    def unbind(self, number: int) -> None:
        """Release one."""
        self.files.pop(number, None)
        self.read_only.discard(number)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Kernel:
    kernel = Kernel()
    monkeypatch.setattr(disks, "run", kernel.run)
    monkeypatch.setattr(disks, "_unbind", kernel.unbind)
    monkeypatch.setattr(disks, "_add", lambda _number: None)
    monkeypatch.setattr(disks, "_read_only", lambda number: number in kernel.read_only)
    monkeypatch.setattr(disks, "loops", lambda: sorted(kernel.files.items()))
    monkeypatch.setattr(disks, "BUSY_LIMIT", 0.0)
    for module in ("disks", "layout"):
        for name in ("SHARED_LIB", "SHARED_RUN"):
            place = tmp_path / name
            monkeypatch.setattr(f"tpu_local_cloud.machines.{module}.{name}", place)
    return kernel


@pytest.fixture
def cloud(kernel: Kernel, tmp_path: Path) -> DataDisks:
    return DataDisks(Layout(tmp_path / "cloud"))


def _names(kernel: Kernel) -> dict[int, str]:
    return {number: Path(path).stem for number, path in kernel.files.items()}


def test_places_are_given_in_order_and_kept() -> None:
    assert placed({}, [TWO, ONE], ()) == {1: TWO, 2: ONE}
    assert placed({1: TWO, 2: ONE}, [ONE, THREE], ()) == {1: THREE, 2: ONE}
    # What a machine still has open is not free yet.
    assert placed({1: TWO, 2: ONE}, [ONE, THREE], {1}) == {2: ONE, 3: THREE}


def test_another_mode_is_another_attachment_and_another_size_is_not() -> None:
    larger, reader = replace(ONE, size_gb=20), replace(ONE, writes=False)
    assert placed({2: ONE}, [larger], ()) == {2: larger}
    assert placed({2: ONE}, [reader], {2}) == {1: reader}


def test_too_many_are_refused() -> None:
    many = [replace(ONE, name=f"disk-{number}") for number in range(SLOTS + 1)]
    assert len(placed({}, many[:-1], ())) == SLOTS
    with pytest.raises(MachineError, match="disk-16: 16 are the most"):
        placed({}, many, ())


def test_the_machine_reads_place_number_and_name() -> None:
    assert table({2: ONE, 1: TWO}, lambda slot: 1023 + slot) == "1 1024 two\n2 1025 one\n"


def test_every_machine_has_devices_of_its_own(cloud: DataDisks, kernel: Kernel) -> None:
    first = cloud.equip("a", [ONE])
    second = cloud.equip("b", [TWO])
    assert _names(kernel) == {1024: "one", 1040: "two"}
    rules = [flag for flag in first if "cgroup" in flag]
    assert len(rules) == SLOTS
    assert not set(rules) & set(second)
    cloud.release("a")
    assert _names(kernel) == {1040: "two"}
    cloud.equip("c", [])
    assert cloud.equip("d", [])[0] == "--device-cgroup-rule=b 7:1056 rwm"


def test_a_disk_is_sparse_and_only_grows(cloud: DataDisks, kernel: Kernel) -> None:
    path = cloud.file(ONE.zone, "one")
    cloud.grow(ONE.zone, "one", 20)
    assert not path.exists()
    cloud.equip("a", [ONE])
    assert (path.stat().st_size, path.stat().st_blocks) == (10 << 30, 0)
    cloud.release("a")
    cloud.grow(ONE.zone, "one", 20)
    cloud.equip("b", [ONE])
    assert path.stat().st_size == 20 << 30
    cloud.delete(ONE.zone, "one")
    assert not path.exists()


def test_nobody_writes_where_another_machine_is(cloud: DataDisks, kernel: Kernel) -> None:
    reader = replace(ONE, writes=False)
    cloud.equip("a", [reader])
    cloud.equip("b", [reader])
    assert _names(kernel) == {1024: "one", 1040: "one"}
    with pytest.raises(MachineError, match="one cannot be attached to c: another machine"):
        cloud.equip("c", [ONE])
    cloud.release("c")
    cloud.release("a")
    cloud.release("b")
    cloud.equip("d", [ONE])
    with pytest.raises(MachineError, match="another machine"):
        cloud.equip("e", [reader])


def test_a_place_is_emptied_before_another_disk_takes_it(cloud: DataDisks, kernel: Kernel) -> None:
    cloud.equip("a", [ONE, TWO])
    seen = []
    folder = next(Path(f[9:].partition(":")[0]) for f in cloud.equip("x", []) if "volume" in f)
    table_of_a = folder.with_name("a") / "table"
    cloud.change("a", [TWO, THREE], lambda: seen.append(table_of_a.read_text()))
    assert seen == ["2 1025 two\n", "1 1024 three\n2 1025 two\n"]
    assert _names(kernel) == {1024: "three", 1025: "two"}
    cloud.change("a", [TWO, THREE], lambda: seen.append("nothing changes"))
    assert len(seen) == 2


def test_a_disk_that_cannot_be_attached_leaves_the_others(cloud: DataDisks, kernel: Kernel) -> None:
    cloud.equip("a", [ONE])
    cloud.equip("b", [TWO])
    with pytest.raises(MachineError, match="the disk one cannot be attached to b"):
        cloud.change("b", [TWO, THREE, ONE], _nothing)
    assert _names(kernel) == {1024: "one", 1040: "two"}
    cloud.change("a", [], _nothing)
    cloud.change("b", [TWO, ONE], _nothing)
    assert _names(kernel) == {1040: "two", 1041: "one"}


def test_a_boot_finds_its_devices_again(cloud: DataDisks, kernel: Kernel) -> None:
    cloud.equip("a", [ONE, replace(TWO, writes=False)])
    before, read_only = dict(kernel.files), set(kernel.read_only)
    cloud.connect("a")
    assert kernel.files == before
    kernel.files.clear()
    kernel.read_only.clear()
    cloud.connect("a")
    assert (kernel.files, kernel.read_only) == (before, read_only)


def test_a_machine_of_an_earlier_version_takes_no_disks(cloud: DataDisks, kernel: Kernel) -> None:
    for harmless in (cloud.connect, cloud.release):
        harmless("old")
    cloud.change("old", [], _nothing)
    with pytest.raises(MachineError, match="old is too old for data disks: recreate its node"):
        cloud.change("old", [ONE], _nothing)
    assert kernel.files == {}


def test_what_a_crash_left_is_released(cloud: DataDisks, kernel: Kernel, tmp_path: Path) -> None:
    neighbour = DataDisks(Layout(tmp_path / "neighbour"))
    neighbour.equip("n", [ONE])
    cloud.equip("a", [ONE])
    cloud.equip("b", [TWO])
    cloud.sweep({"b"})
    assert _names(kernel) == {1024: "one", 1056: "two"}
    cloud.destroy()
    assert _names(kernel) == {1024: "one"}
    assert (tmp_path / "SHARED_LIB/loops/1024").exists()
    neighbour.release("n")
    assert not (tmp_path / "SHARED_LIB/loops").exists()


def test_addresses_have_no_disks(tmp_path: Path) -> None:
    backend = make_backend("none", tmp_path)
    calls: list[Callable[[], None]] = [
        lambda: backend.grow_disk(ONE.zone, "one", 20),
        lambda: backend.delete_disk(ONE.zone, "one"),
    ]
    for call in calls:
        call()
    assert not list(tmp_path.iterdir())


def _nothing() -> None:
    pass
