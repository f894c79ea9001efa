"""Machines with their own kernel: user-mode Linux, a whole kernel as an ordinary process.

Containers share this computer's kernel: they lack what it lacks, such as NFS, and cannot reboot it.
A node with the metadata `local-cloud-kernel: own` gets machines whose container runs only such a
kernel. It boots from a disk made of the root file system of all machines. Network, power and
records are those of containers.

The kernel comes from Debian testing, because it runs programs about as fast as the computer only
since 6.16; its C library comes with it, because the computer's is older.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .base import MachineError, MachineSpec
from .host import HostFacts, Progress, run
from .image import GUEST, customise
from .inherit import apt_files, own_sources
from .layout import IMAGE_CACHE, Layout, locked
from .network import TAP, Network

METADATA_KEY = "local-cloud-kernel"
PACKAGE = "user-mode-linux"
SUITE = "testing"
MEMORY_MB = 2048
DISK_GB = 16
_SOCKETS = "/mconsole"
# Not in /, because the kernel fails with paths without a folder.
_DISK = "/disks/base.ext4"
_CHANGES = "/disks/changes.cow"


def mirror(texts: Mapping[str, str], codename: str) -> str:
    """Return this computer's mirror of Debian, from the files of /etc/apt."""
    for text in own_sources(texts, codename).values():
        for stanza in re.split(r"\n\s*\n", text):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            if codename in fields.get("Suites", "").split():
                return str(fields["URIs"].split()[0])
        for line in text.splitlines():
            words = re.sub(r"\[[^]]*\]", "", line).split()
            if words[:1] == ["deb"] and words[2] == codename:
                return words[1]
    raise MachineError(
        "machines with a kernel of their own need Debian: /etc/apt of this computer names no "
        "source that has the package user-mode-linux"
    )


class Kernels:
    """Downloads the kernel, and creates its disk from a root file system."""

    def __init__(self, facts: HostFacts, progress: Progress) -> None:
        self._facts = facts
        self._progress = progress

    def ensure(self, rootfs: Path) -> tuple[Path, Path]:
        """Return the folder of the kernel, and the disk, created now if they are missing."""
        kernel = IMAGE_CACHE / "kernels" / f"{PACKAGE}-{SUITE}"
        disk = rootfs.parent / f"own-kernel-{_additions_key()}.ext4"
        with locked(IMAGE_CACHE / "kernels.lock"):
            if not (kernel / "complete").exists():
                self._fetch(kernel)
            if not disk.exists():
                self._make_disk(rootfs, kernel, disk)
        return kernel / "rootfs", disk

    def _fetch(self, kernel: Path) -> None:
        if self._facts.distribution != "debian":
            raise MachineError(
                "machines with a kernel of their own need a computer with Debian; "
                f"this one has {self._facts.distribution or self._facts.system}"
            )
        self._progress(f"Downloading the kernel ({PACKAGE} of Debian {SUITE}), only this once")
        source = f"deb {mirror(apt_files(), self._facts.codename)} {SUITE} main"
        shutil.rmtree(kernel, ignore_errors=True)
        kernel.mkdir(parents=True)
        root = kernel / "rootfs"
        flags = ["--quiet", "--variant=extract", "--mode=root", f"--include={PACKAGE}"]
        # A mirror may be some weeks old, or the computer's clock ahead; it is signed anyway.
        flags += ['--aptopt=Acquire::Check-Valid-Until "false"']
        run(["mmdebstrap", *flags, SUITE, str(root), source], timeout=900)
        (root / "usr/lib/uml/modules").rename(kernel / "modules")
        for folder_name in ("dev", "var", "usr/share", "etc"):
            shutil.rmtree(root / folder_name, ignore_errors=True)
        for name in ("dev", "proc", "sys", "tmp", "etc", "run", "disks", _SOCKETS.strip("/")):
            (root / name).mkdir(exist_ok=True)
        for name in ("lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")
        (kernel / "complete").touch()

    def _make_disk(self, rootfs: Path, kernel: Path, disk: Path) -> None:
        self._progress("Making the disk of machines with a kernel of their own")
        with tempfile.TemporaryDirectory(dir=disk.parent) as scratch:
            root = Path(scratch) / "rootfs"
            run(["cp", "--archive", str(rootfs), str(root)])
            run(["cp", "--archive", f"{kernel / 'modules'}/.", f"{root / 'usr/lib/modules'}/"])
            shutil.copyfile(GUEST / "kernel/vm-identity", root / "usr/local/sbin/vm-identity")
            hook = root / "usr/lib/systemd/system-shutdown/last-word"
            shutil.copyfile(GUEST / "kernel/last-word", hook)
            hook.chmod(0o755)
            customise(root, GUEST / "kernel/customise.sh")
            part = Path(scratch) / "disk"
            run(["mke2fs", "-q", "-t", "ext4", "-d", str(root), str(part), f"{DISK_GB}G"])
            part.replace(disk)


def _additions_key() -> str:
    digest = hashlib.sha256(str(DISK_GB).encode())
    for path in sorted((GUEST / "kernel").iterdir()):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def container_words(
    layout: Layout, network: Network, spec: MachineSpec, kernel: Path, disk: Path
) -> list[str]:
    """Return the arguments of `podman run` other than the name and the network."""
    sockets = _sockets(layout, spec.machine_id)
    sockets.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(layout.authority, sockets / "authority.pem")
    octets = ":".join(f"{int(part):02x}" for part in spec.internal_ip.split("."))
    resolvers = re.findall(
        r"^nameserver\s+([0-9.]+)\s*$", resolver_file().read_text(), re.MULTILINE
    )
    return [
        "--cap-add=SYS_PTRACE,NET_ADMIN,NET_RAW",
        "--security-opt=seccomp=unconfined",
        "--security-opt=apparmor=unconfined",
        "--no-hosts",
        "--device=/dev/net/tun",
        # The machine's memory is a file there, which must be executable.
        f"--tmpfs=/tmp:rw,exec,size={MEMORY_MB + 64}m",
        f"--volume={sockets}:{_SOCKETS}",
        f"--volume={disk}:{_DISK}:ro",
        "--env=TMPDIR=/tmp",
        "--rootfs",
        f"{kernel}:O",
        "/usr/bin/linux.uml",
        f"mem={MEMORY_MB}M",
        f"ubd0={_CHANGES},{_DISK}",
        "root=/dev/ubda",
        "rw",
        f"vec0:transport=tap,ifname={TAP},mac=02:00:{octets},gro=1",
        "con0=null,fd:1",
        "con=null",
        "ssl=null",
        "umid=vm",
        f"uml_dir={_SOCKETS}",
        "seccomp=auto",
        "loglevel=4",
        "panic=5",
        # A reboot inside would keep the old network device; the keeper boots it again.
        "noreboot",
        f"tpuvm.name={spec.machine_id}",
        f"tpuvm.address={spec.internal_ip}/{network.internal.prefixlen}",
        f"tpuvm.gateway={network.gateway}",
        f"tpuvm.dns={','.join(resolvers)}",
    ]


def resolver_file() -> Path:
    """Return the name servers that machines can reach, too."""
    stub = Path("/run/systemd/resolve/resolv.conf")
    return stub if stub.exists() else Path("/etc/resolv.conf")


def press_power_button(layout: Layout, machine_id: str) -> None:
    """Shut the machine down by Ctrl-Alt-Del on its console."""
    path = _sockets(layout, machine_id) / "vm" / "mconsole"
    command = b"cad"
    # struct mconsole_request of the kernel's mconsole.h
    request = struct.pack("III512s", 0xCAFEBABE, 2, len(command), command)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as connection:
        try:
            connection.sendto(request, str(path))
        except OSError as error:
            raise MachineError(f"the console of {machine_id} does not listen: {error}") from error


def wants_reboot(layout: Layout, machine_id: str) -> bool:
    """Return whether the machine that has just ended went down for a reboot."""
    path = _sockets(layout, machine_id) / "last-word"
    try:
        word = path.read_text().strip()
    except FileNotFoundError:
        return False
    path.unlink()
    return word == "reboot"


def forget(layout: Layout, machine_id: str) -> None:
    """Remove the machine's console socket."""
    shutil.rmtree(_sockets(layout, machine_id), ignore_errors=True)


def _sockets(layout: Layout, machine_id: str) -> Path:
    return layout.run_dir / f"{machine_id}.uml"
