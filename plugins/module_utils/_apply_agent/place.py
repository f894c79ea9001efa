# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The agent's files on a host, and how they are written."""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Iterable, List, Optional

from .glance import BOOT_ID
from .runs import RunFiles
from .stamp import Watch


@dataclass(frozen=True)
class Place:
    """The folders; tests use others."""

    state: Path = Path("/var/lib/tpu-fleet/apply")
    programs: Path = Path("/opt/tpu-fleet/apply")
    logs: Path = Path("/var/log/tpu-fleet/apply")
    # The state file that the roles write.
    noted: Path = Path("/var/lib/tpu-fleet/state.json")
    units: Path = Path("/etc/systemd/system")
    watch: Watch = field(default_factory=Watch)
    # The public keys for git that the role git_access created here.
    git_keys: Path = Path("/var/lib/tpu-fleet/git_access.json")
    runs: RunFiles = field(default_factory=RunFiles)

    def snapshots(self, role: str) -> Path:
        """Return where a role finds the files that were sent for it."""
        return self.state / "snapshots" / role

    @property
    def shared(self) -> Path:
        """Return the file of what this host found out for its slice."""
        return self.state / "shared.json"

    @property
    def lock(self) -> Path:
        """Return the lock that a process holds while it applies roles."""
        return self.state / "lock"

    @property
    def known(self) -> Path:
        """Return the record of the applied roles, with their results."""
        return self.state / "known.json"

    @property
    def wishes(self) -> Path:
        """Return the file of the kept wishes."""
        return self.state / "wishes.json"

    @property
    def stamp(self) -> Path:
        """Return the description of the machine after the last apply."""
        return self.state / "stamp.json"

    @property
    def glance(self) -> Path:
        """Return the answer to the last request that found nothing to do."""
        return self.state / "glance"

    def own(self, files: Iterable[str]) -> List[Path]:
        """Return the files besides the machine's own on which an answer depends."""
        names = ("apply.service", "apply.timer", "venv@.service")
        units = [self.units / f"tpu-fleet-{name}" for name in names]
        state = [self.known, self.wishes, self.stamp, self.running, self.shared]
        more = [self.state / "key", self.noted, self.git_keys]
        return [*units, *state, *more, *(self.store / name for name in files)]

    @property
    def running(self) -> Path:
        """Return the file that names who asked for the work that runs now."""
        return self.state / "running.json"

    @property
    def store(self) -> Path:
        """Return the folder of files by their hash."""
        return self.state / "files"

    def result(self, work: str) -> Path:
        """Return the file with the result of a piece of work."""
        return self.state / "results" / f"{work}.json"

    def events(self, work: str) -> Path:
        """Return the file with the events of a piece of work, one JSON object a line."""
        return self.state / "results" / f"{work}.events"

    def peers(self, work: str) -> Path:
        """Return the file with what other workers of the slice found out, once it is known."""
        return self.state / "results" / f"{work}.peers"

    def followed(self, work: str) -> Path:
        """Return the file that a call touches while it follows a piece of work."""
        return self.state / "results" / f"{work}.followed"

    def needed(self, venv: str) -> Path:
        """Return the file that says why an environment could not be built for a run."""
        return self.state / "needed" / f"{venv}.json"

    def key(self) -> bytes:
        """Return a key that never leaves the host, so hashes of secrets are useless elsewhere."""
        path = self.state / "key"
        with contextlib.suppress(FileNotFoundError):
            return path.read_bytes()
        write(path, os.urandom(32).hex())
        return path.read_bytes()


def write(path: Path, text: str) -> None:
    """Write a file that only root reads, atomically, also in a power cut."""
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
    """Return the JSON value in a file; None if it is missing or incomplete."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None


def boot_id() -> str:
    """Return the id of this boot."""
    return Path(BOOT_ID).read_text(encoding="ascii").strip()
