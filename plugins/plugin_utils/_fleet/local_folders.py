# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look for the folders of this computer that the fleet file names, before anything costs money."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...module_utils._schema.keys import Problem, entries


def problems_of(data: Mapping[str, Any], base: str) -> list[Problem]:
    """Name the folders that cannot be read; a relative one is one below base."""
    problems = []
    for field, folder in _folders(data):
        place = Path(os.path.normpath(Path(base, Path(folder).expanduser())))
        if not place.is_dir():
            what = "is a file" if place.exists() else "is not there"
            message = f"{what}{'' if str(place) == folder else f' ({place})'}"
            remedy = (
                "Name a folder of this computer; a relative one begins at the inventory's folder"
            )
            problems.append(Problem(field, folder, message, remedy))
        elif not os.access(place, os.R_OK | os.X_OK):
            message = "may not be read by you"
            problems.append(Problem(field, folder, message, "Change its mode, or name another one"))
    return problems


def _folders(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    found = [(f"{f}.local_path", e.get("local_path")) for f, e in entries(data, "fleet_code")]
    for field, entry in entries(data, "fleet_shells"):
        dotfiles = entry.get("dotfiles")
        if isinstance(dotfiles, Mapping):
            found.append((f"{field}.dotfiles.local_path", dotfiles.get("local_path")))
    # Another kind of value is another problem.
    return ((field, value) for field, value in found if isinstance(value, str) and value)
