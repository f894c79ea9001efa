# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check the users and groups of the fleet file beyond types. No I/O. Private to tpu.fleet."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ..._schema import values as rules
from ..._schema.keys import (
    UNREADABLE,
    Problem,
    by_rule,
    duplicates,
    entries,
    text_of,
    texts_of,
)
from ..._schema.refs import absolute, known_slices, user_remedy

HOME_MODE = re.compile("0?7[0145][0145]")
USERS, GROUPS = "fleet_users", "fleet_groups"
# To remove a home that is one of these, or above one, would remove the system.
_NO_HOMES = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/proc", "/root", "/run", "/sbin"),
    *("/sys", "/tmp", "/usr", "/var/lib/tpu-fleet", "/opt/tpu-fleet"),  # noqa: S108
)
# What belongs to a user, and the key that names the user.
_BELONGS = (
    ("fleet_runs", "user"),
    ("fleet_venvs", "user"),
    ("fleet_code", "user"),
)


def check_user_accounts(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of users and groups, in the order of the fleet file."""
    problems: list[Problem] = []
    for variable, number in ((USERS, "uid"), (GROUPS, "gid")):
        problems += duplicates(data, variable, "name", f"Write one entry, with one {number}")
        problems += duplicates(data, variable, number, f"Give each its own {number}")
        for field, entry in entries(data, variable):
            remedy = user_remedy(text_of(entry, "name"))
            problems += by_rule(entry, f"{field}.", "name", rules.user_name, remedy)
            problems += _number(field, entry, number)
    problems += duplicates(data, USERS, "home", "Give each user a different home")
    for field, entry in entries(data, USERS):
        problems += _number(field, entry, "gid")
        for index, key in texts_of(entry, "keys"):
            message = rules.public_key(key)
            if message:
                hint = "Use the one line of the .pub file: ssh-ed25519 AAAA… comment"
                shown = None if "PRIVATE" in key else key
                problems.append(Problem(f"{field}.keys[{index}]", shown, message, hint))
        problems += _check_sudo(field, entry.get("sudo"))
        problems += absolute(field, entry, "shell")
        problems += absolute(field, entry, "home") or _check_home(field, entry)
        mode = text_of(entry, "home_permissions")
        if mode and not HOME_MODE.fullmatch(mode):
            remedy = (
                "Write '0750', '0755', '0711' or '0700', in quotes: sshd refuses others' writes"
            )
            message = "are no permissions of a home"
            problems.append(Problem(f"{field}.home_permissions", mode, message, remedy))
        # Without slices in the data, nothing is compared.
        if isinstance(data.get("fleet_slices"), list):
            problems += known_slices(data, field, entry)
        problems += _check_own_login(data, field, entry)
    problems += _check_group_numbers(data)
    problems += _check_what_belongs(data)
    return problems


def _number(field: str, entry: Mapping[str, Any], key: str) -> list[Problem]:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool):
        return []
    message = rules.number_id(value)
    hint = f"Use one from {rules.UID_MIN} up; 2000 and more are always free"
    return [Problem(f"{field}.{key}", value, message, hint)] if message else []


def _check_sudo(field: str, sudo: Any) -> list[Problem]:
    if sudo in (None, "all"):
        return []
    remedy = "Use null, all, or a list of whole paths of commands"
    if not isinstance(sudo, list):
        return [Problem(f"{field}.sudo", sudo, "is not a sudo rule", remedy)]
    found = []
    for index, command in enumerate(sudo):
        at = f"{field}.sudo[{index}]"
        if not (isinstance(command, str) and command.startswith("/")):
            found.append(Problem(at, command, "is not the whole path of a command", remedy))
        elif "\n" in command:
            found.append(Problem(at, command, "has more than one line", "Write one command"))
    return found


def _check_home(field: str, entry: Mapping[str, Any]) -> list[Problem]:
    home = text_of(entry, "home")
    if home is None:
        return []
    wrong = home == "/" or ":" in home or "\n" in home or posixpath.normpath(home) != home
    if not wrong and not any(f"{taken}/".startswith(f"{home}/") for taken in _NO_HOMES):
        return []
    remedy = f"Use one like /home/{entry.get('name')}, without a slash at its end"
    return [Problem(f"{field}.home", home, "cannot be a home folder", remedy)]


def _check_own_login(
    data: Mapping[str, Any], field: str, entry: Mapping[str, Any]
) -> Iterable[Problem]:
    """Return problems of entries that would lock Ansible out."""
    name = text_of(entry, "name")
    if name is None or name != text_of(data, "fleet_ssh_user"):
        if name in rules.IMAGE_USERS:
            message = "is an account of the image, which has its own uid"
            yield Problem(f"{field}.name", name, message, user_remedy(name))
        return
    remedy = "Remove it, or let Ansible log in as another user (fleet_ssh_user)"
    if entry.get("state") == "absent":
        yield Problem(f"{field}.state", "absent", f"{name} is who Ansible logs in as", remedy)
    elif entry.get("slices"):
        message = f"{name} is who Ansible logs in as, on every slice"
        yield Problem(f"{field}.slices", entry["slices"], message, remedy)
    else:
        message = "is who Ansible logs in as, and every machine makes with a number of its own"
        yield Problem(f"{field}.name", name, message, remedy)


def _check_group_numbers(data: Mapping[str, Any]) -> Iterable[Problem]:
    """Return conflicts between groups and the users' own groups."""
    numbers: dict[Any, str] = {}
    names: dict[Any, str] = {}
    for field, entry in entries(data, USERS):
        if entry.get("state") == "absent":
            continue
        key = "gid" if entry.get("gid") is not None else "uid"
        value = entry.get(key)
        # Two users with the same uid are another check's problem.
        if (
            isinstance(value, int)
            and value in numbers
            and (key, numbers[value][-3:])
            != (
                "uid",
                "uid",
            )
        ):
            message = f"is the gid of another user's own group, by {numbers[value]}"
            yield Problem(f"{field}.{key}", value, message, "Give each its own number")
        if isinstance(value, int):
            numbers.setdefault(value, f"{field}.{key}")
        names.setdefault(text_of(entry, "name"), field)
    for field, entry in entries(data, GROUPS):
        gid, name = entry.get("gid"), text_of(entry, "name")
        if isinstance(gid, int) and gid in numbers:
            message = f"is the gid of a user's own group, by {numbers[gid]}"
            yield Problem(f"{field}.gid", gid, message, "Give each its own number")
        if name and name in names:
            message = f"is the own group of {names[name]}"
            yield Problem(f"{field}.name", name, message, "Give the group another name")


def _check_what_belongs(data: Mapping[str, Any]) -> Iterable[Problem]:
    """Return problems of what belongs to removed users, or runs where its user is not."""
    users = {entry.get("name"): entry for _field, entry in entries(data, USERS)}
    for variable, key in _BELONGS:
        for field, entry in entries(data, variable):
            name = text_of(entry, key)
            user = users.get(name)
            if user is None:
                continue
            at = f"{field}.{key}"
            if user.get("state") == "absent":
                remedy = f"Give it to another user, remove it, or keep {name}"
                yield Problem(at, name, "is a user with state: absent", remedy)
                continue
            if UNREADABLE in (user.get("slices") or ()):
                continue
            allowed = [text for _index, text in texts_of(user, "slices")]
            for _index, wanted in texts_of(entry, "slices") if allowed else ():
                if wanted not in allowed:
                    remedy = f"Add {wanted} to the slices of {name}, or run it as another user"
                    yield Problem(at, name, f"is not a user of slice {wanted}", remedy)
