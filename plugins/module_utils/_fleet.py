# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a whole fleet file before anything is changed, and report everything at once. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import SequenceMatcher
from typing import Any

from . import _fleet_rules as rules
from ._allocations import allocation_rules, parse_allocations
from ._fleet_around import AROUND, check_around
from ._fleet_schema import (
    LISTS,
    SCALARS,
    Problem,
    by_rule,
    check_shape,
    did_you_mean,
    duplicates,
    entries,
    text_of,
    texts_of,
)
from ._fleet_slices import check_slices
from ._prices import price_rules

__all__ = [
    "LISTS",
    "SCALARS",
    "VARIABLES",
    "Problem",
    "check_fleet",
    "check_variable_names",
    "notices",
]

VARIABLES = (*SCALARS, *LISTS, *AROUND)

_USER_REMEDY = "Use a-z, 0-9, - and _, beginning with a letter, at most 32 characters"


def check_fleet(data: Mapping[str, Any]) -> list[Problem]:
    """Return every problem of the fleet file, in the order in which a person would read it."""
    problems = check_shape(data)
    problems += _check_scalars(data)
    problems += allocation_rules(data)
    problems += check_slices(data)
    problems += check_around(data)
    problems += price_rules(data)
    problems += _check_users(data)
    problems += _check_venvs(data)
    problems += _check_trees(data)
    problems += _check_runs(data)
    return problems


def notices(data: Mapping[str, Any], now: datetime) -> list[str]:
    """Return what is not wrong, but worth a look: entries of the grant that are over."""
    grant = parse_allocations(data.get("fleet_allocations"))
    return [
        f"{entry.field}: {entry} was granted until {entry.last_day}, so it holds nothing any more. "
        "Take the entry out, or write its new end."
        for entry in grant.allocations
        if entry.is_over(now)
    ]


def check_variable_names(names: Iterable[str]) -> list[Problem]:
    """Find variables whose name is nearly, but not quite, one of the fleet file."""
    problems = []
    for name in sorted(set(names) - set(VARIABLES)):
        near = next((known for known in VARIABLES if _nearly(name, known)), None)
        if near:
            message, remedy = "is not a variable of the fleet file", f"Did you mean {near}"
            problems.append(Problem(name, None, message, remedy))
    return problems


def _nearly(name: str, known: str) -> bool:
    """Tell a misspelling from another variable of the same role."""
    head, tail = name.rpartition("_")[::2]
    known_head, known_tail = known.rpartition("_")[::2]
    if head == known_head:
        return SequenceMatcher(None, tail, known_tail).ratio() > 0.75
    return SequenceMatcher(None, name, known).ratio() > 0.95


def _check_scalars(data: Mapping[str, Any]) -> list[Problem]:
    problems = []
    project = text_of(data, "fleet_project")
    if project and not rules.PROJECT_ID.fullmatch(project):
        remedy = "Give the project id, as gcloud projects list shows it in its first column"
        problems.append(Problem("fleet_project", project, "is not a project id", remedy))
    problems += by_rule(data, "", "fleet_zone", rules.zone, rules.ZONE_REMEDY)
    days = data.get("fleet_allocation_warn_days")
    if days is not None and not rules.is_number(days):
        message, remedy = "is not a number of days", "Write 7, or leave it out"
        problems.append(Problem("fleet_allocation_warn_days", days, message, remedy))
    prune = data.get("fleet_prune")
    if prune is not None and not rules.is_flag(prune):
        problems.append(Problem("fleet_prune", prune, "is neither true nor false", "Write one"))
    user = text_of(data, "fleet_ssh_user")
    if user and user != "root":
        problems += by_rule(data, "", "fleet_ssh_user", rules.user_name, _USER_REMEDY)
    return problems


def _check_users(data: Mapping[str, Any]) -> list[Problem]:
    problems: list[Problem] = []
    for variable, number in (("user_accounts_users", "uid"), ("user_accounts_groups", "gid")):
        problems += duplicates(data, variable, "name", f"Write one entry, with one {number}")
        problems += duplicates(data, variable, number, f"Give each its own {number}")
        for field, entry in entries(data, variable):
            problems += by_rule(entry, f"{field}.", "name", rules.user_name, _USER_REMEDY)
            value = entry.get(number)
            if isinstance(value, int) and not isinstance(value, bool):
                message = rules.number_id(value)
                if message:
                    hint = f"Take one from {rules.UID_MIN} up; 2000 and more are always free"
                    problems.append(Problem(f"{field}.{number}", value, message, hint))
    for field, entry in entries(data, "user_accounts_users"):
        for index, key in texts_of(entry, "keys"):
            message = rules.public_key(key)
            if message:
                hint = "Give the one line of the .pub file: ssh-ed25519 AAAA… comment"
                shown = None if "PRIVATE" in key else key
                problems.append(Problem(f"{field}.keys[{index}]", shown, message, hint))
        problems += _check_sudo(field, entry.get("sudo"))
        problems += _absolute(field, entry, "shell")
        problems += _absolute(field, entry, "home")
    return problems


def _check_sudo(field: str, sudo: Any) -> list[Problem]:
    if sudo is None or sudo in ("none", "all"):
        return []
    remedy = "Say none, all, or a list of whole paths of commands"
    if not isinstance(sudo, list):
        return [Problem(f"{field}.sudo", sudo, "is not a sudo rule", remedy)]
    return [
        Problem(f"{field}.sudo[{index}]", command, "is not the whole path of a command", remedy)
        for index, command in enumerate(sudo)
        if not (isinstance(command, str) and command.startswith("/"))
    ]


def _check_venvs(data: Mapping[str, Any]) -> list[Problem]:
    problems = duplicates(data, "python_env_venvs", "name", "Give each venv a name of its own")
    problems += duplicates(data, "python_env_venvs", "path", "Give each venv its own folder")
    for field, entry in entries(data, "python_env_venvs"):
        problems += _absolute(field, entry, "path")
        problems += _known_user(data, field, entry, "owner")
    return problems


def _check_trees(data: Mapping[str, Any]) -> list[Problem]:
    problems = duplicates(data, "code_checkout_trees", "name", "Give each tree its own name")
    for field, entry in entries(data, "code_checkout_trees"):
        problems += _absolute(field, entry, "dest")
        problems += _known_user(data, field, entry, "owner")
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


def _check_runs(data: Mapping[str, Any]) -> list[Problem]:
    problems = duplicates(data, "training_run_runs", "name", "Give each run its own name")
    for field, entry in entries(data, "training_run_runs"):
        name = text_of(entry, "name")
        if name and not rules.RUN_NAME.fullmatch(name):
            remedy = "Use a-z, 0-9, - and _, at most 63 characters"
            problems.append(Problem(f"{field}.name", name, "is not a name for a run", remedy))
        for index, wanted in texts_of(entry, "slices"):
            problems += _known(data, f"{field}.slices[{index}]", wanted, "slice", "fleet_slices")
        for key, what, variable in (
            ("venv", "venv", "python_env_venvs"),
            ("code", "tree", "code_checkout_trees"),
        ):
            name = text_of(entry, key)
            if name and not name.startswith("/"):
                problems += _known(data, f"{field}.{key}", name, what, variable)
        problems += _known_user(data, field, entry, "user")
        for key in entry["env"] if isinstance(entry.get("env"), dict) else ():
            if not isinstance(key, str) or not rules.VARIABLE_NAME.fullmatch(key):
                remedy = "Use letters, digits and _, not beginning with a digit"
                message = "is not the name of an environment variable"
                problems.append(Problem(f"{field}.env.{key}", None, message, remedy))
        for key in ("retries", "fail_fast_seconds", "grace_seconds"):
            value = entry.get(key)
            if isinstance(value, int) and value < 0:
                problems.append(Problem(f"{field}.{key}", value, "is below zero", "Use 0 or more"))
        port = entry.get("port")
        if isinstance(port, int) and not 1024 <= port <= 65534:
            remedy = "Use 1024 to 65534, or leave it out"
            problems.append(Problem(f"{field}.port", port, "is not a port for a run", remedy))
    return problems


def _absolute(field: str, entry: Mapping[str, Any], key: str) -> list[Problem]:
    value = text_of(entry, key)
    if value is None or value.startswith("/"):
        return []
    return [Problem(f"{field}.{key}", value, "is not a whole path", "Begin it with /")]


def _names(data: Mapping[str, Any], variable: str) -> list[str]:
    found = (text_of(entry, "name") for _field, entry in entries(data, variable))
    return [name for name in found if name]


def _known(
    data: Mapping[str, Any], field: str, value: str, what: str, variable: str
) -> list[Problem]:
    """Check a reference to an entry of another variable."""
    names = _names(data, variable)
    # A variable that is no list has its own problem; what refers to it is not wrong for that.
    if value in names or not isinstance(data.get(variable) or [], list):
        return []
    remedy = did_you_mean(value, names, f"Declare it in {variable}")
    return [Problem(field, value, f"is not a {what} of this fleet file", remedy)]


def _known_user(
    data: Mapping[str, Any], field: str, entry: Mapping[str, Any], key: str
) -> list[Problem]:
    """Accept declared users, the administrator's login, and root."""
    value = text_of(entry, key)
    if value is None or value in {"root", text_of(data, "fleet_ssh_user")}:
        return []
    return _known(data, f"{field}.{key}", value, "user", "user_accounts_users")
