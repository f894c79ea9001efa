# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the secrets of the fleet file. No I/O. No problem holds a value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._schema.keys import UNREADABLE, Problem, duplicates, entries, text_of, texts_of
from ..._schema.refs import known, known_slices, known_user
from .plan import problems_of

_HERE = "fleet_secrets"
_ENDPOINT = "fleet_google_secrets_endpoint"
_GOOGLES = re.compile(r"https://([a-z0-9-]+[.])*googleapis[.]com/?|http://169[.]254[.]169[.]254/?")


def check_env_secrets(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared sets of secrets."""
    problems = duplicates(data, _HERE, "name", "Give each set its own name")
    for field, entry in entries(data, _HERE):
        problems += known_user(data, field, entry, "user")
        problems += known_slices(data, field, entry)
        for key, message, remedy in problems_of(entry):
            problems.append(Problem(f"{field}.{key}", None, message, remedy))
    return problems + _check_endpoint(text_of(data, _ENDPOINT))


def _check_endpoint(endpoint: str | None) -> list[Problem]:
    """Return a problem if the endpoint would receive the machine's token and is not Google's."""
    if endpoint is None or _GOOGLES.fullmatch(endpoint):
        return []
    remedy = (
        "Use https://*.googleapis.com, or the machine's metadata server, http://169.254.169.254"
    )
    message = "would receive the token of the machine"
    return [Problem(_ENDPOINT, endpoint, message, remedy)]


def check_uses(
    data: Mapping[str, Any], field: str, entry: Mapping[str, Any], user: str | None
) -> list[Problem]:
    """Return the problems of the sets that a run or a service names."""
    problems = []
    owners = {one.get("name"): one.get("user") or "root" for _field, one in entries(data, _HERE)}
    for index, name in texts_of(entry, "secrets"):
        where = f"{field}.secrets[{index}]"
        found = known(data, where, name, "set of secrets", _HERE)
        if not found and user and owners.get(name, "root") not in ("root", user, UNREADABLE):
            message = f"belongs to {owners[name]}, not to {user}"
            remedy = "Declare a separate set for this user, or give this one to user: root"
            found = [Problem(where, name, message, remedy)]
        problems += found
    return problems
