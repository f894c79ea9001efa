# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the code trees of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._fleet_refs import absolute, known_user
from ._fleet_schema import Problem, duplicates, entries


def check_code_checkout(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the code trees."""
    problems = duplicates(data, "code_checkout_trees", "name", "Give each tree its own name")
    for field, entry in entries(data, "code_checkout_trees"):
        problems += absolute(field, entry, "dest")
        problems += known_user(data, field, entry, "owner")
        repo, folder = entry.get("repo"), entry.get("folder")
        if bool(repo) == bool(folder):
            message = "has both repo and folder" if repo else "has neither repo nor folder"
            remedy = "Give repo (and version) for git, or folder for a copy of a local folder"
            problems.append(Problem(field, entry.get("name"), message, remedy))
        if folder and entry.get("version"):
            remedy = "Remove it: a copied folder has no version"
            problems.append(
                Problem(f"{field}.version", entry["version"], "goes only with repo", remedy)
            )
    return problems
