# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the rules of several roles have in common. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._fleet_schema import Problem, did_you_mean, entries, text_of

USER_REMEDY = "Use a-z, 0-9, - and _, beginning with a letter, at most 32 characters"


def absolute(field: str, entry: Mapping[str, Any], key: str) -> list[Problem]:
    """Check that a path is a whole one."""
    value = text_of(entry, key)
    if value is None or value.startswith("/"):
        return []
    return [Problem(f"{field}.{key}", value, "is not a whole path", "Begin it with /")]


def names_of(data: Mapping[str, Any], variable: str) -> list[str]:
    """List the names that a variable declares."""
    found = (text_of(entry, "name") for _field, entry in entries(data, variable))
    return [name for name in found if name]


def known(
    data: Mapping[str, Any], field: str, value: str, what: str, variable: str
) -> list[Problem]:
    """Check a reference to an entry of another variable."""
    names = names_of(data, variable)
    # A variable that is no list has its own problem; what refers to it is not wrong for that.
    if value in names or not isinstance(data.get(variable) or [], list):
        return []
    remedy = did_you_mean(value, names, f"Declare it in {variable}")
    return [Problem(field, value, f"is not a {what} of this fleet file", remedy)]


def known_user(
    data: Mapping[str, Any], field: str, entry: Mapping[str, Any], key: str
) -> list[Problem]:
    """Accept declared users, the administrator's login, and root."""
    value = text_of(entry, key)
    if value is None or value in {"root", text_of(data, "fleet_ssh_user")}:
        return []
    return known(data, f"{field}.{key}", value, "user", "user_accounts_users")
