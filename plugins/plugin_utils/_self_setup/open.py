# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a host's variables may be published: nothing that is secret, or made of it. No I/O.

Secret is what roles say is secret, what was encrypted, and what these are made of. Secrets that
only are named (those in Google Secret Manager) are published by their names.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...module_utils._schema.names import fleet_name, own_name, written
from ...module_utils._schema.values import VARIABLE_NAME
from .._apply.variables import is_template, strings
from .._apply.wish import Given

# A login in an address.
_LOGIN = re.compile(r"://[^/@\s:]*:[^/@\s]+@")
# Made by our own playbooks, of which roles say nothing.
_OWN = frozenset({"fleet_ray_generated_token"})
# Made by our own playbooks, too; without them the workers of a slice agree on some by themselves.
_GANG_KEYS = "training_run_keys"
_SETS, _KEYS, _RUNS = "env_secrets_sets", "git_access_keys", "training_run_runs"
_SERVICES = ("notebook_server_notebooks", "tensorboard_server_boards")
_PEOPLE, _PACKED = "user_shell_people", "user_shell_snapshots"
_HEAD = "ray_cluster_head"


@dataclass(frozen=True)
class Raw:
    """The variables as they are written, and how they are read."""

    values: Mapping[str, Any]
    # Options of roles, by variable, and by its name in the fleet file.
    options: Mapping[str, Mapping[str, Any]]
    # Whether a value, or something in it, was encrypted.
    encrypted: Callable[[Any], bool]
    # Returns what becomes of a variable, as JSON can hold it; raises what cannot be read.
    read: Callable[[str], Any]
    unreadable: type[Exception] | tuple[type[Exception], ...] = field(default=ValueError)


def opened(given: Given, raw: Raw) -> tuple[Given, list[str]]:
    """Return what may be published, and what has to be done without, in words."""
    everything = {**given.templates, **given.plain}
    by_nature = {name for name in raw.values if _is_closed(name, raw)}
    hidden = _made_of(_secret_words(everything, raw), by_nature, raw.values)
    templates, plain = dict(given.templates), dict(given.plain)
    without: list[str] = []
    for name in sorted(everything):
        if name == _GANG_KEYS:
            templates.pop(name, None)
            plain.pop(name, None)
        elif name in raw.options and _parts(raw.options[name]):
            templates.pop(name, None)
            plain.pop(name, None)
            _publish(name, raw, plain, without)
        elif name in hidden or _mentions(name, hidden, raw.values) or _has_login(everything[name]):
            templates.pop(name, None)
            plain.pop(name, None)
            if name not in hidden:
                without.append(f"{name}, as it is made of secrets")
    if everything.get(_PACKED):
        _without_folders(raw, templates, plain)
    _without_services(raw, everything, templates, plain, without)
    return Given(templates, plain, given.uses), without


def open_tools(tools: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return how a host gets Python and packages, without the logins for it."""
    told = {name: value for name, value in tools.items() if not _has_login(value)}
    closed: dict[str, Any] = {"index_credentials": [], "secret_environment": {}}
    without = [
        fleet_name(f"python_env_{name}")
        for name in (*closed, *(set(tools) - set(told)))
        if tools.get(name)
    ]
    empty: dict[str, Any] = {"extra_index_urls": []}
    left = {name: empty.get(name, "") for name in tools if name not in told}
    return {**told, **left, **closed}, without


def _is_closed(name: str, raw: Raw) -> bool:
    return (
        name in (*_OWN, _GANG_KEYS) or name.startswith("vault_") or raw.encrypted(raw.values[name])
    )


def _secret_words(names: Iterable[str], raw: Raw) -> set[str]:
    """Name what the secret parts of variables mention."""
    found: set[str] = set()
    for name in names:
        if name in raw.options and name != _GANG_KEYS:
            for part in _secret_parts(raw.values.get(name), raw.options[name]):
                found |= _words(part)
    return found


def _secret_parts(value: Any, option: Mapping[str, Any]) -> Iterable[Any]:
    if option.get("no_log") or (is_template(value) and isinstance(value, str) and _parts(option)):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _secret_parts(part, option)
    elif isinstance(value, Mapping):
        for name, inner in option.get("options", {}).items():
            if name in value:
                yield from _secret_parts(value[name], inner)


def _parts(option: Mapping[str, Any]) -> bool:
    """Return whether an option is secret, or a part of it."""
    return bool(option.get("no_log")) or any(map(_parts, option.get("options", {}).values()))


def _words(value: Any) -> set[str]:
    return {word for text in strings(value) if "{" in text for word in VARIABLE_NAME.findall(text)}


def _made_of(words: set[str], closed: set[str], values: Mapping[str, Any]) -> set[str]:
    """Name the variables of which secrets are made, directly or through others."""
    found = set(closed)
    left = words & set(values)
    while left:
        found |= left
        left = {word for name in left for word in _words(values[name])} & set(values) - found
    return found


def _mentions(name: str, hidden: set[str], values: Mapping[str, Any]) -> bool:
    """Return whether a variable is made of hidden ones."""
    seen: set[str] = set()
    left = {name}
    while left:
        seen |= left
        left = {word for one in left for word in _words(values.get(one))} & set(values) - seen
        if left & hidden:
            return True
    return False


def _has_login(value: Any) -> bool:
    return any(_LOGIN.search(text) for text in strings(value))


def _publish(name: str, raw: Raw, plain: dict[str, Any], without: list[str]) -> None:
    """Publish of a variable with secrets what is none."""
    rule = _RULES.get(own_name(name))
    try:
        value = raw.read(name)
    except raw.unreadable:
        without.append(f"{name}, which cannot be read")
        return
    if rule:
        plain[name] = rule(copy.deepcopy(value), raw, without)
    elif value:
        without.append(name)


def _sets(value: Sequence[Mapping[str, Any]], raw: Raw, without: list[str]) -> Any:
    kept = []
    for one in value or []:
        closed = [key for key in ("values", "env", "files") if one.get(key)]
        if closed:
            without.append(f"{' and '.join(closed)} of the secrets {one.get('name')}")
        if one.get("google_secrets"):
            names = ("name", "user", "slices", "google_secrets", "in_login_shell")
            kept.append({key: one[key] for key in names if key in one})
    return kept


def _keys(value: Sequence[Mapping[str, Any]], raw: Raw, without: list[str]) -> Any:
    shared = [one for one in value or [] if one.get("private_key")]
    without += [f"the shared key {one.get('name')} for git" for one in shared]
    return [one for one in value or [] if not one.get("private_key")]


def _runs(value: Sequence[Mapping[str, Any]], raw: Raw, without: list[str]) -> Any:
    """Publish the environments of runs as far as they stand in the fleet file as they are."""
    declared = raw.values.get(written(_RUNS, raw.values))
    kept = []
    for number, run in enumerate(value or []):
        env: Any = {}
        if isinstance(declared, (list, tuple)) and isinstance(declared[number], Mapping):
            env = declared[number].get("env") or {}
        plain = isinstance(env, Mapping) and not is_template(env) and not raw.encrypted(env)
        if run.get("env") and not (plain and env and not _has_login(env)):
            # With another environment it would do something that is not wanted.
            run = {**run, "env": {}, "enabled": False}
            without.append(f"the run {run.get('name')}, whose env is made of something else")
        kept.append(run)
    return kept


def _nothing(value: Any, raw: Raw, without: list[str]) -> Any:
    if value:
        without.append("dotfiles from folders of the controller")
    return {}


def _without_folders(raw: Raw, templates: dict[str, Any], plain: dict[str, Any]) -> None:
    name = written(_PEOPLE, raw.values)
    try:
        people = raw.read(name)
    except raw.unreadable:
        return
    templates.pop(name, None)
    plain[name] = [
        {key: value for key, value in person.items() if key != "dotfiles"}
        if (person.get("dotfiles") or {}).get("local_path")
        else person
        for person in people
    ]


def _without_services(
    raw: Raw,
    everything: Mapping[str, Any],
    templates: dict[str, Any],
    plain: dict[str, Any],
    without: list[str],
) -> None:
    """Do without services whose secrets are not published; a run waits for them by itself."""
    there = {one.get("name") for one in plain.get(written(_SETS, plain), [])}
    for name in (written(own, everything) for own in _SERVICES):
        if name not in everything:
            continue
        try:
            declared = raw.read(name) or []
        except raw.unreadable:
            continue
        closed = [one for one in declared if set(one.get("secrets") or []) - there]
        if closed:
            templates.pop(name, None)
            plain[name] = [one for one in declared if one not in closed]
            without += [f"{one.get('name')} of {name}, for its secrets" for one in closed]
    # Without its token it would accept every client.
    head = written(_HEAD, everything)
    if everything.get(head):
        templates.pop(head, None)
        plain[head] = ""
        without.append("the Ray cluster, whose token only a controller has")


_RULES: dict[str, Callable[[Any, Raw, list[str]], Any]] = {
    _SETS: _sets,
    _KEYS: _keys,
    _RUNS: _runs,
    _PACKED: _nothing,
}
