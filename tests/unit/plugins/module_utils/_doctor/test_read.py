"""What a machine's own texts say; and looks that hang."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import gather as doctor_gather
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import mend as doctor_mend
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.check import Finding
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.gather import Place
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.host import CHECKS
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.probe import Probe, probe_all
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.read import (
    Mount,
    dpkg_states,
    dpkg_unfinished,
    fstab_mounts,
    is_worth_a_look,
    measured,
    mountinfo,
    preloads,
    unit_blocks,
    variables_in,
)

MOUNTINFO = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,discard
23 22 0:5 / /dev rw,nosuid shared:2 - devtmpfs udev rw,size=10k
24 22 0:40 / /mnt/share rw shared:3 - autofs systemd-1 rw,fd=50,direct
25 24 0:41 / /mnt/share rw shared:4 - nfs4 10.0.0.2:/export rw,vers=4.2,hard
26 22 8:16 / /mnt/my\\040data ro,relatime shared:5 - ext4 /dev/sdb rw
27 22 0:42 / /home/ann/bucket rw - fuse.gcsfuse bucket rw,user_id=0
28 22 8:1 /var/lib/x /var/lib/x rw - ext4 /dev/sda1 rw
29 22 0:30 / /run rw - tmpfs tmpfs rw
30 22 7:1 / /snap/core/1 ro - squashfs /dev/loop1 ro
"""
FSTAB = """\
# /etc/fstab
LABEL=root / ext4 defaults 0 1
UUID=1-2 /boot/efi vfat umask=0077 0 1
/swapfile none swap sw 0 0
UUID=abc /mnt/my\\040data ext4 discard,nofail 0 2
10.0.0.2:/export /mnt/share nfs4 noauto,x-systemd.automount,ro 0 0
10.0.0.3:/rare /mnt/rare nfs4 noauto 0 0
/srv/a /mnt/a none bind 0 0
"""


def test_mounts_that_are_there() -> None:
    there = {mount.point: mount for mount in mountinfo(MOUNTINFO)}
    looked_at = [point for point, mount in there.items() if is_worth_a_look(mount)]
    assert looked_at == ["/mnt/share", "/mnt/my data", "/home/ann/bucket"]
    assert there["/mnt/share"].type == "nfs4"
    assert there["/mnt/my data"].read_only


def test_mounts_that_are_declared() -> None:
    found = {mount.point: mount for mount in fstab_mounts(FSTAB)}
    assert list(found) == ["/mnt/my data", "/mnt/share", "/mnt/rare", "/mnt/a"]
    assert [mount.optional for mount in found.values()] == [False, False, True, False]
    assert [mount.wanted_writable for mount in found.values()] == [True, False, True, True]


def test_a_mount_on_demand_is_known_by_its_server() -> None:
    waiting = Mount("/mnt/share", "autofs", "systemd-1", ("rw",))
    wish = next(mount for mount in fstab_mounts(FSTAB) if mount.point == "/mnt/share")
    seen = waiting.with_wish(wish)
    assert (seen.source, seen.type, seen.declared) == ("10.0.0.2:/export", "nfs4", True)


def test_disks_are_measured_once_and_servers_never() -> None:
    assert [mount.point for mount in measured(mountinfo(MOUNTINFO))] == ["/", "/mnt/my data"]


STATUS = """\
Package: fine
Status: install ok installed

Package: gone
Status: deinstall ok config-files

Package: half
Status: install ok half-configured
Description: x
 Status: no field, a text

Package: torn
Status: install reinstreq half-installed
"""


def test_what_dpkg_left_undone() -> None:
    assert dpkg_unfinished(dpkg_states(STATUS)) == (["half"], ["torn"])


def test_units() -> None:
    text = "Id=a.service\nActiveState=failed\n\nId=b.service\nResult=a=b\n\n"
    assert [unit["Id"] for unit in unit_blocks(text)] == ["a.service", "b.service"]
    assert unit_blocks(text)[1]["Result"] == "a=b"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("LD_PRELOAD=/x.so", {"LD_PRELOAD": "/x.so"}),
        ('  export LD_PRELOAD="/x.so /y.so"', {"LD_PRELOAD": "/x.so /y.so"}),
        ("# LD_PRELOAD=/x.so", {}),
        ("LD_PRELOAD", {}),
    ],
)
def test_variables_of_login_files(line: str, found: dict[str, str]) -> None:
    assert variables_in(line) == found


def test_libraries_that_are_preloaded() -> None:
    assert preloads("/x.so:/y.so  /z.so\n# /no.so\n") == ["/x.so", "/y.so", "/z.so"]


def test_what_hangs_is_given_up_and_hides_nothing() -> None:
    began = time.monotonic()
    found, failed = probe_all(
        [
            Probe("hangs", lambda: time.sleep(60), 0.5),
            Probe("large", lambda: "x" * 1_000_000, 20),
            Probe("breaks", lambda: 1 / 0, 20),
            Probe("ends", lambda: os._exit(3), 20),
        ],
        20,
    )
    assert time.monotonic() - began < 15
    assert {name: len(value) for name, value in found.items()} == {"large": 1_000_000}
    assert failed == {
        "hangs": "no answer within 0.5 s",
        "breaks": "division by zero",
        "ends": "the probe ended early",
    }


def test_all_together_have_a_limit() -> None:
    _found, failed = probe_all([Probe("hangs", lambda: time.sleep(60), 50)], 0.4)
    assert failed == {"hangs": "no answer within 0.4 s"}


def test_what_a_look_began_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    argv = ("sh", "-c", f"sleep 2; touch {mark}")
    probe_all([Probe("hangs", lambda: doctor_gather.told(*argv), 0.3)], 1)
    time.sleep(2.2)
    assert not mark.exists()


def finding(check: str, case: str, status: str = "fail", subject: str = "") -> Finding:
    return Finding(check, status, "it is so", subject=subject, case=case)


LOCK = finding("lock_file", "others")
READY = finding("ready", "older_boot", "warn")


@pytest.mark.parametrize(
    ("findings", "mended"),
    [
        ([finding("disk", "full")], []),
        ([finding("holders", "other", "warn")], []),
        ([finding("mounts", "hangs")], []),
        ([LOCK], ["lock_file"]),
        ([finding("mounts", "stale"), finding("units", "failed")], ["mounts", "units"]),
        # A machine is called ready when nothing else is wrong.
        ([READY], ["ready"]),
        ([READY, finding("disk", "nearly_full", "warn")], []),
        ([READY, LOCK], ["lock_file"]),
    ],
)
def test_what_may_be_mended(findings: list[Finding], mended: list[str]) -> None:
    assert [found.check for found in doctor_mend.mendable(findings)] == mended


def test_the_checks_promise_what_is_mended() -> None:
    promised = {(check.key, case) for check in CHECKS for case, it in check.cases.items() if it.fix}
    assert promised == {*doctor_mend.MENDS, doctor_mend.READY}


def test_a_lock_file_goes_only_when_nobody_holds_a_chip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "lock"
    lock.touch()
    place = Place(lock_file=str(lock))
    monkeypatch.setattr(doctor_gather, "holders", lambda: [{"pid": 7}])
    (step,) = doctor_mend.mend(place, [LOCK], set(), dry=False)
    assert step["did"] == ""
    assert step["failed"] == "process 7 has opened a chip meanwhile"
    assert lock.exists()
    monkeypatch.setattr(doctor_gather, "holders", list)
    (step,) = doctor_mend.mend(place, [LOCK], set(), dry=True)
    assert step["did"].startswith("would: ")
    assert lock.exists()
    (step,) = doctor_mend.mend(place, [LOCK], set(), dry=False)
    assert step["did"] == f"removed {lock}"
    assert not lock.exists()


def test_nothing_is_tried_twice() -> None:
    assert doctor_mend.mend(Place(), [LOCK], {("lock_file", "")}, dry=False) == []


def test_packages_are_left_alone_while_somebody_installs(monkeypatch: pytest.MonkeyPatch) -> None:
    held = [{"path": "/var/lib/dpkg/lock", "pid": 9}]
    monkeypatch.setattr(doctor_gather, "apt", lambda: {"locks": held})
    (step,) = doctor_mend.mend(Place(), [finding("apt", "interrupted")], set(), dry=False)
    assert step["failed"] == "/var/lib/dpkg/lock is held by process 9"


def test_the_marker_of_this_boot(tmp_path: Path) -> None:
    place = Place(state_dir=str(tmp_path))
    if os.geteuid() == 0:
        (step,) = doctor_mend.mend(place, [READY], set(), dry=False)
        assert "ready marker" in step["did"]
        assert (tmp_path / "ready").read_text().strip() == doctor_gather.boot_id()


def test_a_venv_that_is_built_on_need_may_be_missing(tmp_path: Path) -> None:
    venvs = ({"name": "jax"}, {"name": "new", "on_need": True}, {"name": "old", "on_need": True})
    (tmp_path / "venvs").mkdir()
    (tmp_path / "venvs/old.json").write_text('{"name": "old"}')
    found = doctor_gather.known_venvs(Place(state_dir=str(tmp_path), venvs=venvs))
    assert [venv["name"] for venv in found] == ["jax", "old"]
