# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the runs of the fleet file. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _fleet_rules as rules
from ._fleet_refs import known, known_user
from ._fleet_role_env_secrets import check_uses
from ._fleet_schema import Problem, duplicates, entries, text_of, texts_of


def check_training_run(data: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with the runs."""
    problems = duplicates(data, "training_run_runs", "name", "Give each run its own name")
    for field, entry in entries(data, "training_run_runs"):
        name = text_of(entry, "name")
        if name and not rules.RUN_NAME.fullmatch(name):
            remedy = "Use a-z, 0-9, - and _, at most 63 characters"
            problems.append(Problem(f"{field}.name", name, "is not a name for a run", remedy))
        for index, wanted in texts_of(entry, "slices"):
            problems += known(data, f"{field}.slices[{index}]", wanted, "slice", "fleet_slices")
        for key, what, variable in (
            ("venv", "venv", "python_env_venvs"),
            ("code", "tree", "code_checkout_trees"),
        ):
            name = text_of(entry, key)
            if name and not name.startswith("/"):
                problems += known(data, f"{field}.{key}", name, what, variable)
        problems += known_user(data, field, entry, "user")
        problems += check_uses(data, field, entry, text_of(entry, "user"))
        for key in entry["env"] if isinstance(entry.get("env"), dict) else ():
            if not isinstance(key, str) or not rules.VARIABLE_NAME.fullmatch(key):
                remedy = "Use letters, digits and _, not beginning with a digit"
                message = "is not the name of an environment variable"
                problems.append(Problem(f"{field}.env.{key}", None, message, remedy))
        for key in ("retries", "fail_fast_seconds", "grace_seconds"):
            value = entry.get(key)
            if isinstance(value, int) and value < 0:
                problems.append(Problem(f"{field}.{key}", value, "is below zero", "Use 0 or more"))
        port = entry.get("port")
        if isinstance(port, int) and not 1024 <= port <= 65534:
            remedy = "Use 1024 to 65534, or leave it out"
            problems.append(Problem(f"{field}.port", port, "is not a port for a run", remedy))
    return problems
