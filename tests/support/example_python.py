"""A Python with all that the examples require, made once and kept beside the checkout."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REQUIREMENTS = ("jax", "sweeps/optuna", "sweeps/wandb")


def example_python() -> str:
    """Return it; TPU_FLEET_EXAMPLE_PYTHON names another one."""
    given = os.environ.get("TPU_FLEET_EXAMPLE_PYTHON")
    if given:
        return given
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv, "uv is not there: it comes with the development requirements"
    venv = ROOT / ".cache/example-venv"
    venv.parent.mkdir(exist_ok=True)
    files = [str(ROOT / "examples" / name / "requirements.txt") for name in REQUIREMENTS]
    # Tests of several processes want it at the same time.
    with (venv.parent / "example-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not venv.exists():
            subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, venv], check=True)
        install = [uv, "pip", "install", "--quiet", "--python", str(venv / "bin/python")]
        subprocess.run([*install, *(f"-r{file}" for file in files)], check=True)
    return str(venv / "bin/python")
