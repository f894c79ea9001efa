# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a machine: boot, clock, disks, packages, mounts, units. No I/O.

Runs on Python 3.8.
"""

from __future__ import annotations

from typing import Any, Iterator, Mapping, Tuple

from .check import FAIL, WARN, WORKER, Case, Check, Facts, Hit, fine, hit, listed, skipped

GIB = 1024**3
APPLY = "Run: tpu-fleet apply --limit {host}"

# Maximum error of a clock in seconds. Google refuses signatures that are minutes off.
CLOCK_WARN, CLOCK_FAIL = 5.0, 60.0
DISK_WARN, DISK_FAIL = 0.90, 0.97
LOGS_WARN = 5 * GIB
# Data loaders with a few processes need this many.
FILES_WANTED = 65536

# Variables that change the behaviour of frameworks unexpectedly.
TELLTALES = {
    "JAX_PLATFORMS": "JAX uses only these platforms",
    "PJRT_DEVICE": "torch_xla uses only this device",
    "TPU_SKIP_MDS_QUERY": "frameworks do not find the other workers of the slice",
    "TPU_VISIBLE_CHIPS": "programs see only these chips",
    "TPU_PROCESS_BOUNDS": "programs see only part of the slice",
    "TPU_LIBRARY_PATH": "another libtpu than the venv's is loaded",
    "http_proxy": "workers may look for each other through the proxy",
    "HTTP_PROXY": "workers may look for each other through the proxy",
    "https_proxy": "workers may look for each other through the proxy",
    "HTTPS_PROXY": "workers may look for each other through the proxy",
}


def share(part: float, whole: float) -> float:
    """Return the used fraction; 0 for an empty total."""
    return part / whole if whole else 0.0


def size(number: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def skew(asked: float, begun: float, said: float) -> float:
    """Return how far a clock is ahead at least; it was read between `asked` and `begun`."""
    if said < asked:
        return said - asked
    return max(0.0, said - begun)


def _boot(facts: Facts) -> Iterator[Hit]:
    boot = facts["boot"]
    if boot["busy"]:
        yield hit("busy", units=listed(boot["busy"]))
    for unit in boot["failed"]:
        yield hit("failed", subject=unit, unit=unit)


def _ready(facts: Facts) -> Iterator[Hit]:
    marker, host = facts["marker"], facts["host"]
    applied = marker["state"].get("applied", {})
    if not applied:
        yield skipped("no role of tpu.fleet was applied here")
    elif marker["ready"] is None:
        yield hit("missing", host=host["name"])
    elif marker["ready"] != host["boot_id"]:
        yield hit("older_boot", host=host["name"])
    else:
        yield fine(f"applied: {listed(sorted(applied), 20)}")


def _self_setup(facts: Facts) -> Iterator[Hit]:
    status, alone = facts["self_setup"]["status"], facts["self_setup"]["alone"]
    host, without = facts["host"]["name"], status.get("without") or []
    if status.get("state") == "failed":
        yield hit("failed", why=status.get("why", ""), host=host)
    elif status.get("state") == "done" and alone and without:
        yield hit("without", what=listed(without), host=host)


def _datasets(facts: Facts) -> Iterator[Hit]:
    for one in facts["datasets"]["sets"]:
        if one["there"]:
            yield fine(f"{one['name']} is there", one["name"])
        elif one["state"] == "failed":
            yield hit("failed", subject=one["name"], name=one["name"], why=one["says"])
        elif not facts["datasets"]["alive"]:
            yield hit("stopped", subject=one["name"], name=one["name"], host=facts["host"]["name"])
        else:
            yield fine(f"{one['name']}: {one['says']}", one["name"])


def _reboot(facts: Facts) -> Iterator[Hit]:
    pending = facts["reboot"]
    if pending["required"]:
        because = listed(pending["packages"]) or "a package"
        yield hit("pending", packages=because, host=facts["host"]["name"])


def _clock(facts: Facts) -> Iterator[Hit]:
    ahead = facts["clock"]["ahead"]
    if ahead is None:
        yield skipped("the controller's time is unknown")
        return
    blanks = {"seconds": f"{abs(ahead):.0f}", "where": "ahead" if ahead > 0 else "behind"}
    if abs(ahead) >= CLOCK_FAIL:
        yield hit("wrong", **blanks)
    elif abs(ahead) >= CLOCK_WARN:
        yield hit("off", **blanks)
    elif facts["clock"]["synchronized"] is False and not facts["host"]["container"]:
        yield hit("alone")


def _disk(facts: Facts) -> Iterator[Hit]:
    for disk in facts["disks"]:
        yield from _one_disk(disk)
    logs = facts["tpu_logs"]
    if logs["bytes"] >= LOGS_WARN:
        yield hit("tpu_logs", subject=logs["path"], size=size(logs["bytes"]), path=logs["path"])


def _one_disk(disk: Mapping[str, Any]) -> Iterator[Hit]:
    mount = disk["mount"]
    used, inodes = share(disk["used"], disk["size"]), share(disk["inodes_used"], disk["inodes"])
    blanks = {"mount": mount, "free": size(disk["size"] - disk["used"]), "used": f"{used:.0%}"}
    if used >= DISK_FAIL:
        yield hit("full", subject=mount, **blanks)
    elif used >= DISK_WARN:
        yield hit("nearly_full", subject=mount, **blanks)
    if inodes >= DISK_FAIL:
        yield hit("no_inodes", subject=mount, mount=mount, used=f"{inodes:.0%}")
    elif inodes >= DISK_WARN:
        yield hit("few_inodes", subject=mount, mount=mount, used=f"{inodes:.0%}")


def _apt(facts: Facts) -> Iterator[Hit]:
    apt = facts["apt"]
    if not apt["dpkg"]:
        yield skipped("there is no dpkg here")
        return
    for lock in apt["locks"]:
        yield hit("locked", subject=lock["path"], **lock)
    if (apt["updates"] or apt["unfinished"]) and not apt["locks"]:
        packages = listed(apt["unfinished"]) or "the last installation"
        yield hit("interrupted", packages=packages)
    if apt["broken"]:
        yield hit("broken", packages=listed(apt["broken"]))


def _limits(facts: Facts) -> Iterator[Hit]:
    limits, host = facts["limits"], facts["host"]
    soft, hard = limits["nofile"]
    if 0 <= soft < FILES_WANTED and (hard < 0 or hard >= FILES_WANTED):
        yield hit("few_files", subject="nofile", files=soft, host=host["name"])
    locked = limits["memlock"][0]
    if locked >= 0 and facts["chips"]["pci"]:
        yield hit("little_memlock", subject="memlock", size=size(locked), host=host["name"])


def _environment(facts: Facts) -> Iterator[Hit]:
    for found in facts["variables"]:
        yield hit("telltale", subject=found["name"], means=TELLTALES[found["name"]], **found)


def _mounts(facts: Facts) -> Iterator[Hit]:
    for mount in facts["mounts"]:
        point = mount["point"]
        case = _mount_case(mount)
        if case:
            unit = mount["unit"]
            how = f"systemctl start {unit}" if unit else f"mount {point}"
            about = {"source": mount["source"], "error": mount["error"], "mount": how}
            yield hit(case, subject=point, point=point, **about)
        else:
            yield fine(f"{mount['source']} ({mount['type']})", subject=point)
    for disk in facts["data_disks"]:
        if not disk["used"]:
            yield hit("idle_disk", subject=disk["name"], disk=disk["name"], device=disk["device"])
    if not facts["mounts"] and not facts["data_disks"]:
        yield skipped("only the boot disk is mounted")


def _mount_case(mount: Mapping[str, Any]) -> str:
    state = mount["state"]
    if state == "mounted" and mount["read_only"] and mount["wanted_writable"]:
        return "read_only"
    return {
        "mounted": "",
        "optional": "",
        "absent": "absent",
        "hangs": "hangs",
        "stale": "stale" if mount["declared"] else "stale_undeclared",
    }.get(state, "error")


def _units(facts: Facts) -> Iterator[Hit]:
    for unit in facts["units"]:
        if unit["active"] == "failed":
            case = "failed" if unit["ours"] else "failed_system"
            yield hit(case, subject=unit["unit"], unit=unit["unit"], result=unit["result"])
        elif unit["ours"] and unit["sub"].startswith("auto-restart"):
            yield hit("restarts", subject=unit["unit"], unit=unit["unit"], result=unit["result"])
        elif unit["ours"] and unit["enabled"] == "disabled" and unit["active"] == "active":
            yield hit("not_enabled", subject=unit["unit"], unit=unit["unit"])


_FULL = "Find what is large: sudo du -xh --max-depth=3 {mount} | sort -h | tail"
_MANY = "Find folders with many files: sudo du -x --inodes {mount} | sort -n | tail"
_LOG = "Read: journalctl -u {unit} -n 50"

CHECKS: Tuple[Check, ...] = (
    Check(
        "first_boot",
        WORKER,
        "whether cloud-init and Google's startup scripts have succeeded",
        _boot,
        {
            "busy": Case(
                WARN,
                "the first boot has not finished: {units}",
                "Wait until it has finished; configure waits by itself.",
            ),
            "failed": Case(WARN, "{unit} has failed", f"{_LOG}; then repair it or start it again."),
        },
        ("boot",),
    ),
    Check(
        "ready",
        WORKER,
        "the marker that says that the roles were applied in this boot",
        _ready,
        {
            "missing": Case(WARN, "set up only partly: the ready marker is missing", APPLY),
            "older_boot": Case(
                WARN,
                "rebooted since it was last set up",
                APPLY,
                fix="writes the marker again, if all other checks of the worker are ok",
            ),
        },
        ("marker",),
    ),
    Check(
        "self_setup",
        WORKER,
        "machines that set themselves up at boot",
        _self_setup,
        {
            "failed": Case(
                FAIL,
                "the machine could not set itself up and tries again: {why}",
                f"Read on the machine: sudo cat /var/log/tpu-fleet/self-setup.log. {APPLY}",
            ),
            "without": Case(
                WARN,
                "the machine has set itself up without {what}",
                APPLY,
            ),
        },
        ("self_setup",),
    ),
    Check(
        "datasets",
        WORKER,
        "fleet_datasets: whether each is there, or comes",
        _datasets,
        {
            "failed": Case(
                FAIL,
                "data set {name} cannot be staged and is tried again: {why}",
                "Correct fleet_datasets, or what it names. Read: "
                "journalctl -u tpu-fleet-datasets.service",
            ),
            "stopped": Case(WARN, "data set {name} is not there, and nothing stages it", APPLY),
        },
        ("datasets",),
    ),
    Check(
        "reboot",
        WORKER,
        "/run/reboot-required",
        _reboot,
        {
            "pending": Case(
                WARN,
                "{packages} need a reboot",
                "When its runs may be interrupted: tpu-fleet exec --sudo --limit {host} -- reboot",
            )
        },
        ("reboot",),
    ),
    Check(
        "clock",
        WORKER,
        "the clock compared with the controller's, and whether it is synchronized",
        _clock,
        {
            "wrong": Case(
                FAIL,
                "the clock is {seconds} s {where}: signatures and tokens will be refused",
                "Run on the machine: sudo systemctl restart chrony || "
                "sudo timedatectl set-ntp true",
            ),
            "off": Case(
                WARN,
                "the clock is {seconds} s {where}",
                "Run on the machine: timedatectl; chronyc tracking",
            ),
            "alone": Case(
                WARN,
                "the clock is right, but no time server synchronizes it",
                "Run on the machine: sudo timedatectl set-ntp true",
            ),
        },
        ("clock",),
    ),
    Check(
        "disk",
        WORKER,
        "space and inodes of every file system, size of /tmp/tpu_logs",
        _disk,
        {
            "full": Case(FAIL, "{mount} is {used} full, {free} free", _FULL),
            "nearly_full": Case(WARN, "{mount} is {used} full, {free} free", _FULL),
            "no_inodes": Case(
                FAIL,
                "{mount} has no free inodes ({used} used)",
                _MANY,
            ),
            "few_inodes": Case(
                WARN,
                "{mount} uses {used} of its inodes",
                _MANY,
            ),
            "tpu_logs": Case(
                WARN,
                "{path} has grown to {size}",
                "Set TPU_LOG_DIR=disabled for your runs, and: sudo rm -r {path}",
            ),
        },
        ("disks", "tpu_logs"),
    ),
    Check(
        "apt",
        WORKER,
        "apt and dpkg: held locks, partly installed packages",
        _apt,
        {
            "locked": Case(
                WARN,
                "{path} is held by process {pid} ({command})",
                "Wait until it ends; the roles wait up to ten minutes.",
            ),
            "interrupted": Case(
                FAIL,
                "dpkg was interrupted in {packages}; no package can be installed",
                "Run on the machine: sudo dpkg --configure -a",
                fix="runs dpkg --configure -a, if no process holds a lock",
            ),
            "broken": Case(
                FAIL,
                "partly installed: {packages}",
                "Run on the machine: sudo apt-get install --fix-broken",
            ),
        },
        ("apt",),
    ),
    Check(
        "limits",
        WORKER,
        "limits of a login: open files and locked memory",
        _limits,
        {
            "few_files": Case(
                WARN,
                "a login may open only {files} files",
                f"{APPLY} --only base, then log in again",
            ),
            "little_memlock": Case(
                WARN,
                "a login may lock only {size} of memory; the TPU runtime needs more",
                f"{APPLY} --only base, then log in again",
            ),
        },
        ("limits", "chips"),
    ),
    Check(
        "environment",
        WORKER,
        "variables in /etc/environment and /etc/profile.d that affect frameworks",
        _environment,
        {
            "telltale": Case(
                WARN,
                "{where} sets {name}={value} for all users: {means}",
                "Remove it from {where}, unless all users need it; runs can set variables.",
            )
        },
        ("variables",),
    ),
    Check(
        "mounts",
        WORKER,
        "file servers, buckets and data disks: mounted, answering, writable",
        _mounts,
        {
            "hangs": Case(
                FAIL,
                "{point} does not answer: {source} hangs, as does every program that uses it",
                "Restart the server of {source}; programs then continue by themselves.",
            ),
            "stale": Case(
                FAIL,
                "{point} is dead ({error})",
                "Run on the machine: sudo umount -l {point} && sudo {mount}",
                fix="unmounts it lazily and mounts it again",
            ),
            "stale_undeclared": Case(
                FAIL,
                "{point} is dead ({error}), and neither a unit nor fstab declares it",
                "Run on the machine: sudo umount -l {point}; then mount {source} again",
            ),
            "absent": Case(
                FAIL,
                "{point} is declared and not mounted: programs write to the boot disk instead",
                "Run on the machine: sudo {mount}; findmnt --verify",
                fix="mounts it",
            ),
            "read_only": Case(
                FAIL,
                "{point} is declared writable but mounted read-only, as after a disk error",
                "Run on the machine: sudo dmesg | grep -i error; "
                "then: sudo mount -o remount,rw {point}",
            ),
            "error": Case(
                FAIL,
                "{point} cannot be read: {error}",
                "Run on the machine: ls {point}; findmnt {point}",
            ),
            "idle_disk": Case(
                WARN,
                "data disk {disk} ({device}) is attached but not mounted",
                "Give it a path in fleet_disks, or detach it.",
            ),
        },
        ("mounts", "data_disks"),
    ),
    Check(
        "units",
        WORKER,
        "systemd units of tpu.fleet, ssh and the guest agent",
        _units,
        {
            "failed": Case(
                FAIL,
                "{unit} has failed ({result})",
                f"{_LOG}; then: sudo systemctl restart {{unit}}",
                fix="restarts it",
            ),
            "failed_system": Case(
                WARN,
                "{unit} has failed ({result})",
                f"{_LOG}; then: sudo systemctl restart {{unit}}",
            ),
            "restarts": Case(
                FAIL,
                "{unit} ended ({result}) and is restarted repeatedly",
                f"{_LOG}; it continues by itself once its cause is removed.",
            ),
            "not_enabled": Case(
                WARN,
                "{unit} runs, but will not start after a reboot",
                "Run on the machine: sudo systemctl enable {unit}",
            ),
        },
        ("units",),
    ),
)
