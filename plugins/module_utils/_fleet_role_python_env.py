# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the venvs of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._fleet_refs import absolute, known_user
from ._fleet_schema import Problem, duplicates, entries


def check_python_env(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the venvs."""
    problems = duplicates(data, "python_env_venvs", "name", "Give each venv a name of its own")
    problems += duplicates(data, "python_env_venvs", "path", "Give each venv its own folder")
    for field, entry in entries(data, "python_env_venvs"):
        problems += absolute(field, entry, "path")
        problems += known_user(data, field, entry, "owner")
    return problems
