"""Which disk is formatted, which is mounted, and which is refused."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.mounts import GUARDS
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk import plan as disks
from ansible_collections.tpu.fleet.plugins.module_utils._roles.data_disk.plan import (
    Device,
    Folder,
    Mount,
    Seen,
    Wanted,
)

GB = 1 << 30
DISK = Wanted("data", "/mnt/data")
EMPTY = Device("/dev/sdb", "8:16", 10 * GB, blank=True)
OURS = Device("/dev/sdb", "8:16", 10 * GB, type="ext4", uuid=DISK.uuid, filesystem_size=10 * GB)
THEIRS = replace(OURS, uuid="11111111-2222-3333-4444-555555555555")
LINE = disks.fstab_line(DISK, OURS, "ext4", DISK.uuid)
MOUNTED = Mount("8:16", "/mnt/data", "ext4", False)


def seen(device: Device | None = OURS, fstab: str = "", **more: Any) -> Seen:
    found = {} if device is None else {"data": device}
    return Seen(devices=found, fstab=disks.read_fstab(fstab), **more)


def kinds(wanted: list[Wanted], now: Seen) -> list[str]:
    plan = disks.plan(wanted, now)
    assert plan.problems == []
    return [step.kind for step in plan.steps]


def problem(wanted: Wanted, now: Seen) -> str:
    plan = disks.plan([wanted], now)
    assert plan.steps == []
    (text,) = plan.problems
    return text


class TestSteps:
    def test_an_empty_disk_is_formatted_mounted_and_given_away(self) -> None:
        assert kinds([DISK], seen(EMPTY)) == ["format", "mkdir", "fstab", "mount", "own"]

    def test_what_is_as_wanted_is_left_alone(self) -> None:
        assert kinds([DISK], seen(fstab=LINE, mounts=[MOUNTED])) == []

    def test_our_disk_on_a_new_host_is_mounted_and_not_formatted(self) -> None:
        assert kinds([DISK], seen()) == ["mkdir", "fstab", "mount"]

    def test_a_disk_of_others_is_mounted_if_it_is_to_be_adopted(self) -> None:
        assert kinds([replace(DISK, adopt=True)], seen(THEIRS)) == ["mkdir", "fstab", "mount"]

    @pytest.mark.parametrize("kind", ["", "ext4"])
    def test_an_interrupted_format_is_done_again(self, kind: str) -> None:
        half = replace(EMPTY, blank=False, type=kind, uuid=DISK.uuid if kind else "")
        notes = {"data": {"making": {"size": 10 * GB, "uuid": DISK.uuid}}}
        assert kinds([DISK], seen(half, notes=notes))[0] == "format"

    def test_but_not_on_another_disk_in_its_place(self) -> None:
        other = replace(EMPTY, blank=False, size=20 * GB)
        notes = {"data": {"making": {"size": 10 * GB, "uuid": DISK.uuid}}}
        assert "data of an unknown kind" in problem(DISK, seen(other, notes=notes))

    def test_an_owner_that_was_not_set_is_set_later(self) -> None:
        notes = {"data": {"making": {"size": 10 * GB, "uuid": DISK.uuid}}}
        now = seen(fstab=LINE, mounts=[MOUNTED], notes=notes)
        assert kinds([DISK], now) == ["own"]

    def test_a_disk_of_before_gets_the_guards_without_being_unmounted(self) -> None:
        before = LINE.replace("rw,nosuid,nodev,", "rw,")
        assert before != LINE
        bare = replace(MOUNTED, guarded=False)
        assert kinds([DISK], seen(fstab=before, mounts=[bare])) == ["fstab", "remount"]
        # Also where an apply ended between the two.
        assert kinds([DISK], seen(fstab=LINE, mounts=[bare])) == ["remount"]

    def test_other_options_mean_mounting_anew(self) -> None:
        now = seen(fstab=LINE, mounts=[MOUNTED])
        assert kinds([replace(DISK, options=("noatime",))], now) == ["fstab", "remount"]

    def test_a_disk_that_has_grown(self) -> None:
        now = seen(replace(OURS, size=20 * GB), LINE, mounts=[MOUNTED])
        assert kinds([DISK], now) == ["grow"]
        assert kinds([DISK], seen(replace(OURS, size=10 * GB + 4096), LINE, mounts=[MOUNTED])) == []

    def test_a_read_only_disk_does_not_grow(self) -> None:
        wanted = replace(DISK, read_only=True)
        device = replace(OURS, size=20 * GB, read_only=True)
        assert "grow" not in kinds([wanted], seen(device))

    def test_another_folder(self) -> None:
        moved = replace(DISK, path="/mnt/other")
        now = seen(fstab=LINE, mounts=[MOUNTED], notes={"data": {"folder": "/mnt/data"}})
        assert kinds([moved], now) == ["unmount", "rmdir", "mkdir", "fstab", "mount"]

    def test_what_is_not_declared_any_more_is_unmounted(self) -> None:
        now = seen(None, LINE, mounts=[MOUNTED])
        assert kinds([], now) == ["unmount", "forget"]
        assert kinds([], seen(None, "UUID=1 /mnt/data ext4 defaults 0 2", mounts=[MOUNTED])) == []


class TestRefusals:
    @pytest.mark.parametrize(
        ("device", "words"),
        [
            (THEIRS, ["/dev/sdb", "ext4", THEIRS.uuid, "adopt: true"]),
            (replace(EMPTY, partitions=("sdb1",)), ["partitions (sdb1)", "adopt: true"]),
            (replace(EMPTY, blank=False), ["data of an unknown kind", "wipefs"]),
            (replace(EMPTY, blank=False, type="gpt"), ["has gpt"]),
            (replace(EMPTY, type="crypto_LUKS", blank=False), ["crypto_LUKS", "cannot mount"]),
            (replace(EMPTY, holders=("dm-0",)), ["part of dm-0"]),
            (replace(EMPTY, read_only=True), ["empty and attached read-only"]),
            (replace(OURS, read_only=True), ["attached read-only", "read_only: true"]),
        ],
    )
    def test_a_disk_that_is_not_ours_to_touch(self, device: Device, words: list[str]) -> None:
        text = problem(DISK, seen(device))
        assert all(word in text for word in words), text
        assert text.startswith("fleet_disks: disk 'data': ")

    def test_nothing_is_ever_formatted_that_holds_something(self) -> None:
        for adopt in (False, True):
            for device in (THEIRS, replace(EMPTY, blank=False), replace(EMPTY, type="gpt")):
                wanted = replace(DISK, adopt=adopt)
                steps = disks.plan([wanted], seen(device)).steps
                assert "format" not in [step.kind for step in steps]

    def test_an_empty_disk_that_is_mounted_is_not_formatted(self) -> None:
        now = seen(EMPTY, mounts=[Mount("8:16", "/elsewhere", "ext4", False)])
        assert "unknown kind" in problem(DISK, now)

    def test_an_empty_disk_to_be_read(self) -> None:
        assert "is empty, but read_only is set" in problem(
            replace(DISK, read_only=True), seen(EMPTY)
        )

    def test_a_disk_that_is_not_there(self) -> None:
        text = problem(DISK, seen(None, attached=["google-other", "scsi-x"]))
        assert "no google-data" in text
        assert "Attached are: google-other." in text

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"folders": {"/mnt/data": Folder("folder", empty=False)}}, "has files"),
            ({"folders": {"/mnt/data": Folder("symbolic link")}}, "is a symbolic link"),
            ({"mounts": [Mount("0:50", "/mnt/data", "nfs4", False)]}, "Something else is mounted"),
            ({"fstab": "UUID=1 /mnt/data ext4 defaults 0 2"}, "another line for /mnt/data"),
        ],
    )
    def test_what_stands_in_the_way(self, more: dict[str, Any], words: str) -> None:
        assert words in problem(DISK, seen(**more))

    def test_one_problem_keeps_all_disks_untouched(self) -> None:
        other = Wanted("other", "/mnt/other")
        now = Seen(
            devices={"data": EMPTY, "other": replace(THEIRS, path="/dev/sdc", number="8:32")}
        )
        plan = disks.plan([DISK, other], now)
        assert (plan.steps, len(plan.problems)) == ([], 1)

    def test_two_names_for_one_device(self) -> None:
        other = Wanted("other", "/mnt/other", device="google-data")
        plan = disks.plan([DISK, other], Seen(devices={"data": EMPTY, "other": EMPTY}))
        assert "are both /dev/sdb" in plan.problems[0]


class TestDeviceLinks:
    LINKS = ("google-persistent-disk-0", "google-persistent-disk-1", "google-persistent-disk-3")
    ATTACHED = ({"sourceDisk": "projects/p/zones/z/disks/a"}, {"sourceDisk": "x/disks/data"})

    def test_by_name_and_by_place(self) -> None:
        found = disks.device_links(DISK, self.LINKS, self.ATTACHED)
        assert found == [f"{disks.BY_ID}/google-data", f"{disks.BY_ID}/google-persistent-disk-3"]

    def test_no_guess_when_the_numbers_do_not_fit(self) -> None:
        assert len(disks.device_links(DISK, self.LINKS[:2], self.ATTACHED)) == 1

    def test_by_what_was_said(self) -> None:
        by_id = replace(DISK, device="google-persistent-disk-2")
        assert disks.device_links(by_id, (), ()) == [f"{disks.BY_ID}/google-persistent-disk-2"]
        assert disks.device_links(replace(DISK, device="/dev/sdc1"), (), ()) == ["/dev/sdc1"]


class TestFstab:
    OTHERS = "# comment\nUUID=1 / ext4 defaults 0 1\n\n"

    def test_lines_of_others_stay_as_they_are(self) -> None:
        text = disks.write_fstab(self.OTHERS, [LINE])
        assert text == f"{self.OTHERS}{LINE}\n"
        assert disks.write_fstab(text, [LINE]) == text
        assert disks.write_fstab(text, []) == self.OTHERS

    def test_a_line_is_replaced_in_its_place(self) -> None:
        new = LINE.replace("rw,", "rw,noatime,")
        assert disks.write_fstab(f"{LINE}\n{self.OTHERS}", [new]) == f"{new}\n{self.OTHERS}"

    def test_a_missing_disk_never_hinders_a_boot(self) -> None:
        assert "nofail" in LINE.split()[3].split(",")

    def test_a_shared_disk_leaves_the_journal_alone(self) -> None:
        wanted = replace(DISK, read_only=True)
        shared = replace(OURS, read_only=True)
        assert disks.mount_options(wanted, shared, "ext4") == ["ro", "noload", *GUARDS]
        assert disks.mount_options(wanted, shared, "xfs") == ["ro", "norecovery", *GUARDS]
        assert disks.mount_options(wanted, OURS, "ext4") == ["ro", *GUARDS]


def test_the_same_disk_is_known_on_every_host() -> None:
    assert Wanted("data", "/a").uuid == Wanted("data", "/b").uuid != Wanted("other", "/a").uuid


def test_sizes_of_file_systems() -> None:
    ext4 = bytearray(4096)
    ext4[1080:1082] = b"\x53\xef"
    struct.pack_into("<I", ext4, 1024 + 4, 1000)
    struct.pack_into("<I", ext4, 1024 + 0x18, 2)
    assert disks.superblock_size(bytes(ext4), "ext4") == 1000 * 4096
    struct.pack_into("<I", ext4, 1024 + 0x60, 0x80)
    struct.pack_into("<I", ext4, 1024 + 0x150, 1)
    assert disks.superblock_size(bytes(ext4), "ext4") == ((1 << 32) + 1000) * 4096
    xfs = b"XFSB" + struct.pack(">IQ", 4096, 500) + bytes(4096)
    assert disks.superblock_size(xfs, "xfs") == 500 * 4096
    assert disks.superblock_size(bytes(4096), "ext4") is None
    assert disks.superblock_size(b"", "xfs") is None
