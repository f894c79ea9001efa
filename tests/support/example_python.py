"""Pythons with all that the examples require, made once and kept beside the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What PyTorch for CUDA names and can be loaded without: 600 MB of 4 GB. What is left is linked.
NOT_LINKED = ("nvidia-cuda-nvrtc-cu12", "nvidia-cusolver-cu12", "nvidia-nvtx-cu12", "triton")


def example_python() -> str:
    """Return one with JAX and what sweeps take; TPU_FLEET_EXAMPLE_PYTHON names another one."""
    given = os.environ.get("TPU_FLEET_EXAMPLE_PYTHON")
    return given or _made("example-venv", _recent(), ("jax", "sweeps/optuna", "sweeps/wandb"))


def torch_xla_python() -> str:
    """Return one with torch_xla, which is linked with the library of the system's Python."""
    without = ROOT / ".cache/not-linked.txt"
    without.parent.mkdir(exist_ok=True)
    without.write_text("".join(f"{name}\n" for name in NOT_LINKED))
    more = ("--excludes", str(without), "--compile-bytecode")
    return _made("torch-xla-venv", "/usr/bin/python3", ("torch_xla",), more)


def hydra_packages() -> Path:
    """Return a folder with Hydra, for this Python, as requirements/hydra.txt pins it."""
    pinned, venv = str(ROOT / "requirements/hydra.txt"), ROOT / ".cache/hydra-venv"
    with _locked(venv):
        install = _installs(venv, sys.executable)
        # What builds the one package without a wheel is pinned, too.
        subprocess.run([*install, "--no-build", "-c", pinned, "setuptools"], check=True)
        subprocess.run(
            [*install, "--require-hashes", "--no-build-isolation", "-r", pinned], check=True
        )
    (folder,) = venv.glob("lib/python*/site-packages")
    return folder


def xprof_python() -> str:
    """Return one with XProf, as requirements/xprof.txt pins it."""
    venv = ROOT / ".cache/xprof-venv"
    with _locked(venv):
        install = _installs(venv, sys.executable)
        pinned = str(ROOT / "requirements/xprof.txt")
        subprocess.run([*install, "--require-hashes", "-r", pinned], check=True)
    return str(venv / "bin/python")


def _recent() -> str:
    """Return this Python, or one that JAX has wheels for."""
    return sys.executable if sys.version_info >= (3, 12) else "3.12"


def _made(name: str, python: str, examples: Sequence[str], more: Sequence[str] = ()) -> str:
    """Make it, or bring it up to date."""
    venv = ROOT / ".cache" / name
    files = [str(ROOT / "examples" / example / "requirements.txt") for example in examples]
    with _locked(venv):
        install = [*_installs(venv, python), *more]
        subprocess.run([*install, *(f"-r{file}" for file in files)], check=True)
    return str(venv / "bin/python")


@contextmanager
def _locked(venv: Path) -> Iterator[None]:
    """Hold the lock of an environment: tests of several processes want it at the same time."""
    venv.parent.mkdir(exist_ok=True)
    with venv.with_name(f"{venv.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _installs(venv: Path, python: str) -> list[str]:
    """Return the words that install into an environment, which is made if it is missing."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is not there: it comes with the development requirements"
    if not venv.exists():
        subprocess.run([uv, "venv", "--quiet", "--python", python, venv], check=True)
    return [uv, "pip", "install", "--quiet", "--python", str(venv / "bin/python")]
