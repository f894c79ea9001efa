# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check a whole fleet file before anything is changed, and report everything at once. No I/O.

What a role takes is said once, in its meta/argument_specs.yml; the caller reads these files. What
such a specification cannot say is in the _fleet_role_*.py, a file for each role.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from typing import Any

from ._fleet import VARIABLES, fleet_rules
from ._fleet_role_bucket_mount import check_bucket_mount
from ._fleet_role_code_checkout import check_code_checkout
from ._fleet_role_data_disk import check_data_disk
from ._fleet_role_env_secrets import check_env_secrets
from ._fleet_role_git_access import check_git_access
from ._fleet_role_host_base import check_host_base
from ._fleet_role_nfs_share import check_nfs_share
from ._fleet_role_notebook_server import check_notebook_server
from ._fleet_role_python_env import check_python_env
from ._fleet_role_ray_cluster import check_ray_cluster
from ._fleet_role_tensorboard_server import check_tensorboard_server
from ._fleet_role_tpu_metrics import check_tpu_metrics
from ._fleet_role_training_run import check_training_run
from ._fleet_role_user_accounts import check_user_accounts
from ._fleet_role_user_shell import check_user_shell
from ._fleet_schema import Key, Problem, check_keys, check_shape

# In the order in which the roles are applied.
ROLE_RULES = (
    check_host_base,
    check_user_accounts,
    check_data_disk,
    check_nfs_share,
    check_bucket_mount,
    check_git_access,
    check_env_secrets,
    check_user_shell,
    check_code_checkout,
    check_python_env,
    check_notebook_server,
    check_tensorboard_server,
    check_tpu_metrics,
    check_ray_cluster,
    check_training_run,
)

_TYPES = {"path": "str", "raw": "any", "float": "number", "jsonarg": "any", "json": "any"}
# What -e on the command line makes of numbers and flags; Ansible makes them what they were.
_TEXTS = {
    "int": re.compile(r"-?\d+"),
    "number": re.compile(r"-?\d+(\.\d+)?"),
    "bool": re.compile(r"(?i)yes|on|1|true|t|y|no|off|0|false|f|n"),
}


def role_keys(options: Mapping[str, Mapping[str, Any]]) -> dict[str, Key]:
    """Turn options of an argument specification into keys of the fleet file."""
    return {
        name: Key(
            type=_TYPES.get(option["type"], option["type"]),
            required=bool(option.get("required")),
            choices=tuple(option.get("choices", ())),
            elements=_TYPES.get(option.get("elements", ""), option.get("elements")),
            options=role_keys(option.get("options", {})),
            secret=bool(option.get("no_log")),
        )
        for name, option in options.items()
    }


def check_fleet_file(data: Mapping[str, Any], roles: Mapping[str, Key]) -> list[Problem]:
    """Return every problem of the fleet file, in the order in which a person would read it.

    The roles are the variables of all roles, as role_keys makes them.
    """
    problems = check_shape(data)
    as_meant = {name: _as_meant(data.get(name), key) for name, key in roles.items()}
    # A role whose variable is not given has a default, or asks for it when it is applied.
    problems += check_keys("", as_meant, {n: k for n, k in roles.items() if n in data}, among=())
    problems += fleet_rules(data)
    for rule in ROLE_RULES:
        problems += rule(data)
    return problems


def _as_meant(value: Any, key: Key) -> Any:
    """Take a text for the number or flag that Ansible will make of it, and the other way round."""
    if key.type == "str" and isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    pattern = _TEXTS.get(key.type)
    if pattern is None or not isinstance(value, str) or not pattern.fullmatch(value):
        return value
    return (
        value.lower() in ("yes", "on", "1", "true", "t", "y")
        if key.type == "bool"
        else int(float(value))
    )


def check_variable_names(names: Iterable[str], roles: Mapping[str, Key]) -> list[Problem]:
    """Find variables whose name is nearly, but not quite, one of the fleet file."""
    problems = []
    variables = (*VARIABLES, *roles)
    for name in sorted(set(names) - set(variables)):
        near = next((known for known in variables if _nearly(name, known)), None)
        if near:
            message, remedy = "is not a variable of the fleet file", f"Did you mean {near}"
            problems.append(Problem(name, None, message, remedy))
    return problems


def _nearly(name: str, known: str) -> bool:
    """Tell a misspelling from another variable of the same role."""
    head, tail = name.rpartition("_")[::2]
    known_head, known_tail = known.rpartition("_")[::2]
    if head == known_head:
        return SequenceMatcher(None, tail, known_tail).ratio() > 0.75
    return SequenceMatcher(None, name, known).ratio() > 0.95
