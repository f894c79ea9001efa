# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for references that several roles share. No I/O."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .durations import seconds_in
from .keys import UNREADABLE, Problem, did_you_mean, entries, text_of, texts_of
from .names import fleet_name
from .sizes import bytes_in
from .values import IMAGE_USERS, SYSTEM_USERS


def user_remedy(name: Any) -> str:
    """Return the remedy for an invalid name of a user."""
    if name in SYSTEM_USERS | IMAGE_USERS:
        return "Take another name, such as that of the person"
    return "Use a-z, 0-9, - and _, beginning with a letter, at most 32 characters"


NO_SLICE = "is not a slice of this fleet file"


def absolute(field: str, entry: Mapping[str, Any], key: str) -> list[Problem]:
    """Check that a path is absolute."""
    value = text_of(entry, key)
    if value is None or value.startswith("/"):
        return []
    return [Problem(f"{field}.{key}", value, "is not a whole path", "Begin it with /")]


def in_its_slice(data: Mapping[str, Any], role: str) -> list[Problem]:
    """Check that a worker has a place among the addresses of its slice. The playbooks give both."""
    index, hosts = data.get(f"{role}_worker_index"), data.get(f"{role}_slice_hosts")
    if not isinstance(index, int) or not isinstance(hosts, list) or 0 <= index < len(hosts):
        return []
    message = f"is not one of the {len(hosts)} workers ({', '.join(map(str, hosts))})"
    remedy = f"Give {role}_slice_hosts the addresses of the slice's workers, in worker order"
    return [Problem(f"{role}_worker_index", index, message, remedy)]


def at_least(data: Mapping[str, Any], limits: Mapping[str, int | str]) -> list[Problem]:
    """Check that numbers, durations and sizes are not too small."""
    return [
        Problem(name, data[name], "is too small", f"Use {least} or more")
        for name, least in limits.items()
        if _amount(data.get(name), least) < _amount(least, least)
    ]


def _amount(value: Any, least: int | str) -> float:
    """Return a number, seconds, or bytes; infinity for what has another type."""
    if isinstance(least, int):
        return value if isinstance(value, int) else math.inf
    of_kind = seconds_in if bytes_in(least) is None else bytes_in
    found = of_kind(value) if isinstance(value, str) else None
    return math.inf if found is None else found


def twice_on_a_slice(data: Mapping[str, Any], variable: str, key: str) -> list[Problem]:
    """Find values of a key that two entries for the same slice share."""
    problems: list[Problem] = []
    seen: dict[str, list[tuple[str, Any]]] = {}
    for field, entry in entries(data, variable):
        value, slices = text_of(entry, key), entry.get("slices")
        if value is None:
            continue
        before = seen.setdefault(value, [])
        for other, theirs in before:
            if not slices or not theirs or set(slices) & set(theirs):
                message = f"is used twice on the same slice, first by {other}"
                remedy = f"Give each its own {key}, or name other slices"
                problems.append(Problem(f"{field}.{key}", value, message, remedy))
                break
        before.append((field, slices))
    return problems


def own_venv(data: Mapping[str, Any], role: str) -> list[Problem]:
    """Check where a role's own environment is: the role may replace all that is there."""
    name = fleet_name(f"{role}_venv_path")
    path = text_of(data, name)
    if path is None or re.match(r"/opt/tpu-fleet/venvs/.", path):
        return []
    remedy = f"Use a folder such as /opt/tpu-fleet/venvs/{role}"
    return [Problem(name, path, "is not below /opt/tpu-fleet/venvs", remedy)]


def names_of(data: Mapping[str, Any], variable: str) -> list[str]:
    """List the names that a variable declares."""
    found = (text_of(entry, "name") for _field, entry in entries(data, variable))
    return [name for name in found if name]


def hides_a_name(declared: Any) -> bool:
    """Return whether a name may be one of these entries, of which some are unreadable."""
    if not isinstance(declared, list):
        return declared is not None
    return any(
        entry is UNREADABLE or (isinstance(entry, Mapping) and entry.get("name") is UNREADABLE)
        for entry in declared
    )


def known(
    data: Mapping[str, Any], field: str, value: str, what: str, variable: str
) -> list[Problem]:
    """Check a reference to an entry of another variable."""
    names = names_of(data, variable)
    # A variable that is not a list is reported itself; references to it are not.
    if value in names or hides_a_name(data.get(variable)):
        return []
    remedy = did_you_mean(value, names, f"Declare it in {variable}")
    message = NO_SLICE if what == "slice" else f"is not a {what} of this fleet file"
    return [Problem(field, value, message, remedy)]


def known_slices(data: Mapping[str, Any], field: str, entry: Mapping[str, Any]) -> list[Problem]:
    """Check the references of an entry to slices."""
    problems = []
    for index, name in texts_of(entry, "slices"):
        problems += known(data, f"{field}.slices[{index}]", name, "slice", "fleet_slices")
    return problems


def known_user(
    data: Mapping[str, Any], field: str, entry: Mapping[str, Any], key: str
) -> list[Problem]:
    """Accept declared users, the administrator's login, and root."""
    value = text_of(entry, key)
    login = data.get("fleet_ssh_user")
    if value is None or login is UNREADABLE or value in ("root", login):
        return []
    return known(data, f"{field}.{key}", value, "user", "fleet_users")


def references_together(problems: Sequence[Problem], data: Mapping[str, Any]) -> list[Problem]:
    """Report an undeclared slice that several entries name as one problem.

    It was taken out of fleet_slices, most likely. What to do about each entry differs: where it
    names no other slice, an empty list would stand for all of them.
    """
    found: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.message == NO_SLICE:
            found.setdefault(str(problem.value), []).append(problem)
    told = []
    for problem in problems:
        of_slice = found.get(str(problem.value), []) if problem.message == NO_SLICE else []
        if len(of_slice) < 2:
            told.append(problem)
        elif problem is of_slice[0]:
            told.append(_removed(str(problem.value), of_slice, data))
    return told


def _removed(name: str, problems: Sequence[Problem], data: Mapping[str, Any]) -> Problem:
    whole: list[str] = []
    partly: list[str] = []
    for problem in problems:
        match = re.match(r"(\w+)\[(\d+)\](?:\.(\w+))?", problem.field)
        entry = data[match[1]][int(match[2])] if match else {}
        if match is None or not isinstance(entry, Mapping):
            partly.append(problem.field)
            continue
        label = text_of(entry, "name") or text_of(entry, "user")
        about = f" ({label})" if label else ""
        # A disk without slices is kept; of everything else, no slices are all of them.
        alone = match[3] == "slice" or set(entry.get("slices") or [name]) <= {name}
        if alone and match[1] != "fleet_disks":
            whole.append(f"{match[1]}[{match[2]}]{about}")
        else:
            partly.append(f"{problem.field}{about}")
    todo = [f"remove {', '.join(dict.fromkeys(whole))}, which are for it alone"] if whole else []
    todo += [f"take its name out of {', '.join(partly)}"] if partly else []
    message = f"is not a slice of this fleet file, and {len(problems)} places name it"
    remedy = f"If it is to go, {', and '.join(todo)}; else declare it in fleet_slices"
    return Problem(problems[0].field, name, message, remedy)
