# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Checks of a whole machine, within a time limit. Runs on Python 3.8."""

from __future__ import annotations

import contextlib
import os
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Tuple

from .._host.state import VENVS_OF_ROLES, read_text
from . import gather
from . import machine as doctor_machine
from . import tpu as doctor_tpu
from . import work as doctor_work
from .check import UNKNOWN, Check, Finding, examine
from .gather import Place
from .probe import Probe, more_patient, probe_all
from .read import Mount, measured, mountinfo
from .tpu import is_free

CHECKS: Tuple[Check, ...] = (
    *doctor_machine.CHECKS,
    *doctor_tpu.CHECKS,
    *doctor_work.CHECKS,
)
# A healthy server answers within a second or two, even if it must be mounted first.
_QUICK, _MOUNT = 12.0, 4.0
# Reserve for start and end.
_MARGIN = 2.0


def look(
    place: Place, expected: Mapping[str, Any], ahead: Any, time_limit: float
) -> Tuple[Dict[str, Any], List[Finding]]:
    """Return the data of this machine, and the findings."""
    facts = _gathered(place, expected, ahead, time_limit)
    return facts, examine(CHECKS, facts)


def _gathered(
    place: Place, expected: Mapping[str, Any], ahead: Any, time_limit: float
) -> Dict[str, Any]:
    end = time.monotonic() + max(5.0, time_limit - _MARGIN)
    mounts = gather.mounts()
    disks = measured(mountinfo(read_text("/proc/self/mountinfo") or ""))
    venvs = gather.known_venvs(place)
    quick, mount = (more_patient(limit, time_limit) for limit in (_QUICK, _MOUNT))
    whole: Dict[str, Callable[[], Any]] = {
        "host": partial(gather.host, place),
        "boot": gather.boot,
        "marker": partial(gather.marker, place),
        "self_setup": partial(gather.self_setup, place),
        "datasets": gather.datasets,
        "reboot": gather.reboot,
        "synchronized": gather.synchronized,
        "tpu_logs": gather.tpu_logs,
        "apt": gather.apt,
        "limits": gather.limits,
        "variables": gather.variables,
        "preload": gather.preload,
        "chips": partial(gather.chips, place),
        "holders": gather.holders,
        "lock_file": partial(gather.lock_file, place),
        "data_disks": gather.data_disks,
        "units": gather.units,
        "runs": partial(gather.runs, place),
        "code": partial(gather.codes, place),
        "peer_ports": partial(gather.peer_ports, place),
    }
    probes = [
        *(Probe(name, function, quick) for name, function in whole.items()),
        *(Probe(f"disk {m.point}", partial(gather.disk, m.point, m.type), mount) for m in disks),
        *(Probe(f"mount {m.point}", partial(gather.touch_mount, m.point), mount) for m in mounts),
        *(Probe(f"venv {v['name']}", partial(gather.inspect_venv, v["path"]), 999) for v in venvs),
    ]
    found, failed = probe_all(probes, end - time.monotonic())
    facts: Dict[str, Any] = {name: found[name] for name in whole if name in found}
    facts.update(
        expected=expected,
        clock={"ahead": ahead, "synchronized": found.get("synchronized")},
        disks=[found[f"disk {m.point}"] for m in disks if f"disk {m.point}" in found],
        mounts=[_mount_facts(mount, found, failed) for mount in mounts],
        venvs=[_venv_facts(venv, found, failed) for venv in venvs],
        framework_looks=[],
    )
    facts[UNKNOWN] = {name: why for name, why in failed.items() if name in whole}
    if "chips" in facts:
        facts["huge_pages"] = facts["chips"]["huge_pages"]
    for name in ("chips", "holders", "runs"):
        if name in facts[UNKNOWN]:
            facts[UNKNOWN].setdefault("huge_pages", facts[UNKNOWN][name])
            return facts
    if facts["chips"]["pci"] and is_free(facts):
        facts["framework_looks"] = _framework_looks(place, facts, end)
    return facts


def _mount_facts(
    mount: Mount, found: Mapping[str, Any], failed: Mapping[str, str]
) -> Dict[str, Any]:
    name = f"mount {mount.point}"
    state, error = found.get(name, ("error", failed.get(name, "")))
    if error.startswith("no answer"):
        state = "hangs"
    elif not mount.there and state == "mounted" and not _is_mounted(mount.point):
        # The folder below the mount point answered instead.
        state = "optional" if mount.optional else "absent"
    return {
        "point": mount.point,
        "type": mount.type,
        "source": mount.source,
        "state": state,
        "error": error,
        "declared": mount.declared,
        "unit": mount.unit,
        "read_only": mount.there and mount.read_only,
        "wanted_writable": mount.wanted_writable,
    }


def _is_mounted(point: str) -> bool:
    there = mountinfo(read_text("/proc/self/mountinfo") or "")
    return any(mount.point == point and mount.type != "autofs" for mount in there)


def _venv_facts(
    venv: Mapping[str, Any], found: Mapping[str, Any], failed: Mapping[str, str]
) -> Dict[str, Any]:
    name = f"venv {venv['name']}"
    error = failed.get(name, "")
    timeout = error.split()[-2] if error.startswith("no answer") else ""
    nothing = {"packages": {}, "python": "", "imports": {}, "import_errors": {}}
    seen = found.get(name, {"there": True, "error": error})
    return {**venv, **nothing, "error": "", **seen, "timeout": timeout}


def _framework_looks(place: Place, facts: Mapping[str, Any], end: float) -> List[Dict[str, Any]]:
    """Let the frameworks count the chips one after the other, because one program opens them."""
    looks = []
    lock_before = bool(facts.get("lock_file"))
    for venv in facts["venvs"]:
        for framework in gather.COUNTING:
            if framework not in venv["imports"]:
                continue
            left = end - time.monotonic()
            about = {"venv": venv["name"], "framework": framework, "chips": 0, "error": ""}
            if left < 1:
                looks.append({**about, "timeout": "0"})
                continue
            count = facts["chips"]["pci"]
            ask = partial(gather.framework_chips, venv["path"], framework, count)
            found, failed = probe_all([Probe("look", ask, left)], left)
            why = failed.get("look", "")
            timeout = why.split()[-2] if why.startswith("no answer") else ""
            looks.append({**about, "error": why, **found.get("look", {}), "timeout": timeout})
    if looks and not lock_before and not gather.holders():
        # A lock file of this check would disturb other programs.
        with contextlib.suppress(FileNotFoundError):
            os.unlink(place.lock_file)  # noqa: PTH108
    return looks


def summary(facts: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what is compared between the workers of a slice."""
    records = {
        venv["name"]: {
            "python": venv["python"] or venv["recorded_python"],
            "packages": venv["packages"] or venv["recorded"],
        }
        for venv in facts["venvs"]
        # A notebook and its venv are only on one worker.
        if not venv["path"].startswith(VENVS_OF_ROLES)
    }
    runs = {
        run["run"]: {"definition": run["definition"], "attempt": run["attempt"]}
        for run in facts.get("runs", [])
    }
    ports = facts.get("peer_ports", {})
    return {"venvs": records, "code": facts.get("code", {}), "runs": runs, "ports": ports}


def marker_path(place: Place) -> Path:
    """Return the path of the ready marker."""
    return Path(place.state_dir) / "ready"
