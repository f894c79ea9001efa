# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules for the base system of the fleet file. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..._schema.keys import Problem, by_rule, duplicates, entries, text_of
from ..._schema.refs import at_least

PACKAGE = re.compile(r"[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?([=/][A-Za-z0-9.+:~-]+)?")
_TIME_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_LOCALE = re.compile(r"C\.UTF-8|[a-z]{2,3}_[A-Z]{2}\.UTF-8")
_LIMITS = ("memlock", "nofile", "nproc", "stack")


def check_host_base(data: Mapping[str, Any]) -> list[Problem]:
    """Return the problems of the declared base system."""
    problems: list[Problem] = []
    for variable in ("fleet_base_packages", "fleet_packages"):
        found = data.get(variable)
        for index, name in enumerate(found if isinstance(found, list) else []):
            if isinstance(name, str) and not PACKAGE.fullmatch(name):
                remedy = "Use the name that apt knows, for example git or git=1:2.39.5-0+deb12u2"
                problems.append(
                    Problem(f"{variable}[{index}]", name, "is no name of a package", remedy)
                )
    problems += by_rule(
        data,
        "",
        "fleet_time_zone",
        lambda zone: None if _TIME_ZONE.fullmatch(zone) else "is not a time zone",
        "Use a name like Europe/Vienna or Etc/UTC",
    )
    problems += by_rule(
        data,
        "",
        "fleet_locale",
        lambda name: None if _LOCALE.fullmatch(name) else "is not a locale that can be generated",
        "Use C.UTF-8, or a name like de_AT.UTF-8",
    )
    problems += _check_limits(data.get("fleet_limits"))
    problems += _check_percent(data)
    problems += at_least(data, {"fleet_disk_guard_interval": "1m"})
    return problems + _check_guard(data)


def _check_limits(limits: Any) -> list[Problem]:
    problems = []
    for name, value in limits.items() if isinstance(limits, Mapping) else ():
        field = f"fleet_limits.{name}"
        if name not in _LIMITS:
            remedy = f"Use one of {', '.join(_LIMITS)}"
            problems.append(Problem(field, value, "is not a limit", remedy))
        elif not re.fullmatch(r"[0-9]+|unlimited", str(value)):
            remedy = "Use a number, as in limits.conf, or unlimited"
            problems.append(Problem(field, value, "is not the value of a limit", remedy))
    return problems


def _check_percent(data: Mapping[str, Any]) -> list[Problem]:
    variable = "fleet_disk_guard_full_percent"
    value = data.get(variable)
    if not isinstance(value, int) or isinstance(value, bool) or 1 <= value <= 99:
        return []
    return [Problem(variable, value, "is out of range", "Use a number from 1 to 99")]


def _check_guard(data: Mapping[str, Any]) -> list[Problem]:
    variable = "fleet_disk_guard_paths"
    problems = duplicates(data, variable, "path", "List each folder once")
    for field, entry in entries(data, variable):
        path = text_of(entry, "path")
        if path and not re.fullmatch(r"(/[^/]+){2,}", path):
            remedy = "Use a folder of logs or of a cache, for example /tmp/tpu_logs"
            message = "is not a folder that may be emptied"
            problems.append(Problem(f"{field}.path", path, message, remedy))
    return problems
