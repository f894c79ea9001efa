"""The unmodified gcloud, with a configuration of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from emulator import Emulator

Gcloud = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def gcloud(cloud: Emulator, tmp_path: Path) -> Gcloud:
    """Run gcloud against the cloud; on a machine that should have it, its absence is a failure."""
    program = shutil.which("gcloud")
    if program is None:
        if os.environ.get("TPU_FLEET_NO_GCLOUD") == "1":
            pytest.skip("TPU_FLEET_NO_GCLOUD=1 says that this machine has no gcloud")
        pytest.fail("gcloud is missing: install it, or say TPU_FLEET_NO_GCLOUD=1")
    home = tmp_path / "home"
    home.mkdir()
    env = cloud.env(CLOUDSDK_CONFIG=str(tmp_path / "gcloud"), HOME=str(home))

    def run(*words: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [program, *words], env=env, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done

    return run
