"""People who submit runs, and what they submit; the queue agent's modules, wherever they lie."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [ROOT / "roles" / role / "files" for role in ("run_queue", "training_run")]
# No import path leads to what lies in roles.
sys.path[:0] = [str(path) for path in PROGRAMS if str(path) not in sys.path]

from queue_agent.act.bucket import MachinesBucket  # noqa: E402
from queue_agent.decide.settings import parse  # noqa: E402
from queue_agent.shared._queue import objects  # noqa: E402
from queue_agent.shared._queue.bucket import NoAnswer  # noqa: E402
from queue_agent.shared._queue.store import Queue, Seen  # noqa: E402

__all__ = [
    "PROGRAMS",
    "MachinesBucket",
    "NoAnswer",
    "Person",
    "Queue",
    "Seen",
    "archive",
    "objects",
    "parse",
]


def archive(files: dict[str, str]) -> bytes:
    """Return an archive of code."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(text.encode())
            tar.addfile(member, io.BytesIO(text.encode()))
    return packed.getvalue()


class Person:
    """A person of the fleet, with a key."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.key = folder / f"{name}.key"
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)]
        subprocess.run(words, check=True)

    @property
    def public_key(self) -> str:
        """Return the line for the fleet file."""
        return self.key.with_suffix(".key.pub").read_text().strip()

    @property
    def signer(self) -> str:
        """Return the line of allowed_signers."""
        return f'{self.name} namespaces="tpu-fleet-queue" {" ".join(self.public_key.split()[:2])}\n'

    def signed(self, definition: Any) -> Any:
        """Sign a definition."""
        text = objects.definition_text(definition)
        words = ["ssh-keygen", "-q", "-Y", "sign", "-n", "tpu-fleet-queue", "-f", str(self.key)]
        done = subprocess.run(words, input=text.encode(), capture_output=True, check=True)
        return objects.Signed(text, done.stdout.decode())
