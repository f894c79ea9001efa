# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the boards of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem, entries, text_of
from ..._schema.refs import own_venv
from ..service_rules import check_service_entries
from ..whose import closed_to


def check_tensorboard_server(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared boards."""
    problems = check_service_entries(data, "fleet_boards") + own_venv(data, "tensorboard_server")
    for field, entry in entries(data, "fleet_boards"):
        logs, user = entry.get("logs"), text_of(entry, "user")
        if not isinstance(logs, Mapping):
            continue
        if not logs:
            remedy = "Write a name and a folder or bucket"
            problems.append(Problem(f"{field}.logs", None, "is empty", remedy))
        for name, place in logs.items():
            where = f"{field}.logs.{name}"
            if not isinstance(place, str) or not place.startswith(("/", "gs://")):
                remedy = "Begin it with / or gs://"
                problems.append(Problem(where, place, "is not a folder or bucket", remedy))
            elif "," in place or ":" in str(name) or "," in str(name):
                remedy = "Remove it"
                message = "has a comma or colon, which separate them for TensorBoard"
                problems.append(Problem(where, place, message, remedy))
            elif user and user != "root" and (owner := closed_to(data, user, place)):
                message = f"is in a folder of {owner}, into which {user} does not get"
                remedy = (
                    f"Let {owner} have the board, use a shared folder, or set "
                    f"home_permissions: '0755' for a home of {owner}"
                )
                problems.append(Problem(where, place, message, remedy))
    return problems
