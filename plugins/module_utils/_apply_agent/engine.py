# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core that applies the roles: pinned, in a folder of its own, made once."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Mapping

from .place import Place, read, write
from .store import Store
from .wish import digest
from .work import Engine, WorkError, extract

_MARK = "tpu-fleet.json"


def engine_of(place: Place) -> Engine:
    """Return what makes it be there."""

    def engine(collection: Path, wanted: Mapping[str, Any], tools: Mapping[str, Any]) -> Path:
        if wanted.get("program"):
            return Path(wanted["program"])
        target = place.programs / f"ansible-{digest(wanted)[:16]}"
        if read(target / _MARK) is None:
            if wanted.get("wheels"):
                _unpack(Store(place.store).path(wanted["wheels"]), wanted, target)
            else:
                _build(collection, wanted, tools, target)
        return target / "bin" / "ansible-playbook"

    return engine


# What python3 -m venv needs, and Debian and Ubuntu have in a package of its own.
_VENV = ("python3", "-c", "import ensurepip, venv")
# As long as the role host_base waits for what a first boot does.
_PATIENCE = 900


def _have_venv() -> None:
    """Get the package that makes virtual environments, if this host has not got it."""
    if _run(*_VENV).returncode == 0:
        return
    # A fresh machine installs its own packages first.
    if shutil.which("cloud-init"):
        _run("cloud-init", "status", "--wait")
    lock = f"DPkg::Lock::Timeout={_PATIENCE}"
    for argv in (("update",), ("install", "--yes", "--no-install-recommends", "python3-venv")):
        done = _run("apt-get", "--quiet", "-o", lock, *argv)
    if _run(*_VENV).returncode != 0:
        said = done.stdout.decode("utf-8", "replace").strip().splitlines()[-5:]
        raise WorkError("python3-venv cannot be installed: " + " ".join(said))


def _run(*argv: str) -> subprocess.CompletedProcess[bytes]:
    # There is no module here to run it with.
    # pylint: disable-next=ansible-bad-function
    return subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        timeout=2 * _PATIENCE,
        check=False,
    )


# What ansible-core runs on; the wheels are for these.
_PYTHONS = ("python3.11", "python3.12", "python3.13")


def _unpack(wheels: Path, wanted: Mapping[str, Any], target: Path) -> None:
    """Install it from what was sent, with a Python of this host: nothing is asked of any index."""
    python = next(filter(None, map(shutil.which, _PYTHONS)), None)
    if python is None:
        raise WorkError(
            f"this host has none of {', '.join(_PYTHONS)}, which ansible-core "
            f"{wanted['version']} needs where no index is reached. Take a runtime version that has "
            "one, or fleet_apply_environment: index with mirrors that the host reaches"
        )
    shutil.rmtree(target, ignore_errors=True)
    folder = target.with_name(f".{target.name}.wheels")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700, parents=True)
    try:
        with tarfile.open(wheels) as archive:
            extract(archive, folder)
        # Fresh machines lack what would bring pip; it is among the wheels, and runs from there.
        pip = next(folder.glob("pip-*.whl"))
        offline = ("--no-index", "--find-links", str(folder), "--no-cache-dir", "--quiet")
        named = f"ansible-core=={wanted['version']}"
        for argv in (
            (python, "-I", "-m", "venv", "--without-pip", str(target)),
            (str(target / "bin" / "python"), f"{pip}/pip", "install", *offline, named),
        ):
            done = _run(*argv)
            if done.returncode:
                said = done.stdout.decode("utf-8", "replace").strip().splitlines()[-5:]
                raise WorkError(f"{named} cannot be installed: {' '.join(said)}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    os.sync()
    write(target / _MARK, json.dumps({"version": wanted["version"]}))


def _build(
    collection: Path, wanted: Mapping[str, Any], params: Mapping[str, Any], target: Path
) -> None:
    """Build it with what builds the venvs of people: the same indexes, mirrors and patience."""
    sys.path.insert(0, str(collection))
    # It comes with the collection, and is not there when this program is packed.
    from ansible_collections.tpu.fleet.plugins.module_utils import _venv_build

    tools = _venv_build.Tools(params, warn=lambda _text: None)
    shutil.rmtree(target, ignore_errors=True)
    _have_venv()
    try:
        with tools.at_work():
            tools.have_uv()
            python = tools.interpreter(wanted["python"])
            tools.run(tools.uv, "venv", "--quiet", "--python", python, str(target))
            install = (tools.uv, "pip", "install", "--quiet", "--compile-bytecode")
            named = f"ansible-core=={wanted['version']}"
            into = ("--python", str(target / "bin" / "python"))
            tools.patiently(lambda: tools.run(*install, *into, named))
    except _venv_build.Failed as error:
        raise WorkError(f"ansible-core {wanted['version']} cannot be installed: {error}") from error
    os.sync()
    write(target / _MARK, json.dumps({"version": wanted["version"]}))
