# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the Python environments are that runs and services name. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def venv_path(named: Any, venvs: Iterable[Mapping[str, Any]]) -> Any:
    """Return the path of an environment that is named, or given as a path; or nothing for none."""
    if not named or named.startswith("/"):
        return named
    paths = {venv["name"]: venv.get("path") for venv in venvs}
    return paths.get(named) or f"/opt/venvs/{named}"
