# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the users and groups of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _fleet_rules as rules
from ._fleet_refs import USER_REMEDY, absolute
from ._fleet_schema import Problem, by_rule, duplicates, entries, texts_of


def check_user_accounts(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the people and groups."""
    problems: list[Problem] = []
    for variable, number in (("user_accounts_users", "uid"), ("user_accounts_groups", "gid")):
        problems += duplicates(data, variable, "name", f"Write one entry, with one {number}")
        problems += duplicates(data, variable, number, f"Give each its own {number}")
        for field, entry in entries(data, variable):
            problems += by_rule(entry, f"{field}.", "name", rules.user_name, USER_REMEDY)
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
        problems += absolute(field, entry, "shell")
        problems += absolute(field, entry, "home")
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
