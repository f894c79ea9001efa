# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core that applies the roles: pinned, in a separate venv, built once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Mapping

from .pinned import ENGINES, requirements
from .place import Place, read, write
from .wish import digest
from .work import Engine, NoEngineError

_MARK = "tpu-fleet.json"


def engine_of(place: Place) -> Engine:
    """Return a function that provides ansible-playbook."""

    def engine(collection: Path, wanted: Mapping[str, Any], tools: Mapping[str, Any]) -> Path:
        if wanted.get("program"):
            return Path(wanted["program"])
        target = place.programs / f"ansible-{digest(wanted)[:16]}"
        if read(target / _MARK) is None:
            _build(collection, tools, target)
        return target / "bin" / "ansible-playbook"

    return engine


# The Pythons that can run a pinned ansible-core, the best first.
_PYTHONS = ("python3.14", "python3.13", "python3.12", "python3.11")


# The role's default. A path that a user sets may be on a disk that a role mounts.
_CACHE = "/var/cache/tpu-fleet/uv"


def _line_of(python: str) -> str:
    """Return the newest line of ansible-core for a Python, given by its name or version."""
    return "3.11" if python.endswith("3.11") else "3.12"


def _named(line: str) -> str:
    return next(pin for pin in ENGINES[line] if pin.startswith("ansible-core=="))


def _build(collection: Path, params: Mapping[str, Any], target: Path) -> None:
    """Build it like the venvs of users: with the same indexes, mirrors and retries."""
    sys.path.insert(0, str(collection))
    # The collection has this module; the agent's archive does not.
    from ansible_collections.tpu.fleet.plugins.module_utils._roles.python_env import (
        build as _venv_build,
    )

    tools = _venv_build.Tools({**params, "cache_dir": _CACHE}, warn=lambda _text: None)
    line = "3.12"
    shutil.rmtree(target, ignore_errors=True)
    try:
        with tools.at_work():
            tools.have_uv()
            versions = (name.replace("python", "") for name in _PYTHONS)
            version = next(filter(tools.find_python, versions), "3.12")
            line = _line_of(version)
            python = tools.interpreter(version)
            # uv locks a file in it, so users may enter it only when it is complete.
            target.mkdir(mode=0o700, parents=True)
            create = ("venv", "--quiet", "--allow-existing", "--python", python, str(target))
            tools.run(tools.uv, *create)
            pins = target / "pinned.txt"
            pins.write_text(requirements(*ENGINES[line]), encoding="utf-8")
            # Root installs it, so nothing is built from source and all hashes must be known.
            install = [tools.uv, "pip", "install", "--quiet", "--no-deps", "--no-build"]
            install += ["--require-hashes", "--requirements", str(pins)]
            into = ("--python", str(target / "bin" / "python"))
            # It uses 311 of its 848 modules; those are compiled when they are first imported.
            tools.patiently(lambda: tools.run(*install, *into))
    except _venv_build.Failed as error:
        raise NoEngineError(f"{_named(line)} cannot be installed: {error}") from error
    target.chmod(0o755)
    os.sync()
    write(target / _MARK, json.dumps({"version": _named(line)}))
