"""Small machines: many on one computer, for work on whole pods.

A node with the metadata `local-cloud-machine: small` gets machines that are only an sshd in its own
namespaces, over the root file system of all machines. They have no systemd and no guest agent:
helpers of the cloud serve all of them, see small_agent.py and keeper.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .base import MachineError, MachineSpec
from .guest.accounts import SUDOERS
from .host import run
from .hub import Hub
from .image import GUEST
from .kernel import resolver_file
from .layout import AUTHORITY, Layout, locked, read_json
from .network import Wiring
from .patience import wait_for

METADATA_KEY = "local-cloud-machine"
_FILES = GUEST / "small"
_POWER = ("reboot", "shutdown", "poweroff", "halt")
# Devices of every machine, with their numbers; others cannot be created there.
_DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
# The file for the PID is opened first: as soon as the machine has another root folder, so has the
# shell that started it, for both are in one mount namespace.
START = 'exec 3> "$STARTING"; sh "$@" < /dev/null >> "$LOG" 2>&1 3>&- & echo $! >&3'
# The mount ends with its name space.
TRUST = """
mkdir "$3/work" "$3/root"
mount -t overlay -o "lowerdir=$1,upperdir=$2,workdir=$3/work" overlay "$3/root"
chroot "$3/root" /usr/local/sbin/trust-authority "$4"
"""
BOOT_LIMIT = 60.0
END_LIMIT = 10.0
LOOK_EVERY = 0.02


def folder(layout: Layout, machine_id: str) -> Path:
    """Return the folder with a machine's own files and its sshd's log."""
    return layout.home / "small" / machine_id


def ssh_log(layout: Layout, machine_id: str) -> Path:
    """Return the log of a machine's sshd, which is outside the machine."""
    return folder(layout, machine_id) / "sshd.log"


def settled_file(layout: Layout, machine_id: str) -> Path:
    """Return the file with the PID 1 for which the agent has finished."""
    return layout.run_dir / f"{machine_id}.settled"


def asks_for_reboot(layout: Layout, machine_id: str) -> bool:
    """Return whether the machine that has just ended went down for a reboot."""
    path = folder(layout, machine_id) / "upper/run/last-word"
    try:
        # Only a plain file is read here, because the machine wrote it.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    with open(handle) as file:
        return file.read(16).strip() == "reboot"


def sshd_settings(text: str, environment: str) -> str:
    """Return sshd's settings, with the variables of a file like /etc/environment."""
    pairs = [line.strip() for line in environment.splitlines() if "=" in line]
    return text + (f"SetEnv {' '.join(pairs)}\n" if pairs else "")


class SmallMachines:
    """The small machines of one cloud."""

    def __init__(self, layout: Layout, wiring: Wiring) -> None:
        self._layout = layout
        self.hub = Hub(wiring)

    def boot(self, record: dict[str, Any]) -> None:
        """Start a machine that is off; create its file system if there is none."""
        machine_id = record["machine_id"]
        layers = self._layers()
        self.hub.up()
        place = folder(self._layout, machine_id)
        for name in ("upper", "work", "root"):
            (place / name).mkdir(parents=True, exist_ok=True)
        settled_file(self._layout, machine_id).unlink(missing_ok=True)
        starting = self._layout.run_dir / f"{machine_id}.starting"
        # The last starter may have been killed before it recorded the PID.
        self.end(machine_id, _number_in(starting))
        self._layout.pid_file(machine_id).unlink(missing_ok=True)
        flags = ["--mount", "--uts", "--ipc", "--net", "--pid"]
        boot = [str(_FILES / "boot"), str(place), layers, machine_id]
        # Its first child is PID 1 in the machine, and a child of init here.
        run(
            ["setsid", "unshare", *flags, "sh", "-c", START, "sh", *boot],
            env={
                "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "LOG": str(ssh_log(self._layout, machine_id)),
                "STARTING": str(starting),
            },
        )
        pid = int(starting.read_text())
        try:
            self.hub.plug(pid, record["internal_ip"], record["external_ip"])
            self._await_sshd(machine_id, pid)
        except MachineError as error:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            raise MachineError(f"{error}; {self._last_words(machine_id)}") from error
        # From now on others use the machine through the root folder of this process.
        starting.replace(self._layout.pid_file(machine_id))

    def name_peers(self, spec: MachineSpec) -> None:
        """Let a new machine find others by name."""
        host = read_json(self._layout.host_file)
        if spec.hosts and host is not None:
            own = Path(host["rootfs"]) / "etc/hosts"
            path = folder(self._layout, spec.machine_id) / "upper/etc/hosts"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text((own.read_text() if own.exists() else "") + spec.hosts)

    def _await_sshd(self, machine_id: str, pid: int) -> None:
        """Wait until the machine has left this computer's root folder and keeps running."""
        deadline = time.monotonic() + BOOT_LIMIT
        while not (self.owns(machine_id, pid) and _name_of(pid) == "sshd"):
            if _ended(pid) or time.monotonic() > deadline:
                raise MachineError(f"{machine_id} did not boot")
            time.sleep(LOOK_EVERY)

    def end(self, machine_id: str, pid: int | None) -> None:
        """Kill its PID 1, and with it everything that runs on the machine."""
        if pid is None or not self.owns(machine_id, pid):
            return
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if not wait_for(lambda: _ended(pid), END_LIMIT):
            raise MachineError(f"{machine_id} does not end: process {pid}")

    def remove(self, machine_id: str, pid: int | None, internal_ip: str) -> None:
        """Remove a machine with its file system."""
        self.end(machine_id, pid)
        self.hub.unplug(internal_ip)
        settled_file(self._layout, machine_id).unlink(missing_ok=True)
        shutil.rmtree(folder(self._layout, machine_id), ignore_errors=True)

    def owns(self, machine_id: str, pid: int) -> bool:
        """Return whether a process runs on the machine, because process ids are reused."""
        return lives_on(pid, folder(self._layout, machine_id))

    def settled(self, machine_id: str, pid: int | None) -> bool:
        """Return whether its accounts exist and its host keys are published."""
        return pid is not None and _number_in(settled_file(self._layout, machine_id)) == pid

    def _last_words(self, machine_id: str) -> str:
        try:
            lines = ssh_log(self._layout, machine_id).read_text().splitlines()
        except OSError:
            lines = []
        return f"its log ends: {' / '.join(lines[-3:]) or 'nothing'}"

    def _layers(self) -> str:
        """Return the shared layers, created now if they are missing."""
        host = read_json(self._layout.host_file)
        if host is None:
            raise MachineError(f"no machines were prepared in {self._layout.state_dir}")
        rootfs, common = Path(host["rootfs"]), self._layout.home / "small-common"
        with locked(self._layout.run_dir / "small-common.lock"):
            if not common.exists():
                scratch = common.with_suffix(".part")
                shutil.rmtree(scratch, ignore_errors=True)
                _make_common(rootfs, scratch)
                _trust(self._layout.authority, rootfs, scratch)
                scratch.replace(common)
        return f"{common}:{rootfs}"


def _make_common(rootfs: Path, common: Path) -> None:
    """Create the layer that turns the root file system into a small machine's."""
    for name in ("dev/pts", "dev/shm", "etc/ssh/sshd_config.d", "etc/sudoers.d", "usr/sbin", "mnt"):
        (common / name).mkdir(parents=True)
    (common / "dev/shm").chmod(0o1777)
    for name, minor in _DEVICES.items():
        _make_device(common / "dev" / name, 1, minor)
    _make_device(common / "dev/tty", 5, 0)
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd"}
    links |= {f"std{end}": f"/proc/self/fd/{n}" for n, end in enumerate(("in", "out", "err"))}
    for name, target in links.items():
        (common / "dev" / name).symlink_to(target)
    for name in _POWER:
        path = common / "usr/sbin" / name
        shutil.copyfile(_FILES / "reboot", path)
        path.chmod(0o755)
    own = rootfs / "etc/environment"
    settings = sshd_settings(
        (_FILES / "sshd.conf").read_text(), own.read_text() if own.exists() else ""
    )
    # Before all others, because sshd uses the first of two settings.
    (common / "etc/ssh/sshd_config.d/00-small.conf").write_text(settings)
    rule = common / "etc/sudoers.d/google_sudoers"
    rule.write_text(f"%{SUDOERS} ALL=(ALL:ALL) NOPASSWD:ALL\n")
    rule.chmod(0o440)
    (common / "etc/resolv.conf").write_text(resolver_file().read_text())


def _trust(authority: Path, rootfs: Path, common: Path) -> None:
    """Add to the layer what a machine does that comes to trust an authority, once for all."""
    own = common / AUTHORITY.lstrip("/")
    own.parent.mkdir(parents=True)
    shutil.copyfile(authority, own)
    with tempfile.TemporaryDirectory(dir=common.parent) as place:
        words = [str(rootfs), str(common), place, AUTHORITY]
        run(["unshare", "--mount", "sh", "-euc", TRUST, "sh", *words])


def _make_device(path: Path, major: int, minor: int) -> None:
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
    path.chmod(0o666)


def _number_in(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def lives_on(pid: int, home: Path) -> bool:
    """Return whether a process's root folder is a machine's, with its changes below a folder."""
    try:
        text = Path(f"/proc/{pid}/mountinfo").read_text()
    except OSError:
        return False
    root = next((line for line in text.splitlines() if line.split()[4] == "/"), "")
    return f"upperdir={home}/" in root


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _ended(pid: int) -> bool:
    """Return whether a process has ended, and with it all others of its machine."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state in "ZX"


def end_all(layout: Layout) -> None:
    """End every small machine of a cloud, even without records."""
    home = layout.home / "small"
    for path in Path("/proc").glob("[0-9]*"):
        if lives_on(int(path.name), home):
            with suppress(ProcessLookupError):
                os.kill(int(path.name), signal.SIGKILL)


def refuse_disks(spec: MachineSpec) -> None:
    """Refuse data disks, which need devices."""
    if spec.disks:
        raise MachineError(
            f"{spec.machine_id} is a small machine, which takes no data disks: leave the metadata "
            f"{METADATA_KEY} out, or the disks"
        )
