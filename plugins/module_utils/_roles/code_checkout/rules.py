# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the code trees of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem, duplicates, entries
from ..._schema.refs import known_slices, known_user
from .plan import problems_of

_HERE = "fleet_code"


def check_code_checkout(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared code trees."""
    problems = duplicates(data, _HERE, "name", "Give each tree its own name")
    problems += duplicates(data, _HERE, "path", "Give each tree its own path")
    for field, entry in entries(data, _HERE):
        problems += known_user(data, field, entry, "user")
        problems += known_slices(data, field, entry)
        for key, message, remedy in problems_of(entry):
            # The value of repo may have a password, so it is not shown.
            value = entry.get(key or "name") if key != "repo" else None
            problems.append(Problem(f"{field}.{key}" if key else field, value, message, remedy))
        if entry.get("local_path"):
            for key in ("version", "submodules", "lfs"):
                if entry.get(key):
                    remedy = "Remove it, because a copied folder has no such thing"
                    message = "needs repo"
                    problems.append(Problem(f"{field}.{key}", entry[key], message, remedy))
    return problems
