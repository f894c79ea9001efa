# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core that applies the roles: pinned, in a folder of its own, made once."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Mapping

from .place import Place, read, write
from .wish import digest
from .work import Engine, WorkError

_MARK = "tpu-fleet.json"


def engine_of(place: Place) -> Engine:
    """Return what makes it be there."""

    def engine(collection: Path, wanted: Mapping[str, Any]) -> Path:
        if wanted.get("program"):
            return Path(wanted["program"])
        target = place.programs / f"ansible-{digest(wanted)[:16]}"
        if read(target / _MARK) is None:
            _build(collection, wanted, target)
        return target / "bin" / "ansible-playbook"

    return engine


def _build(collection: Path, wanted: Mapping[str, Any], target: Path) -> None:
    """Build it with what builds the venvs of people: the same indexes, mirrors and patience."""
    sys.path.insert(0, str(collection))
    # It comes with the collection, and is not there when this program is packed.
    from ansible_collections.tpu.fleet.plugins.module_utils import _venv_build

    tools = _venv_build.Tools(wanted["tools"], warn=lambda _text: None)
    shutil.rmtree(target, ignore_errors=True)
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
