# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which variables hosts that apply themselves are sent, and which role has to do with which.

A host evaluates templates itself, as it has the roles and what it is. Only what asks the controller
(its files, its environment, other hosts) is evaluated here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HERE = re.compile(r"\b(lookup|query|q|hostvars|groups|inventory_dir|playbook_dir)\b")
_TEMPLATE = re.compile(r"\{\{|\{%")
# What knows of all hosts, whoever asks; and what knows more than its name says, or throws dice.
_THE_SAME = frozenset({"hostvars", "groups"})
_NEVER_THE_SAME = frozenset(
    {"vars", "varnames", "random", "shuffle", "random_mac", "random_string"}
)
# Files of a role that its tasks read variables in.
_READ = ("defaults", "vars", "tasks", "handlers", "templates", "meta")


def strings(value: Any) -> Iterable[str]:
    """Yield all texts in a value."""
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
    """Tell whether somebody has to evaluate it."""
    return any(_TEMPLATE.search(text) for text in strings(value))


def is_for_the_controller(value: Any) -> bool:
    """Tell whether only the controller can evaluate it."""
    return any(_TEMPLATE.search(text) and _HERE.search(text) for text in strings(value))


def controllers_own(variables: Mapping[str, Any]) -> set[str]:
    """Name what the controller must evaluate: also what is made of something of that kind."""
    mentioned = {
        name: {word for text in strings(value) for word in _NAME.findall(text)}
        for name, value in variables.items()
        if is_template(value)
    }
    found = {name for name in mentioned if is_for_the_controller(variables[name])}
    while True:
        more = {name for name, words in mentioned.items() if words & found} - found
        if not more:
            return found
        found |= more


def made_of(value: Any, variables: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return what tells whether a value becomes the same with other variables.

    That is the value and all variables of which it is made, directly or through others. Nothing is
    returned for what may become something else each time.
    """
    used: dict[str, Any] = {}
    left = [value]
    while left:
        words = {word for text in strings(left.pop()) for word in _NAME.findall(text)}
        if words & _NEVER_THE_SAME:
            return None
        for name in sorted(words & set(variables) - set(used) - _THE_SAME):
            used[name] = variables[name]
            left.append(variables[name])
    return (repr(value), *(f"{name}={used[name]!r}" for name in sorted(used)))


def uses_of(
    roles: Path, order: Iterable[str], variables: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return which of the variables each role has to do with, directly or through others.

    Every word in a role that is the name of a variable counts. That is rather too much than too
    little: what is too much costs a run of the role that changes nothing.
    """
    through = {
        name: {word for text in strings(value) for word in _NAME.findall(text)} & set(variables)
        for name, value in variables.items()
        if is_template(value)
    }
    found = {}
    for role in order:
        used = _words(roles / role) & set(variables)
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
                found.update(_NAME.findall(path.read_text(encoding="utf-8")))
    return found
