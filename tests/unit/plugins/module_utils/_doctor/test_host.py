"""What the doctor decides about a machine: each case of each check occurs here."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import machine as doctor_machine
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import tpu as doctor_tpu
from ansible_collections.tpu.fleet.plugins.module_utils._doctor import work as doctor_work
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.check import (
    Finding,
    examine,
    exit_code,
    worst,
)
from ansible_collections.tpu.fleet.plugins.module_utils._doctor.host import summary

CHECKS = (*doctor_machine.CHECKS, *doctor_tpu.CHECKS, *doctor_work.CHECKS)
DISK = {"mount": "/", "type": "ext4", "size": 100, "used": 10, "inodes": 100, "inodes_used": 1}
MOUNT = {
    "point": "/mnt/x",
    "type": "nfs4",
    "source": "10.0.0.1:/x",
    "state": "mounted",
    "error": "",
    "declared": True,
    "unit": "",
    "read_only": False,
    "wanted_writable": True,
}
UNIT = {
    "unit": "tpu-fleet-x.service",
    "ours": True,
    "active": "active",
    "sub": "running",
    "enabled": "enabled",
}
VENV = {
    "name": "jax",
    "path": "/opt/venvs/jax",
    "there": True,
    "error": "",
    "timeout": "",
    "python": "3.12.4",
    "recorded_python": "3.12.4",
    "packages": {"jax": "0.12.0"},
    "recorded": {"jax": "0.12.0"},
    "imports": {"jax": "0.12.0"},
    "import_errors": {},
}
RUN = {
    "run": "digits",
    "state": "running",
    "attempt": 1,
    "reason": "",
    "exit_code": None,
    "signal": None,
    "failed_with": "",
    "loss_trouble": None,
    "bad_chips": {},
    "stand_out": [],
    "quiet": None,
    "problems": [],
    "dropped": 0,
    "log_path": "/var/log/x",
    "agent_alive": True,
    "unit_active": "active",
    "unit_enabled": True,
    "told_to_stop": False,
    "stopped_by": "",
}
DATA = {"name": "c4", "there": False, "state": "staging", "says": "1 of 2 GiB are here"}
HOLDER = {"pid": 7, "user": "carol", "command": "python x.py", "devices": "/dev/accel0"}
LOCK = {"path": "/x/libtpu_lockfile", "owner": "root", "mode": 0o644, "sticky": True}
LOOK = {"venv": "jax", "framework": "jax", "chips": 4, "error": "", "timeout": ""}


def facts(**changes: Any) -> dict[str, Any]:
    """Return the facts of a machine on which all is well, with changes."""
    well: dict[str, Any] = {
        "host": {"name": "solo", "boot_id": "b1", "container": "", "python": "3.10.12"},
        "boot": {"busy": [], "failed": []},
        "self_setup": {"status": {}, "alone": False},
        "datasets": {"sets": [], "alive": False},
        "marker": {"ready": "b1", "state": {"applied": {"host_base": {}}}},
        "reboot": {"required": False, "packages": []},
        "clock": {"ahead": 0.4, "synchronized": True},
        "disks": [DISK],
        "tpu_logs": {"path": "/x/tpu_logs", "bytes": 0},
        "apt": {"dpkg": True, "locks": [], "unfinished": [], "broken": [], "updates": 0},
        "limits": {"nofile": [1048576, 1048576], "memlock": [-1, -1]},
        "variables": [],
        "preload": [],
        "chips": {"pci": 4, "generation": "v6e", "devices": ["/dev/vfio/0"]},
        "expected": {"chips": 4},
        "huge_pages": {"wanted": True, "now": "always"},
        "holders": [],
        "lock_file": {},
        "framework_looks": [LOOK],
        "mounts": [MOUNT],
        "data_disks": [],
        "units": [{**UNIT, "result": "success"}],
        "runs": [RUN],
        "venvs": [VENV],
    }
    return {**well, **changes}


def look(**changes: Any) -> list[Finding]:
    return examine(CHECKS, facts(**changes))


def bad(**changes: Any) -> set[tuple[str, str, str]]:
    return {(f.check, f.case, f.status) for f in look(**changes) if f.status in ("warn", "fail")}


def test_a_machine_on_which_all_is_well() -> None:
    found = look()
    assert {finding.check for finding in found} == {check.key for check in CHECKS}
    assert {finding.status for finding in found} == {"ok"}


LIMITS = {"nofile": [1048576, 1048576], "memlock": [-1, -1]}
APT = {"dpkg": True, "locks": [], "unfinished": [], "broken": [], "updates": 0}
HELD = {"path": "/var/lib/dpkg/lock", "pid": 9, "command": "unattended-upgr"}

# What is otherwise, and which cases that makes.
TABLE: list[tuple[dict[str, Any], list[str]]] = [
    ({"boot": {"busy": ["cloud-final.service"], "failed": []}}, ["first_boot busy warn"]),
    ({"boot": {"busy": [], "failed": ["cloud-final.service"]}}, ["first_boot failed warn"]),
    ({"marker": {"ready": None, "state": {"applied": {"x": {}}}}}, ["ready missing warn"]),
    ({"marker": {"ready": "b0", "state": {"applied": {"x": {}}}}}, ["ready older_boot warn"]),
    ({"marker": {"ready": None, "state": {}}}, []),
    (
        {"self_setup": {"status": {"state": "failed", "why": "no room"}, "alone": True}},
        ["self_setup failed fail"],
    ),
    (
        {"self_setup": {"status": {"state": "done", "without": ["keys"]}, "alone": True}},
        ["self_setup without warn"],
    ),
    # A controller was here since.
    ({"self_setup": {"status": {"state": "done", "without": ["keys"]}, "alone": False}}, []),
    ({"datasets": {"sets": [DATA], "alive": True}}, []),
    ({"datasets": {"sets": [{**DATA, "there": True, "state": ""}], "alive": False}}, []),
    ({"datasets": {"sets": [DATA], "alive": False}}, ["datasets stopped warn"]),
    (
        {"datasets": {"sets": [{**DATA, "state": "failed"}], "alive": True}},
        ["datasets failed fail"],
    ),
    ({"reboot": {"required": True, "packages": ["linux"]}}, ["reboot pending warn"]),
    ({"clock": {"ahead": 4.9, "synchronized": None}}, []),
    ({"clock": {"ahead": -5.0, "synchronized": True}}, ["clock off warn"]),
    ({"clock": {"ahead": 60.0, "synchronized": True}}, ["clock wrong fail"]),
    ({"clock": {"ahead": 0.0, "synchronized": False}}, ["clock alone warn"]),
    ({"clock": {"ahead": None, "synchronized": True}}, []),
    ({"disks": [{**DISK, "used": 89}]}, []),
    ({"disks": [{**DISK, "used": 90}]}, ["disk nearly_full warn"]),
    ({"disks": [{**DISK, "used": 97}]}, ["disk full fail"]),
    ({"disks": [{**DISK, "inodes_used": 91}]}, ["disk few_inodes warn"]),
    ({"disks": [{**DISK, "inodes_used": 100}]}, ["disk no_inodes fail"]),
    ({"disks": [{**DISK, "inodes": 0, "inodes_used": 0}]}, []),
    ({"tpu_logs": {"path": "/x/tpu_logs", "bytes": 6 << 30}}, ["disk tpu_logs warn"]),
    ({"apt": {**APT, "locks": [HELD]}}, ["apt locked warn"]),
    # Who installs now has packages half configured: that is no interruption.
    ({"apt": {**APT, "locks": [HELD], "unfinished": ["x"]}}, ["apt locked warn"]),
    ({"apt": {**APT, "unfinished": ["x"]}}, ["apt interrupted fail"]),
    ({"apt": {**APT, "updates": 2}}, ["apt interrupted fail"]),
    ({"apt": {**APT, "broken": ["x"]}}, ["apt broken fail"]),
    ({"apt": {**APT, "dpkg": False, "updates": 2}}, []),
    ({"limits": {**LIMITS, "nofile": [1024, 1048576]}}, ["limits few_files warn"]),
    # More than this host can give is nobody's fault.
    ({"limits": {**LIMITS, "nofile": [1024, 4096]}}, []),
    ({"limits": {**LIMITS, "memlock": [65536, -1]}}, ["limits little_memlock warn"]),
    (
        {"variables": [{"where": "/etc/environment", "name": "JAX_PLATFORMS", "value": "cpu"}]},
        ["environment telltale warn"],
    ),
    ({"mounts": [{**MOUNT, "state": "hangs"}]}, ["mounts hangs fail"]),
    ({"mounts": [{**MOUNT, "state": "stale"}]}, ["mounts stale fail"]),
    (
        {"mounts": [{**MOUNT, "state": "stale", "declared": False}]},
        ["mounts stale_undeclared fail"],
    ),
    ({"mounts": [{**MOUNT, "state": "absent"}]}, ["mounts absent fail"]),
    ({"mounts": [{**MOUNT, "state": "optional"}]}, []),
    ({"mounts": [{**MOUNT, "state": "error", "error": "EIO"}]}, ["mounts error fail"]),
    ({"mounts": [{**MOUNT, "read_only": True}]}, ["mounts read_only fail"]),
    ({"mounts": [{**MOUNT, "read_only": True, "wanted_writable": False}]}, []),
    (
        {"data_disks": [{"name": "disk-1", "device": "/dev/sdb", "used": False}]},
        ["mounts idle_disk warn"],
    ),
    ({"units": [{**UNIT, "active": "failed", "result": "exit-code"}]}, ["units failed fail"]),
    (
        {"units": [{**UNIT, "ours": False, "active": "failed", "result": "x"}]},
        ["units failed_system warn"],
    ),
    ({"units": [{**UNIT, "enabled": "disabled", "result": ""}]}, ["units not_enabled warn"]),
    ({"units": [{**UNIT, "enabled": "static", "result": ""}]}, []),
    (
        {"units": [{**UNIT, "active": "activating", "sub": "auto-restart", "result": "exit-code"}]},
        ["units restarts fail"],
    ),
    ({"chips": {"pci": 0, "generation": "", "devices": []}}, ["chips none fail"]),
    (
        {"chips": {"pci": 3, "generation": "v6e", "devices": ["/dev/vfio/0"]}},
        ["chips missing fail", "chips_seen fewer fail"],
    ),
    ({"chips": {"pci": 4, "generation": "v6e", "devices": []}}, ["chips no_driver fail"]),
    ({"framework_looks": [{**LOOK, "chips": 1}]}, ["chips_seen fewer fail"]),
    ({"framework_looks": [{**LOOK, "error": "no TPU"}]}, ["chips_seen refused fail"]),
    ({"framework_looks": [{**LOOK, "timeout": "9"}]}, ["chips_seen slow warn"]),
    ({"framework_looks": []}, []),
    ({"holders": [{**HOLDER, "run": "", "tmux": "work"}]}, ["holders other warn"]),
    ({"holders": [{**HOLDER, "run": "digits", "tmux": "digits"}]}, []),
    ({"lock_file": LOCK}, ["lock_file others fail"]),
    ({"lock_file": {**LOCK, "mode": 0o666, "sticky": False}}, ["lock_file stale warn"]),
    ({"lock_file": LOCK, "holders": [{**HOLDER, "run": "digits", "tmux": ""}]}, []),
    (
        {"preload": [{"where": "/etc/environment", "value": "libx.so", "missing": False}]},
        ["ld_preload tcmalloc warn"],
    ),
    (
        {"preload": [{"where": "/etc/environment", "value": "/x.so", "missing": True}]},
        ["ld_preload missing fail"],
    ),
    ({"huge_pages": {"wanted": True, "now": "madvise"}}, ["huge_pages off warn"]),
    ({"huge_pages": {"wanted": False, "now": "madvise"}}, []),
    (
        {"host": {"name": "solo", "boot_id": "b1", "container": "", "python": "3.8.10"}},
        ["python old warn"],
    ),
    ({"venvs": [{**VENV, "there": False}]}, ["venvs missing fail"]),
    ({"venvs": [{**VENV, "error": "no module"}]}, ["venvs broken fail"]),
    ({"venvs": [{**VENV, "timeout": "17"}]}, ["venvs slow warn"]),
    ({"venvs": [{**VENV, "packages": {"jax": "0.4.1"}}]}, ["venvs drift warn"]),
    ({"venvs": [{**VENV, "python": "3.10.1"}]}, ["venvs drift warn"]),
    # What somebody added harms nobody.
    ({"venvs": [{**VENV, "packages": {"jax": "0.12.0", "rich": "1"}}]}, []),
    ({"venvs": [{**VENV, "import_errors": {"jax": "libx"}}]}, ["imports fails fail"]),
    ({"runs": [{**RUN, "state": "failed", "exit_code": 3}]}, ["runs failed fail"]),
    ({"runs": [{**RUN, "state": "failed", "signal": 9}]}, ["runs failed fail"]),
    ({"runs": [{**RUN, "loss_trouble": {"what": "nan", "step": 121}}]}, ["loss trouble fail"]),
    ({"runs": [{**RUN, "bad_chips": {"times": 2, "said": "busy"}}]}, ["chips_init bad fail"]),
    ({"runs": [{**RUN, "stand_out": ["worker 2 is slow"]}]}, ["stand_out worker warn"]),
    ({"runs": [{**RUN, "quiet": 840.0}]}, ["runs quiet fail"]),
    (
        {"runs": [{**RUN, "state": "restarting", "reason": "worker 0 is not there"}]},
        ["runs waits warn"],
    ),
    ({"runs": [{**RUN, "agent_alive": False}]}, ["runs no_agent fail"]),
    ({"runs": [{**RUN, "agent_alive": False, "told_to_stop": True}]}, ["runs stopped warn"]),
    # After a reboot its agent has not started.
    ({"runs": [{**RUN, "agent_alive": False, "stopped_by": "eve@x"}]}, ["runs stopped warn"]),
    # A run that is declared and switched off.
    ({"runs": [{**RUN, "agent_alive": False, "unit_enabled": False}]}, []),
    ({"runs": [{**RUN, "unit_enabled": False}]}, ["runs not_enabled warn"]),
    ({"runs": [{**RUN, "problems": ["disk full"]}]}, ["runs problem fail"]),
    ({"runs": [{**RUN, "problems": ["archive: 2m behind: 403"]}]}, ["runs archive warn"]),
    ({"runs": [{**RUN, "dropped": 9}]}, ["runs log_dropped warn"]),
    ({"unknown": {"apt": "no answer within 12 s"}}, ["apt unknown warn"]),
]


@pytest.mark.parametrize(("changes", "cases"), TABLE)
def test_what_is_wrong(changes: dict[str, Any], cases: list[str]) -> None:
    assert bad(**changes) == {tuple(case.split()) for case in cases}


@pytest.mark.parametrize(
    ("asked", "begun", "said", "ahead"),
    [
        (100, 101, 100.5, 0),
        # Slow connections: it may have been read at any time in between.
        (100, 140, 139, 0),
        (100, 140, 150, 10),
        (100, 140, 90, -10),
    ],
)
def test_a_slow_connection_is_no_wrong_clock(
    asked: float, begun: float, said: float, ahead: float
) -> None:
    assert doctor_machine.skew(asked, begun, said) == ahead


def test_every_case_of_every_check_is_in_the_table() -> None:
    declared = {(check.key, name) for check in CHECKS for name in check.cases}
    shown = {tuple(case.split()[:2]) for _changes, cases in TABLE for case in cases}
    assert declared - shown == set()


def test_what_is_compared_between_workers() -> None:
    own = {**VENV, "name": "notebook_server", "path": "/opt/tpu-fleet/venvs/notebook_server"}
    assert list(summary({"venvs": [VENV, own]})["venvs"]) == ["jax"]


def test_what_is_said_names_what_is_meant() -> None:
    (row,) = [
        f for f in look(holders=[{**HOLDER, "run": "", "tmux": "work"}]) if f.status == "warn"
    ]
    assert row.says == (
        "/dev/accel0 is held by process 7 of carol (python x.py) in tmux session work"
    )
    assert row.remedy == "Ask carol; with their consent: sudo kill 7"


@pytest.mark.parametrize(
    ("changes", "looks"),
    [
        ({"runs": []}, True),
        ({"runs": [RUN]}, False),
        ({"runs": [{**RUN, "state": "restarting"}]}, False),
        ({"runs": [{**RUN, "state": "succeeded"}]}, True),
        ({"runs": [], "holders": [HOLDER]}, False),
    ],
)
def test_no_chip_is_touched_that_somebody_uses_or_is_about_to(
    changes: dict[str, Any], looks: bool
) -> None:
    assert doctor_tpu.is_free(facts(**changes)) is looks


@pytest.mark.parametrize(
    ("statuses", "end", "code"),
    [
        ([], "ok", 0),
        (["ok", "skipped"], "ok", 0),
        (["ok", "warn", "skipped"], "warn", 1),
        (["fail", "warn"], "fail", 2),
    ],
)
def test_how_it_ends(statuses: list[str], end: str, code: int) -> None:
    assert worst(statuses) == end
    assert exit_code(end) == code
