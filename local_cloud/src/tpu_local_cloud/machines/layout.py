"""Where the machines of a cloud are kept.

Not in the cloud's state directory, because its path may be too long for podman (whose helpers then
wait 20 s whenever a machine ends), or its file system may not support overlays.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHARED_RUN = Path("/run/tpu-fleet")
SHARED_LIB = Path("/var/lib/tpu-fleet")
# Where a machine finds the certificate of the cloud's authority.
AUTHORITY = "/usr/local/lib/tpu-vm/authority.pem"
IMAGE_CACHE = Path(os.environ.get("TPU_FLEET_IMAGE_CACHE", "/var/cache/tpu-fleet"))


@dataclass(frozen=True)
class Layout:
    """The paths of one cloud's machines, named after a hash of its state directory."""

    state_dir: Path

    @property
    def cloud_id(self) -> str:
        """Return six hex digits that distinguish this cloud from others."""
        return hashlib.sha256(str(self.state_dir.resolve()).encode()).hexdigest()[:6]

    @property
    def run_dir(self) -> Path:
        """Return the folder that a reboot of the computer may delete."""
        return SHARED_RUN / self.cloud_id

    @property
    def home(self) -> Path:
        """Return the folder that outlives a reboot of the computer: choices, records and disks."""
        return SHARED_LIB / self.cloud_id

    @property
    def namespace(self) -> Path:
        """Return the file that holds the private mount namespace."""
        return self.run_dir / "ns" / "mnt"

    @property
    def host_file(self) -> Path:
        """Return the file with the choices made when the cloud was set up."""
        return self.home / "host.json"

    @property
    def authority(self) -> Path:
        """Return the certificate that machines must trust, which the server makes."""
        return self.state_dir / "tls" / "ca.pem"

    @property
    def machines_dir(self) -> Path:
        """Return the directory with one record for each machine."""
        return self.home / "machines"

    @property
    def containers_dir(self) -> Path:
        """Return podman's storage: the machines' disks."""
        return self.home / "containers"

    def record(self, machine_id: str) -> Path:
        """Return the record of a machine."""
        return self.machines_dir / f"{machine_id}.json"

    def pid_file(self, machine_id: str) -> Path:
        """Return the file with the process id of the machine's PID 1."""
        return self.run_dir / f"{machine_id}.pid"

    def lock_file(self, machine_id: str) -> Path:
        """Return the file that server and keeper lock while they change a machine."""
        return self.run_dir / f"{machine_id}.lock"


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Replace a file in one step, so that a reader never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.{os.getpid()}.{id(data):x}")
    scratch.write_text(json.dumps(data, indent=2) + "\n")
    scratch.replace(path)


def read_json(path: Path) -> dict[str, Any] | None:
    """Return a file's content, or None if it does not exist."""
    try:
        data: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return data


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock out other processes while shared state is read and changed.

    To lock a file, a process only needs to open it for reading: so no other user may.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as handle:
        os.fchmod(handle.fileno(), 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
