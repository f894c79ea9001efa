# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that no user uses code that another can change, or another's folder. No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .._schema.keys import Problem, entries, text_of
from .training_run.definition import CHECKPOINTS, checkpoint_folder

VENVS, TREES = "fleet_venvs", "fleet_code"


def check_code_of(
    data: Mapping[str, Any], field: str, user: str | None, named: Any, variable: str
) -> list[Problem]:
    """Return a problem if a user would run an environment or a tree of another user.

    It is named by its name, or by a path at or below it or a home.
    """
    if not user or not isinstance(named, str):
        return []
    owner = _owner(data, named, variable)
    if owner in ("", "root", user):
        return []
    what = "an environment" if variable == VENVS else "code"
    message = f"is {what} that {owner} owns and can change at any time, and {user} would run it"
    remedy = f"Let root own it, or let {owner} run it"
    return [Problem(field, named, message, remedy)]


def closed_to(data: Mapping[str, Any], user: str, path: str) -> str:
    """Return the other user into whose closed folder a path leads; empty if it leads into none.

    That is a home without a mode for others, and the folder for checkpoints that a run has without
    a declaration.
    """
    for _field, entry in entries(data, "fleet_users"):
        name = text_of(entry, "name") or ""
        home = (text_of(entry, "home") or f"/home/{name}").rstrip("/")
        mode = text_of(entry, "home_permissions") or "0750"
        if name != user and f"{path}/".startswith(f"{home}/") and mode.endswith("0"):
            return "" if _is_in_group(data, user, name) else name
    for _field, run in entries(data, "fleet_runs"):
        own = checkpoint_folder(run)
        theirs = isinstance(own, str) and own.startswith(CHECKPOINTS) and run.get("user") != user
        if theirs and f"{path}/".startswith(f"{own}/"):
            return str(run.get("user") or "")
    return ""


def _is_in_group(data: Mapping[str, Any], user: str, group: str) -> bool:
    people = entries(data, "fleet_users")
    mine = (entry.get("groups") for _field, entry in people if entry.get("name") == user)
    return any(isinstance(groups, list) and group in groups for groups in mine)


def _owner(data: Mapping[str, Any], named: str, variable: str) -> str:
    """Return the owner of what is named; empty if the fleet file does not name one."""
    if not named.startswith("/"):
        found = (entry for _field, entry in entries(data, variable) if entry.get("name") == named)
        return next(map(_owner_of, found), "")
    owners = {place: owner for place, owner in _places(data) if f"{named}/".startswith(f"{place}/")}
    return owners[max(owners, key=len)] if owners else ""


def _places(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the paths whose owner the fleet file names, each with the owner."""
    for _field, user in entries(data, "fleet_users"):
        name = text_of(user, "name") or ""
        yield (text_of(user, "home") or f"/home/{name}").rstrip("/"), name
    for variable in (VENVS, TREES):
        for _field, entry in entries(data, variable):
            path = text_of(entry, "path")
            if path:
                yield path.rstrip("/"), _owner_of(entry)


def _owner_of(entry: Mapping[str, Any]) -> str:
    """Return the owner of an environment or a tree; empty if it cannot be read."""
    owner = entry.get("user") or "root"
    return owner if isinstance(owner, str) else ""
