"""ansible-core for hosts without an index: fetched here, installed there from nothing but that."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from ansible_collections.tpu.fleet.plugins.module_utils._host.pinned import ENGINES
from ansible_collections.tpu.fleet.plugins.plugin_utils import apply_carried
from ansible_collections.tpu.fleet.plugins.plugin_utils.apply_bundle import agent

PROGRAM = """
import sys
sys.path.insert(0, {agent!r})
from pathlib import Path
from tpu_fleet_apply.engine import engine_of
from tpu_fleet_apply.place import Place
place = Place(Path({folder!r}) / "state", Path({folder!r}) / "programs")
wanted = {{"wheels": {name!r}}}
print(engine_of(place)(Path("nowhere"), wanted, {{}}))
"""
# Where the tests run may be any Python that the fleet supports.
CORES = {
    f"[core {pin.partition('==')[2]}]"
    for pins in ENGINES.values()
    for pin in pins
    if pin.startswith("ansible-core==")
}


def install(
    folder: Path, content: bytes, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Install it as a host does, where no index can be reached."""
    name = hashlib.sha256(content).hexdigest()
    store = folder / "state" / "files"
    store.mkdir(parents=True, exist_ok=True)
    (store / name).write_bytes(content)
    (folder / "agent.pyz").write_bytes(agent())
    program = PROGRAM.format(agent=str(folder / "agent.pyz"), folder=str(folder), name=name)
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
    assert any(core in told.stdout for core in CORES), told.stdout
    # Once.
    made = Path(program).stat().st_mtime_ns
    assert install(tmp_path, content).stdout.strip() == program
    assert Path(program).stat().st_mtime_ns == made
    assert list((tmp_path / "programs").glob(".*")) == []


def test_a_package_that_was_exchanged_is_not_installed(content: bytes, tmp_path: Path) -> None:
    packed = tmp_path / "packed"
    packed.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(packed, filter="data")
    for wheel in packed.glob("ansible_core-*.whl"):
        with zipfile.ZipFile(wheel, "a") as opened:
            opened.writestr("evil.pth", "import os\n")
    done = install(tmp_path, apply_carried.pack(sorted(packed.iterdir())))
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_a_host_without_a_fitting_python_says_so(content: bytes, tmp_path: Path) -> None:
    done = install(tmp_path, content, path=str(tmp_path))
    assert "this host has none of python3.14, python3.13, python3.12, python3.11" in done.stderr


def test_it_is_fetched_once_and_packed_the_same(tmp_path: Path) -> None:
    asked = []

    def fetch(python: str, folder: Path) -> None:
        asked.append(python)
        for name in ("b", f"a-{python}"):
            with zipfile.ZipFile(folder / f"{name}.whl", "w") as wheel:
                wheel.writestr(zipfile.ZipInfo("x"), "y")

    first = apply_carried.wheels(tmp_path / "one", fetch)
    assert apply_carried.wheels(tmp_path / "one", fetch) == first
    assert asked == ["3.11", "3.12", "3.13", "3.14"]
    assert apply_carried.wheels(tmp_path / "two", fetch) == first
