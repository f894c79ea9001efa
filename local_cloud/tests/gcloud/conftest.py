"""The unmodified gcloud, with a configuration of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import bucket_python
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from program import Gcloud, Run
from recording import RecordingEmulator

from tpu_local_cloud.commands.lifecycle import Cloud as LocalCloud
from tpu_local_cloud.commands.lifecycle import exports
from tpu_local_cloud.model.cloud import DELAYS

# In place of ssh and scp: says what it was asked to do, and that it worked.
FAKE_SSH = '#!/bin/sh\necho "fake ${0##*/} ran: $*"\n'


@pytest.fixture(scope="session")
def gcloud_program() -> str:
    """Return where gcloud is."""
    return bucket_python.gcloud_program()


@pytest.fixture(scope="session")
def ssh_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make once the key that gcloud would make for each home."""
    path = tmp_path_factory.mktemp("key") / "google_compute_engine"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "rsa", "-b", "2048", "-N", "", "-C", "me", "-f", path],
        check=True,
    )
    return path


@pytest.fixture
def cloud() -> Iterator[RecordingEmulator]:
    """A fresh local cloud that keeps what it is asked."""
    emulator = RecordingEmulator(delays=dict.fromkeys(DELAYS, 0.3))
    yield emulator
    emulator.stop()


@pytest.fixture
def run(cloud: RecordingEmulator, gcloud_program: str, tmp_path: Path) -> Run:
    """Run gcloud; return what it printed."""
    home = tmp_path / "home"
    home.mkdir()
    env = cloud.env(CLOUDSDK_CONFIG=str(tmp_path / "gcloud"), HOME=str(home))
    gcloud = Gcloud(gcloud_program, env)

    def run(*words: str, fails: bool = False) -> str:
        done = gcloud.run(*words)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout

    return run


@pytest.fixture
def gcloud(cloud: RecordingEmulator, gcloud_program: str, ssh_key: Path, tmp_path: Path) -> Gcloud:
    """Return gcloud as it is on a fresh machine, but for a key for ssh."""
    home, programs = tmp_path / "home", tmp_path / "bin"
    (home / ".ssh").mkdir(parents=True)
    for source in (ssh_key, ssh_key.with_suffix(".pub")):
        shutil.copy(source, home / ".ssh" / source.name)
    programs.mkdir()
    for name in ("ssh", "scp"):
        (programs / name).write_text(FAKE_SSH)
        (programs / name).chmod(0o755)
    own = {k: v for k, v in os.environ.items() if not k.startswith(("CLOUDSDK_", "GOOGLE_"))}
    env = {
        **own,
        "CLOUDSDK_CONFIG": str(tmp_path / "gcloud"),
        "CLOUDSDK_CORE_DISABLE_FILE_LOGGING": "1",
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}{own['PATH']}",
        **exported(cloud, tmp_path),
    }
    return Gcloud(gcloud_program, env)


def exported(cloud: RecordingEmulator, state_dir: Path) -> dict[str, str]:
    """Return what `tpu-local-cloud env` prints for a cloud."""
    address = urlsplit(cloud.url)
    config = {"host": address.hostname, "port": address.port, "project": cloud.project}
    directory = LocalCloud(state_dir)
    directory.config_file.write_text(json.dumps(config))
    return exports(directory)
