"""Call podman as this computer needs it, with a separate storage for each cloud."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from .base import MachineError
from .host import EngineSettings, run
from .layout import Layout

# What podman says of processes that a SIGKILL has not ended yet.
SLOW_END = "did not die within timeout"

# Own devices and sysctls, but no access to the computer's disks as with --privileged.
MACHINE_FLAGS = (
    "--cap-add=SYS_ADMIN,SYS_BOOT,NET_ADMIN,NET_RAW,AUDIT_WRITE,SYS_PTRACE,SYS_NICE,MKNOD,"
    "SETFCAP,IPC_LOCK",
    "--security-opt=unmask=ALL",
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--systemd=always",
    "--no-hosts",
    "--shm-size=4g",
)

_ONLY_CGROUP2 = (
    "for m in $(awk '$2 ~ \"^/sys/fs/cgroup\" {print $2}' /proc/mounts | sort -r); do"
    ' umount "$m" || umount -l "$m"; done; mount -t cgroup2 none /sys/fs/cgroup'
)


def containers_conf(layout: Layout, settings: EngineSettings) -> str:
    """Return podman's configuration for a cloud."""
    ulimits = ", ".join(f'"{limit}"' for limit in settings.ulimits)
    lines = [
        "[containers]",
        "pids_limit = 0",
        'log_driver = "k8s-file"',
        "log_size_max = 1048576",
        *([f"default_ulimits = [{ulimits}]"] if ulimits else []),
        "[engine]",
        *([f'runtime = "{settings.runtime}"'] if settings.runtime else []),
        f'cgroup_manager = "{settings.cgroup_manager}"',
        'events_logger = "file"',
        # All clouds of this computer would share locks in shared memory, which would outlast them.
        'lock_type = "file"',
        f'tmp_dir = "{layout.run_dir}/libpod"',
        "[network]",
        f'network_config_dir = "{layout.containers_dir}/networks"',
    ]
    return "\n".join(lines) + "\n"


def storage_conf(layout: Layout) -> str:
    """Return the storage's configuration; machines are overlays, so it stores no layers."""
    return (
        "[storage]\n"
        'driver = "vfs"\n'
        f'graphroot = "{layout.containers_dir}"\n'
        # Changes of the disks are stored here, because /run is lost at the next boot.
        f'runroot = "{layout.containers_dir}/run"\n'
    )


class Engine:
    """Runs podman, and other programs in podman's mount namespace."""

    def __init__(self, layout: Layout, settings: EngineSettings) -> None:
        self.layout = layout
        self.settings = settings
        self._conf = layout.home / "containers.conf"
        self._storage = layout.home / "storage.conf"

    def prepare(self) -> None:
        """Write the configuration and create the private namespace; idempotent."""
        self.layout.run_dir.mkdir(parents=True, exist_ok=True)
        self.layout.containers_dir.mkdir(parents=True, exist_ok=True)
        # Other users must not see the disks, shares and setuid programs of machines.
        for folder in (self.layout.run_dir, self.layout.home):
            folder.chmod(0o700)
        self._conf.write_text(containers_conf(self.layout, self.settings))
        self._storage.write_text(storage_conf(self.layout))
        namespace = self.layout.namespace
        if self.settings.private_cgroups and not _is_mount(namespace):
            if not _is_mount(namespace.parent):
                namespace.parent.mkdir(parents=True, exist_ok=True)
                # A namespace can only be kept in a file whose mount is not shared.
                run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(namespace.parent)])
                run(["mount", "--make-private", str(namespace.parent)])
            namespace.touch()
            flags = [f"--mount={namespace}", "--propagation", "private"]
            run(["unshare", *flags, "sh", "-c", _ONLY_CGROUP2])

    def wrap(self, command: Sequence[str]) -> list[str]:
        """Return the command prefixed so that it sees the machines' mounts."""
        if self.settings.private_cgroups:
            return ["nsenter", f"--mount={self.layout.namespace}", "--wdns=/", "--", *command]
        return list(command)

    def call(self, *command: str, timeout: float | None = 120) -> str:
        """Run a program in the machines' mount namespace."""
        return run(self.wrap(command), timeout=timeout)

    def podman(self, *arguments: str, timeout: float | None = 120) -> str:
        """Run podman on this cloud's storage."""
        environment = {
            **os.environ,
            "CONTAINERS_CONF": str(self._conf),
            "CONTAINERS_STORAGE_CONF": str(self._storage),
        }
        return run(self.wrap(["podman", *arguments]), env=environment, timeout=timeout)

    def discard(self, *which: str, timeout: float = 120) -> None:
        """Remove containers, whether they run or not; `which` are names, or --all.

        podman waits 5 s at most for the processes that it kills, also where a busy computer takes
        longer to end them: the removal is then tried again.
        """
        end = time.monotonic() + timeout
        while True:
            try:
                left = max(1.0, end - time.monotonic())
                self.podman("rm", "--force", "--ignore", "--time=0", *which, timeout=left)
                return
            except MachineError as error:
                if SLOW_END not in str(error) or time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def remove(self) -> None:
        """Remove the private namespace; the caller removes podman's storage."""
        for path in (self.layout.namespace, self.layout.namespace.parent):
            while _is_mount(path):
                run(["umount", str(path)])


def _is_mount(path: Path) -> bool:
    """Return whether a path is a mount, also of a namespace file, where stat is not enough."""
    name = str(path)
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return any(line.split()[4] == name for line in lines)
