# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where everything of this is on a host, and how it is written."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Optional

from .stamp import Watch

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class Place:
    """The folders; tests have their own."""

    state: Path = Path("/var/lib/tpu-fleet/apply")
    programs: Path = Path("/opt/tpu-fleet/apply")
    logs: Path = Path("/var/log/tpu-fleet/apply")
    # What the roles note down themselves.
    noted: Path = Path("/var/lib/tpu-fleet/state.json")
    units: Path = Path("/etc/systemd/system")
    watch: Watch = field(default_factory=Watch)
    # The public keys for git that the role git_access made here.
    git_keys: Path = Path("/var/lib/tpu-fleet/git_access.json")

    def snapshots(self, role: str) -> Path:
        """Where a role finds the files that were sent for it."""
        return self.state / "snapshots" / role

    @property
    def shared(self) -> Path:
        """What this host found out for its slice."""
        return self.state / "shared.json"

    @property
    def lock(self) -> Path:
        """Whoever applies something holds it."""
        return self.state / "lock"

    @property
    def known(self) -> Path:
        """What was applied, and how it went."""
        return self.state / "known.json"

    @property
    def wishes(self) -> Path:
        """What this host was asked to be."""
        return self.state / "wishes.json"

    @property
    def stamp(self) -> Path:
        """What the machine looked like after it."""
        return self.state / "stamp.json"

    @property
    def running(self) -> Path:
        """Who asked for what is being applied now."""
        return self.state / "running.json"

    @property
    def store(self) -> Path:
        """Files by their hash."""
        return self.state / "files"

    def result(self, work: str) -> Path:
        """How one piece of work ended."""
        return self.state / "results" / f"{work}.json"

    def events(self, work: str) -> Path:
        """What one piece of work has done so far, a JSON object a line."""
        return self.state / "results" / f"{work}.events"

    def peers(self, work: str) -> Path:
        """What others of the slice found out, as soon as somebody said it."""
        return self.state / "results" / f"{work}.peers"

    def key(self) -> bytes:
        """Return a key that never leaves the host: hashes of secrets are of no use elsewhere."""
        path = self.state / "key"
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        write(path, os.urandom(32).hex())
        return path.read_bytes()


def write(path: Path, text: str) -> None:
    """Write a file that only root reads: all of it or nothing, also when the power fails."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with part.open("w", encoding="utf-8") as out:
            part.chmod(0o600)
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()


def read(path: Path) -> Optional[Any]:
    """Read what was written as JSON; nothing where there is none, or half of it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def boot_id() -> str:
    """Return the name of this boot."""
    return BOOT_ID.read_text(encoding="ascii").strip()
