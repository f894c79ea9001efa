# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables a host is sent that applies its roles itself, and which role uses which.

A host evaluates templates itself, because it has the roles and its own facts. Only templates that
ask the controller (its files, its environment, other hosts) are evaluated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ...module_utils._schema.names import fleet_name
from ...module_utils._schema.values import VARIABLE_NAME

_HERE = re.compile(r"\b(lookup|query|q|hostvars|groups|inventory_dir|playbook_dir)\b")
_TEMPLATE = re.compile(r"\{\{|\{%")
# What follows a dot is a part of another value, and no variable.
_READ_NAME = re.compile(rf"(?<![.\w]){VARIABLE_NAME.pattern}")
# Names with the same value for every host; and names whose value cannot be predicted.
_THE_SAME = frozenset({"hostvars", "groups"})
_NEVER_THE_SAME = frozenset(
    {"vars", "varnames", "random", "shuffle", "random_mac", "random_string"}
)
# What differs between controllers: where a value that is evaluated here is made of it, only that
# value counts.
_OF_A_CONTROLLER = frozenset({"fleet_state_dir"})
# The folders of a role in which its tasks read variables.
_READ = ("defaults", "vars", "tasks", "handlers", "templates", "meta")
# What decides over roles without being named there: they read the code trees on the host itself.
_ALSO = {
    "python_env": frozenset({"code_checkout_trees", "fleet_code"}),
    "training_run": frozenset({"code_checkout_trees", "fleet_code"}),
}


def strings(value: Any) -> Iterable[str]:
    """Yield all strings in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from strings(key)
            yield from strings(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings(part)


def is_template(value: Any) -> bool:
    """Return whether a value has a template."""
    return any(_TEMPLATE.search(text) for text in strings(value))


def is_for_the_controller(value: Any) -> bool:
    """Return whether only the controller can evaluate a value."""
    return any(_TEMPLATE.search(text) and _HERE.search(text) for text in strings(value))


def controllers_own(variables: Mapping[str, Any]) -> set[str]:
    """Return the variables that the controller must evaluate, also those that use such ones."""
    return _controllers_own(variables, _mentioned(variables))


def _mentioned(variables: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the words in the value of each variable that is a template."""
    return {
        name: {word for text in strings(value) for word in VARIABLE_NAME.findall(text)}
        for name, value in variables.items()
        if is_template(value)
    }


def _controllers_own(variables: Mapping[str, Any], mentioned: Mapping[str, set[str]]) -> set[str]:
    found = {name for name in mentioned if is_for_the_controller(variables[name])}
    while True:
        more = {name for name, words in mentioned.items() if words & found} - found
        if not more:
            return found
        found |= more


def made_of(value: Any, variables: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return a key that is equal for values that evaluate to the same.

    The key has the value and all variables that it uses, directly or through others. None means
    that the value may evaluate to something else each time.
    """
    used: dict[str, Any] = {}
    left = [value]
    while left:
        words = {word for text in strings(left.pop()) for word in _READ_NAME.findall(text)}
        if words & _NEVER_THE_SAME:
            return None
        for name in sorted(words & set(variables) - set(used) - _THE_SAME):
            used[name] = variables[name]
            left.append(variables[name])
    return (repr(value), *(f"{name}={used[name]!r}" for name in sorted(used)))


def uses_of(
    roles: Path, order: Iterable[str], variables: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the variables that each role uses, directly or through others.

    Every word in a role that is the name of a variable counts. This may find too many, which costs
    a run of the role that changes nothing, but never too few.
    """
    mentioned = _mentioned(variables)
    through = {name: words & variables.keys() for name, words in mentioned.items()}
    for name in _controllers_own(variables, mentioned):
        through[name] -= _OF_A_CONTROLLER
    found = {}
    for role in order:
        used = (_words(roles / role) | _ALSO.get(role, frozenset())) & set(variables)
        while True:
            more = {word for name in used for word in through.get(name, ())} - used
            if not more:
                break
            used |= more
        found[role] = sorted(used)
    return found


def _words(role: Path) -> set[str]:
    found: set[str] = set()
    for folder in _READ:
        for path in (role / folder).rglob("*"):
            if path.is_file():
                found.update(VARIABLE_NAME.findall(path.read_text(encoding="utf-8")))
    # A variable of a role that has no value takes that of its name in the fleet file.
    return found | {fleet_name(name) for name in found}
