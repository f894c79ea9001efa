# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a whole fleet file before anything is changed, and report everything at once. No I/O.

What a role takes is said once, in its meta/argument_specs.yml; the caller reads these files. What
such a specification cannot say is in the rules.py of each role.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .._roles.rules_by_role import ROLE_RULES
from .._schema.amounts import KINDS
from .._schema.keys import PLAYBOOK_VARIABLES, Key, Problem, check_keys, check_shape
from .._schema.names import FLEET_NAMES, fleet_name
from .._schema.refs import references_together
from .._schema.sizes import SIZES
from .fleet import VARIABLES, fleet_rules

# Roles have two words, and their variables begin with them.
_OF_ROLE = re.compile(r"([a-z]+_[a-z]+)_")
# What a field is in: an entry of a list, or else a variable.
_ENTRY = re.compile(r"(\w+(?:\[\d+\])?).*")
# By the names of roles and of the fleet file.
_AMOUNTS = {
    f"{name}{place.removeprefix(own)}": (kind, SIZES.get(place, "B"))
    for place, kind in KINDS.items()
    for own in [place.partition(".")[0]]
    for name in (own, fleet_name(own))
}
_TYPES = {"path": "str", "raw": "any", "float": "number", "jsonarg": "any", "json": "any"}
# What -e on the command line makes of numbers and flags; Ansible makes them what they were.
_TEXTS = {
    "int": re.compile(r"-?\d+"),
    "number": re.compile(r"-?\d+(\.\d+)?"),
    "bool": re.compile(r"(?i)yes|on|1|true|t|y|no|off|0|false|f|n"),
}


def role_keys(options: Mapping[str, Mapping[str, Any]], above: str = "") -> dict[str, Key]:
    """Turn options of an argument specification into keys of the fleet file."""
    return {
        name: Key(
            type=_type_of(f"{above}{name}", option["type"])[0],
            required=bool(option.get("required")),
            choices=tuple(option.get("choices", ())),
            elements=_TYPES.get(option.get("elements", ""), option.get("elements")),
            options=role_keys(option.get("options", {}), f"{above}{name}."),
            secret=bool(option.get("no_log")),
            unit=_type_of(f"{above}{name}", option["type"])[1],
        )
        for name, option in options.items()
    }


def _type_of(place: str, kind: str) -> tuple[str, str]:
    """Return the type of a role's option in the fleet file, and the unit of a size."""
    return _AMOUNTS.get(place) or (_TYPES.get(kind, kind), "B")


def check_fleet_file(
    data: Mapping[str, Any], roles: Mapping[str, Key], unreadable: Collection[str] = ()
) -> list[Problem]:
    """Return every problem of the fleet file, in the order in which a person would read it.

    The roles are the variables of all roles, as role_keys makes them. Unreadable are the fields
    that hold UNREADABLE; nothing is said of them, or of what they would contain.
    """
    shape = check_shape(data)
    as_meant = {name: _as_meant(data.get(name), key) for name, key in roles.items()}
    # A role whose variable is not given has a default, or asks for it when it is applied.
    shape += check_keys("", as_meant, {n: k for n, k in roles.items() if n in data}, among=())
    problems = fleet_rules(data)
    for rule in ROLE_RULES.values():
        problems += rule(data)
    # How the keys of an entry go together is not known until all of them are.
    entries = {_ENTRY.sub(r"\1", field) for field in unreadable}
    told = [
        *(problem for problem in shape if not _is_in(problem.field, unreadable)),
        *(problem for problem in problems if not _is_in(problem.field, entries)),
    ]
    return references_together(told, data)


def _is_in(field: str, fields: Collection[str]) -> bool:
    return any(field == one or field.startswith((f"{one}.", f"{one}[")) for one in fields)


def _as_meant(value: Any, key: Key) -> Any:
    """Take a text for the number or flag that Ansible will make of it, and the other way round."""
    if key.type == "str" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    pattern = _TEXTS.get(key.type)
    if pattern is None or not isinstance(value, str) or not pattern.fullmatch(value):
        return value
    return (
        value.lower() in ("yes", "on", "1", "true", "t", "y")
        if key.type == "bool"
        else int(float(value))
    )


def check_variable_names(
    names: Iterable[str], roles: Mapping[str, Key], files: Mapping[str, str] | None = None
) -> list[Problem]:
    """Find variables whose name is nearly, but not quite, one of the collection's.

    Near is what is spelt nearly alike, also the name of a role in place of its list: training_runs
    for fleet_runs. All others are the user's own. The files say where a variable is.
    """
    problems = []
    variables = (*VARIABLES, *PLAYBOOK_VARIABLES, *roles)
    meant = {**{name: name for name in variables}, **FLEET_NAMES, **_role_lists(roles)}
    for name in sorted(set(names) - set(variables)):
        near = _nearest(name, meant)
        if near:
            place = (files or {}).get(name)
            message = f"no such variable, in {place}" if place else "no such variable"
            problems.append(Problem(name, None, message, f"Did you mean {meant[near]}"))
    return problems


def _role_lists(roles: Mapping[str, Key]) -> dict[str, str]:
    """Return the first list of each role that has one, by the name of the role."""
    return {
        match[1]: name
        for own, name in reversed(list(FLEET_NAMES.items()))
        if name in roles and roles[name].type == "list" and (match := _OF_ROLE.match(own))
    }


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name that is spelt nearly like this one."""
    # What has a word more than ours, or is marked as private, was named so on purpose.
    if name.startswith("_"):
        return None
    found, least, letters = None, len(name), set(name)
    for other in known:
        most = min(3, max(1, len(other) // 8), least - 1)
        if abs(len(name) - len(other)) > most or name.startswith(f"{other}_"):
            continue
        # Each edit brings one letter at most: this spares most of the names the long count.
        if len(letters - set(other)) > most or len(set(other) - letters) > most:
            continue
        apart = _edits(name, other, most)
        if apart <= most:
            found, least = other, apart
    return found


def _edits(one: str, other: str, most: int) -> int:
    """Count the letters to add, leave out, change or swap to get from one to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(row[-1] + 1, before[j] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == wanted:
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return most + 1
    return row[-1]
