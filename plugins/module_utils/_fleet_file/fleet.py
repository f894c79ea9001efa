# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check what the fleet file says of the fleet itself: where, grant, slices, disks. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .._schema import values as rules
from .._schema.keys import LISTS, SCALARS, Problem, by_rule, check_shape, text_of
from .._schema.refs import user_remedy
from .around import AROUND, check_around
from .budget import BUDGET, check_budget
from .grant import UNRESTRICTED, allocation_rules
from .notify import NOTIFIED, check_notify
from .prices import price_rules
from .queue import QUEUE, check_queue
from .self_setup import SELF_SETUP, check_self_setup
from .slices import check_slices

VARIABLES = (*SCALARS, *LISTS, *AROUND, *NOTIFIED, *SELF_SETUP, *BUDGET, *QUEUE)
# What planner and watcher take of the fleet file: options of the module fleet, by their variables.
PLANNED = {
    "slices": "fleet_slices",
    "disks": "fleet_disks",
    "zone": "fleet_zone",
    "allocations": "fleet_allocations",
    "prices": "fleet_prices",
    "budget": "fleet_budget",
    "warn_before": "fleet_allocation_warn_before",
    "owner": "fleet_owner",
    "self_setup": "fleet_self_setup",
    "prune": "fleet_prune",
}


def check_fleet(data: Mapping[str, Any]) -> list[Problem]:
    """Return every problem of the fleet's own variables, in the order in which a person reads."""
    return check_shape(data) + fleet_rules(data)


def check_planned(options: Mapping[str, Any]) -> list[Problem]:
    """Return every problem of what the options of the module fleet say."""
    said = {name: options.get(option) for option, name in PLANNED.items()}
    data = {name: value for name, value in said.items() if value is not None}
    if options.get("teardown"):
        data.setdefault("fleet_allocations", UNRESTRICTED)  # a teardown needs no grant
    return check_fleet(data)


def fleet_rules(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems that the types of the keys do not show."""
    problems = _check_scalars(data)
    problems += allocation_rules(data)
    problems += check_slices(data)
    problems += check_around(data)
    problems += check_notify(data)
    problems += check_self_setup(data)
    problems += price_rules(data)
    problems += check_budget(data)
    problems += check_queue(data)
    return problems


def _check_scalars(data: Mapping[str, Any]) -> list[Problem]:
    problems = []
    project = text_of(data, "fleet_project")
    if project and not rules.PROJECT_ID.fullmatch(project):
        remedy = "Give the project id, as gcloud projects list shows it in its first column"
        problems.append(Problem("fleet_project", project, "is not a project id", remedy))
    problems += by_rule(data, "", "fleet_zone", rules.zone, rules.ZONE_REMEDY)
    prune = data.get("fleet_prune")
    if prune is not None and not rules.is_flag(prune):
        problems.append(Problem("fleet_prune", prune, "is neither true nor false", "Write one"))
    key = text_of(data, "fleet_ssh_private_key_file")
    # It is given to ssh as it is.
    if key and not key.startswith(("/", "~")):
        remedy = f'Begin it with / or ~/, or write "{{{{ inventory_dir }}}}/{key}"'
        problems.append(Problem("fleet_ssh_private_key_file", key, "is not a whole path", remedy))
    user = text_of(data, "fleet_ssh_user")
    if user and user != "root":
        problems += by_rule(data, "", "fleet_ssh_user", rules.user_name, user_remedy(user))
    return problems
