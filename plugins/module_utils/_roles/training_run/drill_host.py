# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a run on its worker, and carry out a drill there.

What lasts for some time is undone by the host itself, even if the controller is gone.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from ..._host.as_user import UserError, as_user, read_plain
from ..._host.runs import RunFiles
from . import drill as _drill

UNIT = "tpu-fleet-drill"
# Leaves too little space for a checkpoint, but enough for the machine to work.
LEAVE = 65536
_TAIL = 262144
# For a look into the files of a run's user, who can make it last.
_SECONDS = 10.0
_LOCAL = ("ext2", "ext3", "ext4", "xfs", "btrfs", "tmpfs")
_STEP = r"step[ =:]+(\d+)"

# The file is deleted while open, so its space is freed whenever the process or the machine ends.
_FILL = """
import os, sys, tempfile, time
folder, leave, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
deadline = time.monotonic() + seconds
file, path = tempfile.mkstemp(prefix=".tpu-fleet-drill-", dir=folder)
os.unlink(path)
size = 0
while time.monotonic() < deadline:
    found = os.statvfs(folder)
    more = found.f_bavail * found.f_frsize - leave
    while more > 0 and time.monotonic() < deadline:
        try:
            os.posix_fallocate(file, size, more)
            size += more
            break
        except OSError:
            more //= 2
    time.sleep(0.2)
"""


class CannotDo(Exception):
    """A drill is impossible here; the text has the reason, and nothing was done."""


def look(run: str, root: Path = Path("/")) -> dict[str, Any]:
    """Return the state of a run on this worker; without `state` if the run is not here."""
    files = RunFiles(root)
    status, definition = files.status(run), files.definition(run)
    agent = _started(status.get("agent_pid"), root)
    first, step = status.get("first_step"), None
    if status.get("program") == "running" and status.get("state") == "running":
        step = _step_now(run, status, definition, root)
    return {
        "now": time.time(),
        "machine_boot_id": _text(root / "proc/sys/kernel/random/boot_id"),
        "boot_id": status.get("boot_id"),
        "state": status.get("state") or "",
        "reason": status.get("reason") or "",
        "attempt": status.get("attempt") or 0,
        "start": status.get("start"),
        "pid": status.get("pid"),
        "parent": status.get("parent"),
        "program_alive": _started(status.get("pid"), root) is not None,
        "agent_pid": status.get("agent_pid"),
        "agent_alive": agent is not None,
        "agent_since": agent,
        "first_step": first,
        "first_step_at": status.get("first_step_at"),
        "step": step,
        "told_step": status.get("step"),
        "saved_at": status.get("saved_at"),
        "history": [
            {key: entry.get(key) for key in ("attempt", "cause", "exit_code", "signal", "step")}
            for entry in status.get("history") or []
        ],
        "harm": _is_active(),
    }


def _text(path: Path) -> str:
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8").strip()
    return ""


def _started(pid: Any, root: Path) -> float | None:
    """Return when a process was started; None if it does not exist."""
    text = _text(root / "proc" / str(pid) / "stat") if isinstance(pid, int) else ""
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    for line in _text(root / "proc/stat").splitlines():
        if line.startswith("btime "):
            return int(line.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return None


def _step_now(
    run: str, status: dict[str, Any], definition: dict[str, Any], root: Path
) -> int | None:
    """Return the program's present step, because the agent records it only from time to time.

    Its files are its user's, so root reads them as the user.
    """
    told = root / "run/tpu-fleet/runs" / run / "user/progress.json"
    log = root / str(status.get("log_path") or "/nowhere").lstrip("/")
    pattern = str(definition.get("step_pattern") or _STEP)
    reports = status.get("first_step") is not None

    def look() -> int | None:
        step = _step_told(read_plain(str(told)) or b"")
        return step if step is not None or not reports else _last_step(log, pattern)

    try:
        step = as_user(str(status.get("user") or ""), look, seconds=_SECONDS)
    except (KeyError, OSError, UserError):
        step = None
    return step if isinstance(step, int) or not reports else status.get("step")


def _step_told(wrote: bytes) -> int | None:
    """Return the step that a program wrote down itself."""
    try:
        told = json.loads(wrote)
    except (ValueError, RecursionError):
        return None
    step = told.get("step") if isinstance(told, dict) else None
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def _last_step(log: Path, pattern: str) -> int | None:
    """Return the last step in a log, which may be anything."""
    try:
        wanted = re.compile(pattern.encode(), re.IGNORECASE)
        handle = os.open(str(log), os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            stream.seek(max(0, os.fstat(handle).st_size - _TAIL))
            lines = stream.read(_TAIL).split(b"\n")
        found = [match for line in lines for match in wanted.finditer(line[:500])]
        return int(found[-1].group(1)) if found else None
    except (OSError, ValueError, IndexError, re.error):
        return None


def kind_of(folder: Path, root: Path = Path("/")) -> str:
    """Return the type of the file system that a folder is on, or will be on."""
    place, best, kind = os.path.realpath(str(folder)), "", ""
    for line in _text(root / "proc/self/mountinfo").splitlines():
        left, _dash, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = place == point or place.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def _is_active() -> bool:
    return _call("systemctl", "is-active", "--quiet", f"{UNIT}.service").returncode == 0


def _call(*words: str) -> subprocess.CompletedProcess[str]:
    try:
        # pylint: disable-next=ansible-bad-function
        return subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(words, 127, "", str(error))


def harm(drill: str, run: str, seconds: int) -> dict[str, Any]:
    """Carry out a drill; return the state of the run just before it."""
    definition = RunFiles().definition(run)
    before = look(run)
    if not _drill.is_running(before):
        raise CannotDo(_drill.in_words(before))
    if before["harm"]:
        raise CannotDo(f"{UNIT}.service is active: another drill is under way here")
    if drill == _drill.KILL:
        # All processes at once, found before any is killed, so that none can save anything.
        for pid in [before["pid"], *_descendants(before["pid"])]:
            _kill(pid)
    elif drill == _drill.AGENT:
        _kill(before["agent_pid"])
    elif drill == _drill.REBOOT:
        # Delayed until the answer is sent, and forced, because systemd could take a minute more.
        soon = ["--on-active=2s", "--timer-property=AccuracySec=100ms"]
        _unit(soon, ["systemctl", "reboot"])
    elif drill == _drill.DISK:
        folder = fillable(before, definition)
        words = ["/usr/bin/python3", "-I", "-c", _FILL, folder, str(LEAVE), str(seconds)]
        _unit([f"--property=RuntimeMaxSec={seconds + 10}"], words)
        _check_that_it_lasts()
    elif drill == _drill.PARTITION:
        others = [host for host in definition["hosts"] if host != _own(definition)]
        cut, mend = firewall(addresses_of(others))
        limits = [f"--property=RuntimeMaxSec={seconds + 10}", f"--property=ExecStopPost=-{mend}"]
        _unit(limits, ["/bin/sh", "-c", f"{cut} && exec sleep {seconds}"])
        _check_that_it_lasts()
    return before


def _own(definition: dict[str, Any]) -> str:
    return str(definition["hosts"][int(definition["worker"])])


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        fields = _text(stat).rpartition(")")[2].split()
        if len(fields) > 1:
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found: list[int] = []
    todo = [pid]
    while todo:
        below = children.get(todo.pop(), [])
        found += below
        todo += below
    return found


def _unit(options: list[str], words: list[str]) -> None:
    # --collect: a failed unit is removed, too.
    done = _call("systemd-run", "--quiet", "--collect", f"--unit={UNIT}", *options, "--", *words)
    if done.returncode:
        raise CannotDo(f"systemd-run: {(done.stderr or done.stdout).strip()}")


def _check_that_it_lasts() -> None:
    """Raise CannotDo if the unit ended at once, because then the drill had no effect."""
    time.sleep(1)
    if not _is_active():
        raise CannotDo(f"it ended at once: see journalctl -u {UNIT}")


def fillable(before: dict[str, Any], definition: dict[str, Any]) -> str:
    """Return the folder whose disk to fill; raise CannotDo if that would harm others."""
    told = str(definition.get("checkpoint_dir") or "")
    if not told.startswith("/"):
        raise CannotDo(f"the checkpoints are in {told or 'no folder'}, which is on no disk of it")
    folder = Path(told)
    while not folder.is_dir():
        folder = folder.parent
    kind = kind_of(folder)
    if kind not in _LOCAL:
        raise CannotDo(f"{folder} is on a file system of kind {kind}, which may not be its own")
    inside = _call("systemd-detect-virt", "--quiet", "--container").returncode == 0
    if inside and folder.stat().st_dev == Path("/").stat().st_dev:
        raise CannotDo(
            f"{folder} is on the disk of the computer that this machine is a container of; put "
            "checkpoint_dir on a data disk"
        )
    return str(folder)


def addresses_of(hosts: list[str]) -> list[str]:
    """Return the addresses of the other workers."""
    found = set()
    for host in hosts:
        try:
            for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                found.add(str(ipaddress.ip_address(entry[4][0])))
        except (OSError, ValueError) as error:
            raise CannotDo(f"worker {host} has no address: {error}") from None
    return sorted(found)


def firewall(addresses: list[str], which: Any = shutil.which) -> tuple[str, str]:
    """Return the commands that cut a worker off from others, and that undo it."""
    if which("nft"):
        table = "inet tpu_fleet_drill"
        words = [f"nft add table {table}"]
        for chain, side in (("input", "saddr"), ("output", "daddr")):
            words.append(
                f"nft 'add chain {table} {chain} {{ type filter hook {chain} priority -300; }}'"
            )
            for address in addresses:
                family = "ip6" if ":" in address else "ip"
                words.append(f"nft add rule {table} {chain} {family} {side} {address} drop")
        return " && ".join(words), f"{which('nft')} delete table {table}"
    if which("iptables"):
        rules = [
            (f"{which('ip6tables' if ':' in address else 'iptables')}", f"{chain} {side} {address}")
            for address in addresses
            for chain, side in (("INPUT", "-s"), ("OUTPUT", "-d"))
        ]
        undo = "; ".join(f"{program} -D {rule} -j DROP" for program, rule in rules)
        do = " && ".join(f"{program} -I {rule} -j DROP" for program, rule in rules)
        return do, f'/bin/sh -c "{undo}"'
    raise CannotDo("neither nft nor iptables is there: install nftables")
