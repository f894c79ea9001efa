# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The paths of the Python environments that runs and services name. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def venv_path(named: Any, venvs: Iterable[Mapping[str, Any]]) -> Any:
    """Return the path of an environment, given by name or path; nothing if none is given."""
    if not named or named.startswith("/"):
        return named
    paths = {venv["name"]: venv.get("path") for venv in venvs}
    return paths.get(named) or f"/opt/venvs/{named}"
