# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What services have in common, in the form that the module host_services takes. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Entry = Mapping[str, Any]


def here(entries: Sequence[Entry], slice_name: str, worker: int) -> list[Entry]:
    """Return the entries for one worker. An entry without slices is for all of them."""
    return [
        entry
        for entry in entries
        if (not entry.get("slices") or slice_name in entry["slices"])
        and int(entry.get("worker", 0)) == worker
    ]


def of_entry(entry: Entry, venv: str) -> dict[str, Any]:
    """Return the values that a service takes unchanged from its entry."""
    return {
        **{key: entry[key] for key in ("user", "memory_max", "hardening", "enabled", "port")},
        "venv": venv,
        "environment_files": [secret_file(name) for name in entry["secrets"]],
    }


def search_path(venv: str) -> dict[str, str]:
    """Return the environment variable with which programs of an environment are found."""
    return {"PATH": f"{venv}/bin:/usr/local/bin:/usr/bin:/bin"}


def secret_file(name: str) -> str:
    """Return the file of a set of secrets of the role env_secrets."""
    return f"/etc/tpu-fleet/secrets/{name}.env"


def needs(venv: str, program: str, package: str, sets: Sequence[str]) -> list[dict[str, str]]:
    """Return what must exist: a program of the environment, and the sets of secrets."""
    remedy = f"Add {package} to the packages of this venv"
    found = [{"path": f"{venv}/bin/{program}", "remedy": remedy}]
    for name in sets:
        remedy = f"Declare the set {name} in env_secrets_sets, for this slice"
        found.append({"path": secret_file(name), "remedy": remedy})
    return found
