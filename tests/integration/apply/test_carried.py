"""ansible-core for hosts without an index: fetched here, installed there from nothing but that."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.plugin_utils import apply_carried
from ansible_collections.tpu.fleet.plugins.plugin_utils.apply_bundle import agent

PROGRAM = """
import sys
sys.path.insert(0, {agent!r})
from pathlib import Path
from tpu_fleet_apply.engine import engine_of
from tpu_fleet_apply.place import Place
place = Place(Path({folder!r}) / "state", Path({folder!r}) / "programs")
wanted = {{"version": {version!r}, "python": "3.11", "wheels": {name!r}}}
print(engine_of(place)(Path("nowhere"), wanted, {{}}))
"""
VERSION = apply_carried.ENVIRONMENT["version"]


def install(
    folder: Path, content: bytes, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Install it as a host does, where no index can be reached."""
    name = hashlib.sha256(content).hexdigest()
    store = folder / "state" / "files"
    store.mkdir(parents=True, exist_ok=True)
    (store / name).write_bytes(content)
    (folder / "agent.pyz").write_bytes(agent())
    program = PROGRAM.format(
        agent=str(folder / "agent.pyz"), folder=str(folder), version=VERSION, name=name
    )
    nowhere = {"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_CONFIG_FILE": os.devnull, "HOME": "/"}
    found = path or f"{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PATH": found, **nowhere},
        check=False,
    )


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What this computer's index has."""
    return apply_carried.wheels(tmp_path_factory.mktemp("carried"))


def test_it_is_installed_without_an_index(content: bytes, tmp_path: Path) -> None:
    done = install(tmp_path, content)
    assert done.returncode == 0, done.stderr
    program = done.stdout.strip()
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert f"[core {VERSION}]" in told.stdout
    # Once.
    made = Path(program).stat().st_mtime_ns
    assert install(tmp_path, content).stdout.strip() == program
    assert Path(program).stat().st_mtime_ns == made
    assert list((tmp_path / "programs").glob(".*")) == []


def test_a_host_without_a_fitting_python_says_so(content: bytes, tmp_path: Path) -> None:
    done = install(tmp_path, content, path=str(tmp_path))
    assert "this host has none of python3.11, python3.12, python3.13" in done.stderr


def test_it_is_fetched_once_and_packed_the_same(tmp_path: Path) -> None:
    asked = []

    def fetch(python: str, folder: Path) -> None:
        asked.append(python)
        for name in ("b", f"a-{python}"):
            with zipfile.ZipFile(folder / f"{name}.whl", "w") as wheel:
                wheel.writestr(zipfile.ZipInfo("x"), "y")

    first = apply_carried.wheels(tmp_path / "one", fetch)
    assert apply_carried.wheels(tmp_path / "one", fetch) == first
    assert asked == ["3.11", "3.12", "3.13"]
    assert apply_carried.wheels(tmp_path / "two", fetch) == first
