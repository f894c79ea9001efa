"""What writes to buckets, for machines: requirements/buckets.txt and gcloud, from this computer.

The libraries are installed once and kept beside the checkout, packed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PINNED = ROOT / "requirements/buckets.txt"
# JAX needs it, and machines have it beside the one of their distribution.
PYTHON = "3.12"
PROGRAM = f"/usr/local/sbin/python{PYTHON}"


def bring(ssh: Sequence[str], folder: str, user: str) -> None:
    """Unpack the libraries in a folder of a machine, to which the words of ssh lead.

    They are the user's, whose programs compile what they import.
    """
    with _packed().open("rb") as stream:
        _unpack(ssh, folder, user, stream.fileno())


def bring_gcloud(ssh: Sequence[str], folder: str, user: str) -> None:
    """Unpack this computer's gcloud in a folder of a machine: `FOLDER/bin/gcloud`."""
    sdk = Path(gcloud_program()).resolve().parents[1]
    parts = ("bin", "lib", "properties", "VERSION", "platform/bundledpythonunix")
    there = [part for part in parts if (sdk / part).exists()]
    packing = subprocess.Popen(["tar", "-C", str(sdk), "-cf-", *there], stdout=subprocess.PIPE)
    assert packing.stdout
    _unpack(ssh, folder, user, packing.stdout.fileno())
    packing.stdout.close()
    assert packing.wait() == 0


def gcloud_program() -> str:
    """Return where gcloud is; on a machine that should have it, its absence is a failure."""
    program = shutil.which("gcloud")
    if program is None:
        if os.environ.get("TPU_FLEET_NO_GCLOUD") == "1":
            pytest.skip("TPU_FLEET_NO_GCLOUD=1 says that this machine has no gcloud")
        pytest.fail("gcloud is missing: install it, or say TPU_FLEET_NO_GCLOUD=1")
    return program


def _unpack(ssh: Sequence[str], folder: str, user: str, source: int) -> None:
    tar = f"sudo tar -C {folder} --no-same-owner -xf -"
    script = f"sudo mkdir -p {folder} && {tar} && sudo chown -R {user}: {folder}"
    subprocess.run([*ssh, script], stdin=source, check=True, timeout=600)


def _packed() -> Path:
    """Return the libraries in one file."""
    name = hashlib.sha256(PINNED.read_bytes()).hexdigest()[:12]
    packed = ROOT / ".cache" / f"bucket-python-{name}.tar"
    packed.parent.mkdir(exist_ok=True)
    # Tests of several processes want it at the same time.
    with packed.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not packed.exists():
            _pack(packed)
    return packed


def _pack(packed: Path) -> None:
    with tempfile.TemporaryDirectory(dir=packed.parent) as folder:
        new = Path(folder)
        uv = [str(ROOT / ".venv/bin/uv"), "pip", "install", "--quiet", "--no-build"]
        uv += ["--require-hashes", "--python-version", PYTHON, "--target", str(new / "python")]
        subprocess.run([*uv, "-r", str(PINNED)], check=True, timeout=1200)
        pack = ["tar", "-C", str(new / "python"), "-cf", str(new / "packed"), "."]
        subprocess.run(pack, check=True)
        (new / "packed").replace(packed)
