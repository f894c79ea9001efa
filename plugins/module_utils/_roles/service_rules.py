# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules that notebooks and boards share. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .._schema import values as rules
from .._schema.keys import Problem, duplicates, entries, text_of
from .._schema.refs import known, known_slices, known_user
from .env_secrets.rules import check_uses
from .whose import VENVS, check_code_of

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
SERVICES = ("fleet_notebooks", "fleet_boards")


def check_service_entries(data: Mapping[str, Any], variable: str) -> list[Problem]:
    """Return the problems of the entries of one of them."""
    problems = duplicates(data, variable, "name", "Give each a different name")
    for field, entry in entries(data, variable):
        name = text_of(entry, "name")
        if name and not NAME.fullmatch(name):
            remedy = "Use a-z, 0-9 and -, at most 41 characters"
            problems.append(Problem(f"{field}.name", name, "is not a name for a service", remedy))
        problems += known_slices(data, field, entry)
        venv = text_of(entry, "venv")
        if venv and not venv.startswith("/"):
            problems += known(data, f"{field}.venv", venv, "venv", VENVS)
        problems += check_code_of(data, f"{field}.venv", text_of(entry, "user"), venv, VENVS)
        problems += known_user(data, field, entry, "user")
        problems += check_uses(data, field, entry, text_of(entry, "user"))
        problems += check_port(entry, f"{field}.", "port")
        problems += _taken(data, variable, field, entry)
        for key in entry["env"] if isinstance(entry.get("env"), dict) else ():
            if not isinstance(key, str) or not rules.VARIABLE_NAME.fullmatch(key):
                remedy = "Use letters, digits and _, without a digit first"
                message = "is not the name of an environment variable"
                problems.append(Problem(f"{field}.env.{key}", None, message, remedy))
    return problems


def check_port(entry: Mapping[str, Any], prefix: str, key: str) -> list[Problem]:
    """Check that users may listen on a port."""
    port = entry.get(key)
    if not isinstance(port, int) or isinstance(port, bool) or 1024 <= port <= 65535:
        return []
    return [Problem(f"{prefix}{key}", port, "is not a port for a user", "Use 1024 to 65535")]


def _taken(
    data: Mapping[str, Any], variable: str, field: str, entry: Mapping[str, Any]
) -> list[Problem]:
    """Return a problem if an earlier service uses the same port on the same host."""
    for other_variable in SERVICES:
        for other_field, other in entries(data, other_variable):
            if other_field == field:
                return []
            port = entry.get("port")
            if port is not None and other.get("port") == port and _meet(entry, other):
                message = f"is the port of {other_field} on the same host"
                return [Problem(f"{field}.port", port, message, "Give each its own port")]
    return []


def _meet(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    if one.get("worker", 0) != other.get("worker", 0):
        return False
    of_one, of_other = one.get("slices") or [], other.get("slices") or []
    return not of_one or not of_other or bool(set(of_one) & set(of_other))
