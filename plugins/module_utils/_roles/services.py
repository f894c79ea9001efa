# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What services have in common, in the form that the module host_services takes. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .here import is_on

Entry = Mapping[str, Any]


def here(entries: Sequence[Entry], slice_name: str, worker: int) -> list[Entry]:
    """Return the entries for one worker. An entry without slices is for all of them."""
    return [
        entry
        for entry in entries
        if is_on(entry, slice_name) and int(entry.get("worker", 0)) == worker
    ]


def own_venv(
    role: str, variables: Mapping[str, Any], packages: Sequence[str], wanted: bool
) -> dict[str, Any]:
    """Return whether a role's own environment is wanted, and what python_env builds it with.

    The other settings are those of the machine's environments, such as the index and the Python.
    """

    def of_role(name: str) -> Any:
        return variables[f"{role}_{name}"]

    venv = {"path": of_role("venv_path"), "python": of_role("python"), "packages": packages}
    return {
        "own": wanted,
        "build": {
            "venvs": [{"name": role, **venv}],
            **{name: of_role(name) for name in ("uv_version", "index_url", "ca_bundle")},
            "environment": of_role("package_environment"),
            # Its packages need no framework, and other environments stay as they are.
            **{"slice": "", "accelerator": "auto", "torch_index_url": ""},
            **{"rebuild": False, "prune": False},
        },
    }


def plan(
    role: str,
    key: str,
    variables: Mapping[str, Any],
    defaults: Mapping[str, Any],
    packages: Sequence[str],
    service_of: Callable[[Entry, Sequence[Entry], str], dict[str, Any]],
) -> dict[str, Any]:
    """Return the entries of a role on one worker, and the services that they become."""
    name = f"{role}_{key}"
    worker = int(variables[f"{role}_worker_index"])
    entries = here(variables[name], variables[f"{role}_slice"], worker)
    venvs, own = variables[f"{role}_venvs"], variables[f"{role}_venv_path"]
    # The role's own environment is built where an entry names none.
    wanted = any(not entry.get("venv") for entry in entries)
    return {
        **own_venv(role, variables, packages, wanted),
        "settings": {key: entries, "packages": packages if wanted else []},
        "services": [service_of({**defaults[name], **entry}, venvs, own) for entry in entries],
    }


def of_entry(entry: Entry, venv: str) -> dict[str, Any]:
    """Return the values that a service takes unchanged from its entry."""
    return {
        "user": entry["user"],
        "memory_max": entry["memory_max"] or "",
        **{key: entry[key] for key in ("hardening", "enabled")},
        "port": int(entry["port"]),
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
        remedy = f"Declare the set {name} in fleet_secrets, for this slice"
        found.append({"path": secret_file(name), "remedy": remedy})
    return found
