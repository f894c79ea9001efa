# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Explain why packages could not be installed, with a remedy. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

# The first pattern that matches counts.
_CAUSES = (
    (
        re.compile(r"No space left on device|enough free space in|You need .* free", re.I),
        "the disk is full",
        "Make room on the host (sudo apt-get clean; sudo journalctl --vacuum-size=200M; sudo du "
        "-xhd2 / | sort -h | tail)",
    ),
    (
        re.compile(r"Could not get lock|Unable to (?:acquire|lock)|Failed to lock", re.I),
        "another process is installing packages",
        "Wait until it has ended, or increase fleet_apt_lock_timeout",
    ),
    (
        re.compile(r"No package matching|Unable to locate package|has no installation candidate"),
        "a package is not known to this host's package sources",
        "Correct its name (fleet_base_packages, fleet_packages), or add its source first",
    ),
    (
        re.compile(
            r"Failed to update apt cache|Failed to fetch|Could not resolve|Could not connect|"
            r"Connection (?:failed|refused|timed out)|unable to fetch|Temporary failure",
            re.I,
        ),
        "the package index or its server cannot be reached",
        "Check the host's network access (an external address or Cloud NAT), and the sources in "
        "/etc/apt (curl -I the first of them)",
    ),
    (
        re.compile(r"dpkg was interrupted|held broken packages|unmet dependencies", re.I),
        "an earlier installation was interrupted",
        "Repair it on the host: sudo dpkg --configure -a; sudo apt-get --fix-broken install",
    ),
)
_HOLDER = re.compile(r"It is held by (process \d+(?: \([^)]*\))?)")
_DETAIL = re.compile(r"(?:^|\b)(?:E:|W:|Err:)[^\n]{0,200}")


_UNKNOWN = re.compile(
    r"No package matching '([^']+)'|Unable to locate package (\S+)"
    r"|no available installation candidate for ([^\s,;]+)"
)


def _wanted_by(told: str, variables: Mapping[str, Sequence[str]]) -> str:
    """Return the variable that names the unknown package; empty if none does."""
    match = _UNKNOWN.search(told)
    unknown = next(filter(None, match.groups()), "") if match else ""
    for variable, names in variables.items():
        for index, name in enumerate(names):
            if unknown and name.split("=")[0] == unknown.split("=")[0]:
                return f"{variable}[{index}] = {name!r}"
    return ""


def explain(result: Mapping[str, Any], variables: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return cause, remedy and apt's own message for the result of a failed task.

    `variables` are those that name packages.
    """
    told = "\n".join(
        str(result[key]) for key in ("msg", "stderr", "stdout", "exception") if result.get(key)
    )
    asked = _wanted_by(told, variables or {})
    if asked:
        return (
            f"{asked}: no package source of this host has a package of this name. Correct it, or "
            "add its source first. Nothing was installed."
        )
    details = [line.strip() for line in told.splitlines() if _DETAIL.search(line)]
    own = (details or [" ".join(str(result.get("msg", "")).split())])[-1][:300]
    for pattern, cause, remedy in _CAUSES:
        if pattern.search(told):
            holder = _HOLDER.search(told)
            who = f" ({holder.group(1)})" if holder else ""
            return (
                f"The packages could not be installed: {cause}{who}. {remedy}. Then run this "
                f"again; it continues where it stopped. apt says: {own}"
            )
    return f"The packages could not be installed. apt says: {own}"
