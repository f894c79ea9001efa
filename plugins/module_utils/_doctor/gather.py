# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Gather data on the machine itself, without changes. Runs on Python 3.8.

Every function here may hang or fail, so each runs in a separate process, see `probe.py`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import pwd
import resource
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from .._apply_agent.wish import AT_BOOT
from .._host import chip_holders, dataset_place, port_test, worker_ports
from .._host.as_user import UserError, account_of, as_user, foreign, run
from .._host.chip_holders import Holder, user_name
from .._host.chips import chip_count, generation_of, pci_devices, wants_huge_pages
from .._host.run_end import end_of
from .._host.run_states import FAILED, quiet_for, why_of
from .._host.runs import RunFiles, newest
from .._host.state import STATE_DIR, boot_id, load, locker, read_text
from .._host.worker_ports import Target, Tried
from .machine import TELLTALES
from .probe import become
from .read import (
    Mount,
    dpkg_states,
    dpkg_unfinished,
    fstab_mounts,
    is_worth_a_look,
    mountinfo,
    preloads,
    unit_blocks,
    variables_in,
)

APT_LOCKS = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
)
BOOT_UNITS = ("cloud-final.service", "google-startup-scripts.service")
SYSTEM_UNITS = ("ssh.service", "google-guest-agent.service")
TPU_LOGS = "/tmp/tpu_logs"  # noqa: S108 - libtpu's own choice
# struct flock of 64-bit Linux: type, whence, start, length, process.
_NO_HANG = 20.0
# Ports that one worker cannot reach, of which the report says all that differs.
_MOST_BLOCKED = 100


@dataclass(frozen=True)
class Place:
    """Paths on this host; tests use others."""

    # Its name in the inventory.
    name: str = ""
    state_dir: str = STATE_DIR
    runs_dir: str = "/etc/tpu-fleet/runs"
    pci: str = "/sys/bus/pci/devices"
    lock_file: str = "/tmp/libtpu_lockfile"  # noqa: S108 - libtpu's own choice
    venvs: Tuple[Mapping[str, Any], ...] = field(default_factory=tuple)
    # The workers of the slice by their internal addresses, and which of them this one is.
    hosts: Tuple[str, ...] = ()
    worker: int = 0


def told(*argv: str, limit: float = _NO_HANG) -> str:
    """Return the output of a command, whatever its exit status; empty if it is missing."""
    try:
        env = {**os.environ, "LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        done = run(list(argv), env, seconds=limit, own_session=False)
    except (OSError, UserError):
        return ""
    return (done.out + done.err).decode("utf-8", "replace")


def host(place: Place) -> Dict[str, Any]:
    """Return the kind of this host."""
    container = told("systemd-detect-virt", "--container").strip()
    if container in ("", "none") and told("systemd-detect-virt", "--vm").strip() == "uml":
        # User-mode Linux is also a process of its computer: no chips, and no own clock.
        container = "uml"
    return {
        "name": place.name or socket.gethostname(),
        "boot_id": boot_id(),
        "container": "" if container == "none" else container,
        "python": platform.python_version(),
    }


def boot() -> Dict[str, Any]:
    """Read the state of the units of the first boot."""
    show = told("systemctl", "show", "--property=Id,ActiveState,Job", *BOOT_UNITS)
    units = unit_blocks(show)
    busy = [
        u["Id"] for u in units if u.get("ActiveState") == "activating" or u.get("Job", "0") > "0"
    ]
    return {"busy": busy, "failed": [u["Id"] for u in units if u.get("ActiveState") == "failed"]}


def marker(place: Place) -> Dict[str, Any]:
    """Read what the roles recorded."""
    ready = read_text(Path(place.state_dir) / "ready")
    return {"ready": ready.strip() if ready is not None else None, "state": load(place.state_dir)}


def self_setup(place: Place) -> Dict[str, Any]:
    """Read the state of the machine's self-setup, and whether a controller has set it up since."""
    running = _json(Path(place.state_dir) / "apply" / "running.json") or {}
    status = _json(Path(place.state_dir) / "self-setup.json") or {}
    return {"status": status, "alone": running.get("who") == AT_BOOT}


def datasets() -> Dict[str, Any]:
    """Read which data sets are declared, what is there of them, and whether they are staged."""
    declared = (_json(Path("/etc/tpu-fleet/datasets.json")) or {}).get("datasets") or []
    found = []
    for entry in declared:
        name, path, content = (str(entry.get(key)) for key in ("name", "path", "id"))
        said = dataset_place.status_of(name)
        is_of_it = said.get("id") == content
        found.append(
            {
                "name": name,
                "there": dataset_place.Place(path).has(content),
                "state": said.get("state") if is_of_it else "",
                "says": str(said.get("says") or "") if is_of_it else "",
            }
        )
    shown = told("systemctl", "show", "--property=SubState", dataset_place.UNIT) if found else ""
    state = shown.strip().partition("=")[2]
    return {"sets": found, "alive": state in ("running", "start", "auto-restart")}


def reboot() -> Dict[str, Any]:
    """Read which packages need a reboot."""
    names = read_text("/run/reboot-required.pkgs") or ""
    return {
        "required": Path("/run/reboot-required").exists(),
        "packages": sorted(set(names.split())),
    }


def synchronized() -> Optional[bool]:
    """Return whether a time server keeps the clock right; None if unknown."""
    answer = told("timedatectl", "show", "--property=NTPSynchronized", "--value").strip()
    return {"yes": True, "no": False}.get(answer)


def disk(mount: str, kind: str) -> Dict[str, Any]:
    """Measure one file system."""
    seen = os.statvfs(mount)
    # Space reserved for root is not available to others.
    used = seen.f_blocks - seen.f_bfree
    return {
        "mount": mount,
        "type": kind,
        "size": (used + seen.f_bavail) * seen.f_frsize,
        "used": used * seen.f_frsize,
        "inodes": seen.f_files,
        "inodes_used": seen.f_files - seen.f_ffree,
    }


def tpu_logs(path: str = TPU_LOGS) -> Dict[str, Any]:
    """Measure libtpu's logs."""
    total = 0
    for folder, _folders, files in os.walk(path):
        for name in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118
    return {"path": path, "bytes": total}


def command_of(pid: int) -> str:
    """Name a process by its command."""
    words = (read_text(f"/proc/{pid}/cmdline") or "").replace("\0", " ").split()
    return " ".join(words)[:120] or (read_text(f"/proc/{pid}/comm") or "?").strip()


def apt() -> Dict[str, Any]:
    """Read the state of the package manager."""
    locks: Dict[int, str] = {}
    for path in APT_LOCKS:
        pid = locker(path)
        if pid is not None:
            locks.setdefault(pid, path)
    status = read_text("/var/lib/dpkg/status") or ""
    unfinished, broken = dpkg_unfinished(dpkg_states(status))
    updates = Path("/var/lib/dpkg/updates")
    pending = [name for name in os.listdir(updates) if name.isdigit()] if updates.is_dir() else []  # noqa: PTH208
    return {
        "dpkg": bool(status),
        "locks": [{"path": p, "pid": n, "command": command_of(n)} for n, p in locks.items()],
        "unfinished": unfinished,
        "broken": broken,
        "updates": len(pending),
    }


def limits() -> Dict[str, Any]:
    """Return the limits of a login, such as this one."""
    return {
        "nofile": list(resource.getrlimit(resource.RLIMIT_NOFILE)),
        "memlock": list(resource.getrlimit(resource.RLIMIT_MEMLOCK)),
    }


def _login_files() -> List[str]:
    folder = Path("/etc/profile.d")
    return ["/etc/environment", "/etc/profile", *sorted(str(p) for p in folder.glob("*.sh"))]


def variables() -> List[Dict[str, str]]:
    """Find variables of all logins that affect frameworks."""
    return [
        {"where": path, "name": name, "value": value[:80]}
        for path in _login_files()
        for name, value in variables_in(read_text(path) or "").items()
        if name in TELLTALES
    ]


def preload() -> List[Dict[str, Any]]:
    """Find libraries that are loaded into every program."""
    found = []
    for path in _login_files():
        value = variables_in(read_text(path) or "").get("LD_PRELOAD", "")
        found += [(path, library) for library in preloads(value)]
    found += [(p, lib) for p in ("/etc/ld.so.preload",) for lib in preloads(read_text(p) or "")]
    return [
        {"where": where, "value": lib, "missing": "/" in lib and not Path(lib).exists()}
        for where, lib in found
    ]


# -- the TPU --------------------------------------------------------------------------------------


def chips(place: Place) -> Dict[str, Any]:
    """Read the chips on the bus and their devices."""
    on_bus = pci_devices(place.pci)
    generation = generation_of(on_bus)
    now = read_text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    return {
        "pci": chip_count(on_bus),
        "generation": generation or "",
        "devices": chip_holders.devices(),
        "huge_pages": {
            "wanted": wants_huge_pages(generation),
            "now": now.partition("[")[2].partition("]")[0],
        },
    }


def holders() -> List[Dict[str, Any]]:
    """Return the processes that have a chip open, by their descriptors, not by names."""
    if not chip_holders.devices():
        return []
    if os.geteuid() != 0:
        raise PermissionError("only root sees what others have open")
    return [_holder(one) for one in chip_holders.holders()[0]]


def _holder(one: Holder) -> Dict[str, Any]:
    environment = _environment(one.pid)
    return {
        "pid": one.pid,
        "user": one.user,
        "command": command_of(one.pid),
        "devices": ", ".join(one.devices),
        "run": environment.get("TPU_FLEET_RUN", ""),
        "tmux": _tmux_session(environment, one.uid),
    }


def _environment(pid: int) -> Dict[str, str]:
    pairs = (read_text(f"/proc/{pid}/environ") or "").split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def _tmux_session(environment: Mapping[str, str], uid: int) -> str:
    """Ask the user's tmux server, as the user, for the session that a program runs in."""
    server, pane = environment.get("TMUX", ""), environment.get("TMUX_PANE", "")
    if not server or not pane:
        return ""
    name = user_name(uid)
    account = account_of(name)
    if account is None:
        return ""
    ask = ("tmux", "-S", server.split(",")[0], "display-message", "-p", "-t", pane, "#S")
    try:
        # The server belongs to the user: it may never answer, or never end.
        lines = as_user(account, lambda: told(*ask, limit=3), seconds=4, most_bytes=1000)
    except UserError:
        return ""
    return lines.splitlines()[0] if len(lines.splitlines()) == 1 else ""


def lock_file(place: Place) -> Dict[str, Any]:
    """Read libtpu's lock file."""
    try:
        seen = os.lstat(place.lock_file)
    except FileNotFoundError:
        return {}
    parent = os.stat(os.path.dirname(place.lock_file))  # noqa: PTH116, PTH120
    return {
        "path": place.lock_file,
        "owner": user_name(seen.st_uid),
        "mode": seen.st_mode & 0o7777,
        "sticky": bool(parent.st_mode & 0o1000),
    }


# -- mounts ---------------------------------------------------------------------------------------


def mounts() -> List[Mount]:
    """List the mounts to check: the existing and the declared ones."""
    there = {m.point: m for m in mountinfo(read_text("/proc/self/mountinfo") or "")}
    declared = {m.point: m for m in fstab_mounts(read_text("/etc/fstab") or "")}
    for unit in _mount_units():
        declared.setdefault(unit.point, unit)
    found = []
    for point in sorted({*there, *declared}):
        seen, wish = there.get(point), declared.get(point)
        if seen is not None and (is_worth_a_look(seen) or wish is not None):
            found.append(seen.with_wish(wish))
        elif seen is None and wish is not None:
            found.append(wish)
    return found


def _mount_units() -> Iterator[Mount]:
    """Read the mounts that this collection declared as units of systemd."""
    for path in sorted(Path("/etc/systemd/system").glob("*.mount")):
        text = read_text(path) or ""
        if "tpu-fleet" in text or "tpu.fleet" in text:
            pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
            where = pairs.get("Where", "").strip().replace("%%", "%")
            if where:
                options = tuple(pairs.get("Options", "").strip().split(","))
                # A mount on demand is an autofs mount until its first access.
                on_demand = path.with_suffix(".automount")
                yield Mount(
                    where,
                    pairs.get("Type", "").strip(),
                    pairs.get("What", "").strip(),
                    options,
                    there=False,
                    declared=True,
                    wanted_writable="ro" not in options,
                    unit=on_demand.name if on_demand.exists() else path.name,
                )


_DEAD = (errno.ESTALE, errno.ENOTCONN)


def touch_mount(point: str) -> List[str]:
    """Access a mount, which mounts it on demand. Return state and error."""
    try:
        with os.scandir(point) as entries:
            next(entries, None)
        os.statvfs(point)
    except FileNotFoundError:
        return ["absent", ""]
    except OSError as error:
        return ["stale" if error.errno in _DEAD else "error", error.strerror or str(error)]
    return ["mounted", ""]


def data_disks() -> List[Dict[str, Any]]:
    """List the attached data disks, and whether anything uses them."""
    used = {m.source for m in mountinfo(read_text("/proc/self/mountinfo") or "")}
    found = []
    for link in sorted(Path("/dev/disk/by-id").glob("google-persistent-disk-*")):
        number = link.name.rpartition("-")[2]
        # Number 0 is the boot disk; others are partitions.
        if not number.isdigit() or number == "0":
            continue
        device = os.path.realpath(link)
        mounted = any(source == device or source.startswith(device) for source in used)
        found.append({"name": link.name[len("google-") :], "device": device, "used": mounted})
    return found


# -- units and runs -------------------------------------------------------------------------------

_UNIT = "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result,MainPID"


def units() -> List[Dict[str, Any]]:
    """Read the units that this collection installed, and those that it needs."""
    names = told("systemctl", "list-unit-files", "--no-legend", "--plain", "tpu-fleet-*").split(
        "\n"
    )
    ours = [line.split()[0] for line in names if line.split() and "@." not in line.split()[0]]
    ours = [name for name in ours if not name.startswith("tpu-fleet-run@")]
    shown = unit_blocks(told("systemctl", "show", _UNIT, *ours, *SYSTEM_UNITS))
    return [
        {
            "unit": unit["Id"],
            "ours": unit["Id"] in ours,
            "active": unit.get("ActiveState", ""),
            "sub": unit.get("SubState", ""),
            "enabled": unit.get("UnitFileState", ""),
            "result": unit.get("Result", ""),
        }
        for unit in shown
        if unit.get("LoadState") == "loaded"
    ]


def peer_ports(place: Place) -> Dict[str, Any]:
    """Try the ports of the other workers that the declared runs need; without a run, the usual."""
    about: Dict[str, Tuple[int, Sequence[str], str]] = {}
    wanted: Dict[str, Sequence[Target]] = {}
    for path in sorted(Path(place.runs_dir).glob("*.json")):
        definition = {} if path.name.endswith(".env.json") else _json(path) or {}
        targets = port_test.targets_of(definition, *_used(path, definition), _records(place))
        if targets:
            metadata = str(definition.get("metadata") or "")
            about[path.stem] = (definition["worker"], definition["hosts"], metadata)
            wanted[path.stem] = targets
    if not wanted and len(place.hosts) > 1:
        # Without runs no agent listens, and no program has a port of its own.
        gang = worker_ports.Gang(place.hosts, place.worker, (len(place.hosts),), 0, 0, 0)
        usual = [need for need in worker_ports.needed(gang, {}, {}, chips=True) if need.port]
        about[""] = (place.worker, place.hosts, "")
        wanted[""] = worker_ports.targets(gang, usual)
    tried = port_test.of_several(wanted)
    return {run: _ports(*about[run], tried[run]) for run in wanted}


def _records(place: Place) -> Path:
    return Path(place.state_dir) / "venvs"


def _used(path: Path, definition: Mapping[str, Any]) -> Tuple[Mapping[str, str], bool]:
    """Return a run's variables, and whether it uses chips."""
    needs = str(definition.get("needs_tpu", "auto"))
    uses = bool(chip_holders.devices()) if needs == "auto" else needs == "true"
    return _json(path.with_suffix(".env.json")) or {}, uses


def _ports(
    worker: int, hosts: Sequence[str], metadata: str, tried: Sequence[Tried]
) -> Dict[str, Any]:
    blocked = [[one.worker, one.port, one.result, one.what] for one in tried if one.blocked]
    network = port_test.network_of(metadata) if blocked and metadata else ""
    about = {"worker": worker, "hosts": [*hosts], "network": network}
    return {**about, "tried": len(tried), "blocked": blocked[:_MOST_BLOCKED]}


def runs(place: Place) -> List[Dict[str, Any]]:
    """Read the declared runs and the agents' statuses."""
    found = []
    for path in sorted(Path(place.runs_dir).glob("*.json")):
        if path.name.endswith(".env.json"):
            continue
        name = path.stem
        definition = _json(path) or {}
        kept = definition.get("paths", {})
        state = kept.get("state", f"{STATE_DIR}/runs/{name}")
        spare = kept.get("runtime", f"/run/tpu-fleet/runs/{name}")
        there = RunFiles()
        there.states = Path(state).parent
        _path, status = newest(Path(folder, "status.json") for folder in (state, spare))
        shown = unit_blocks(told("systemctl", "show", _UNIT, f"tpu-fleet-run@{name}.service"))
        unit = shown[0] if shown else {}
        found.append(
            {
                "run": name,
                "state": status.get("state", "pending"),
                "attempt": status.get("attempt", 0),
                "reason": status.get("reason", ""),
                "exit_code": status.get("exit_code"),
                "signal": status.get("signal"),
                "failed_with": _failed_with(status),
                "loss_trouble": status.get("loss_trouble"),
                "bad_chips": status.get("bad_chips") or {},
                "stand_out": status.get("stand_out") or [],
                "quiet": _quiet(status),
                "definition": status.get("definition", ""),
                "problems": status.get("problems", []),
                "dropped": status.get("log_dropped_bytes", 0),
                "log_path": status.get("log_path", f"/var/log/tpu-fleet/runs/{name}/run.log"),
                # A newly started one has not written its status yet.
                "agent_alive": _is_agent(status.get("agent_pid"))
                or (unit.get("ActiveState") == "active" and unit.get("MainPID", "0") != "0"),
                "unit_active": unit.get("ActiveState", ""),
                # The queue agent starts a submitted run at a boot, once it is still this slice's.
                "unit_enabled": unit.get("UnitFileState") == "enabled" or there.is_submitted(name),
                "stopped_by": there.stopped_by(name),
                "told_to_stop": unit.get("ActiveState") == "inactive"
                and unit.get("Result") == "success",
            }
        )
    return found


def _failed_with(status: Mapping[str, Any]) -> str:
    """Return the line of a program's log that says why it failed."""
    log = status.get("log_path")
    if status.get("state") != FAILED or not isinstance(log, str):
        return ""
    end = end_of(Path(log).parent.parent, dict(status))
    return why_of(end.get("tail") or end["event"].get("tail") or [], status.get("signal"))


def _quiet(status: Mapping[str, Any]) -> Optional[float]:
    """Return for how many seconds a running program has made no step, if that is unusual."""
    first = _at_step(status, "first_step", "first_step_at")
    return quiet_for(
        str(status.get("state")), first, _at_step(status, "step", "step_at"), time.time()
    )


def _at_step(status: Mapping[str, Any], step: str, at: str) -> Optional[Tuple[int, float]]:
    number, when = status.get(step), status.get(at)
    if isinstance(number, int) and isinstance(when, (int, float)):
        return number, when
    return None


def _is_agent(pid: Any) -> bool:
    return isinstance(pid, int) and "tpu_fleet_run" in command_of(pid)


def _json(path: Path) -> Optional[Dict[str, Any]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


# -- venvs ----------------------------------------------------------------------------------------

FRAMEWORKS = {"jax": "jax", "torch": "torch", "torch-xla": "torch_xla", "torch-tpu": "torch_tpu"}
# Nothing here may touch a chip, which may be in use, or leave a lock file.
HARMLESS = {
    "JAX_PLATFORMS": "cpu",
    "PJRT_DEVICE": "CPU",
    "TPU_SKIP_MDS_QUERY": "1",
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PACKAGES = """
import json, re, sys
from importlib.metadata import distributions
names = {re.sub(r"[-_.]+", "-", d.metadata["Name"]).lower(): d.version for d in distributions()}
print(json.dumps({"python": ".".join(map(str, sys.version_info[:3])), "packages": names}))
"""
_IMPORT = """
import importlib, sys
module = importlib.import_module(sys.argv[1])
print("version", getattr(module, "__version__", "?"))
"""
COUNTING = ("jax", "torch-tpu", "torch-xla")
_CHIPS = {
    "jax": "import jax; print('chips', sum(d.platform == 'tpu' for d in jax.local_devices()))",
    "torch-xla": "import torch_xla.runtime as r; print('chips', r.addressable_device_count())",
    "torch-tpu": "import torch, torch_tpu; print('chips', torch.tpu.device_count())",
}
# Only the chips of this host, because a program on one worker would wait for the others.
_BOUNDS = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}


def known_venvs(place: Place) -> List[Dict[str, Any]]:
    """List the declared venvs, and what was installed."""
    records = {}
    for path in sorted((Path(place.state_dir) / "venvs").glob("*.json")):
        record = _json(path)
        if record:
            records[str(record.get("name", path.stem))] = record
    for venv in place.venvs:
        # One that is built on need may be missing.
        if not venv.get("on_need"):
            records.setdefault(str(venv["name"]), dict(venv))
    return [
        {
            "name": name,
            "path": record.get("path") or f"/opt/venvs/{name}",
            "recorded": record.get("packages") if isinstance(record.get("packages"), dict) else {},
            "recorded_python": record.get("python_version", ""),
        }
        for name, record in sorted(records.items())
    ]


def codes(place: Place) -> Dict[str, str]:
    """Return the installed version of each code tree."""
    found = {}
    for path in sorted((Path(place.state_dir) / "code").glob("*.json")):
        record = _json(path) or {}
        # A tree that is no longer declared stays as long as a program uses it.
        if record.get("declared", True):
            found[str(record.get("name", path.stem))] = str(record.get("version", ""))
    return found


def inspect_venv(path: str) -> Dict[str, Any]:
    """Read a venv's packages, and whether its frameworks can be imported on the CPU."""
    python = _as_owner(path)
    if not python:
        return {"there": False}
    code, out, err = _run([python, "-I", "-c", _PACKAGES], HARMLESS)
    if code:
        return {"there": True, "error": _last_line(err) or f"it ends with {code}"}
    seen = json.loads(out)
    imports, errors = {}, {}
    for package, module in FRAMEWORKS.items():
        if package not in seen["packages"]:
            continue
        code, out, err = _run([python, "-I", "-c", _IMPORT, module], HARMLESS)
        value = next((li.split()[1] for li in out.splitlines() if li.startswith("version ")), "")
        if code == 0 and value:
            imports[package] = value
        else:
            errors[package] = _last_line(err) or f"it ends with {code}"
    return {"there": True, "error": "", "imports": imports, "import_errors": errors, **seen}


def _as_owner(path: str) -> str:
    """Become the first user who can change the path of a venv's Python; return that path.

    So root runs only what no other user could have put there, even if a link is changed meanwhile.
    """
    python = os.path.join(path, "bin", "python")  # noqa: PTH118
    part = foreign(python)
    try:
        if part is not None:
            uid = os.lstat(part).st_uid
            # A folder of root that all users can write to.
            become(uid if uid else pwd.getpwnam("nobody").pw_uid)
    except OSError:
        return ""
    return python if os.path.lexists(python) else ""


def framework_chips(path: str, framework: str, count: int) -> Dict[str, Any]:
    """Let a framework count the chips of this host. It opens them, so they must be unused."""
    python = _as_owner(path)
    bounds = {
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_CHIPS_PER_PROCESS_BOUNDS": _BOUNDS.get(count, f"{count},1,1"),
        "TPU_VISIBLE_CHIPS": ",".join(map(str, range(count))),
        "CLOUD_TPU_TASK_ID": "0",
        "JAX_PLATFORMS": "tpu,cpu",
        "PJRT_DEVICE": "TPU",
        "TPU_STDERR_LOG_LEVEL": "3",
        "TPU_LOG_DIR": "disabled",
    }
    code, out, err = _run([python, "-I", "-c", _CHIPS[framework]], bounds)
    seen = next((li.split()[1] for li in out.splitlines() if li.startswith("chips ")), "")
    if code or not seen.isdigit():
        return {"chips": 0, "error": _last_line(err) or f"it ends with {code}"}
    return {"chips": int(seen), "error": ""}


def _run(argv: Sequence[str], environment: Mapping[str, str]) -> Tuple[int, str, str]:
    """Run a program that may be a user's; the calling process limits its time."""
    kept = {key: os.environ[key] for key in ("HOME", "USER", "LOGNAME") if key in os.environ}
    env = {**kept, "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **environment}
    done = run(list(argv), env, seconds=float("inf"), own_session=False)
    return done.code, done.out.decode("utf-8", "replace"), done.err.decode("utf-8", "replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
