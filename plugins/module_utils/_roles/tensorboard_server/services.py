# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boards of a host as services. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..._core.in_zone import with_addresses
from ..._host.services import socket_of
from .. import services
from ..venv_paths import venv_path

# TensorBoard itself serves on TCP ports only.
PROGRAM = "/opt/tpu-fleet/tensorboard_on_socket.py"


def plan(variables: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the boards of a host as they are declared, and the services that they become."""
    packages = [f"tensorboard=={variables['tensorboard_server_version']}"]
    if variables["tensorboard_server_profile"]:
        version = variables["tensorboard_server_profile_version"]
        packages.append(f"tensorboard-plugin-profile=={version}")
    packages += variables["tensorboard_server_packages"]
    boards = [
        _in_zone(entry, variables["tensorboard_server_zone"])
        for entry in variables["tensorboard_server_boards"]
    ]
    variables = {**variables, "tensorboard_server_boards": boards}
    return services.plan("tensorboard_server", "boards", variables, defaults, packages, _service)


def _in_zone(entry: Mapping[str, Any], zone: str) -> dict[str, Any]:
    """Return a board with the addresses of its buckets for a host in a zone."""
    logs = {name: with_addresses(place, zone) for name, place in entry["logs"].items()}
    return {**entry, "logs": logs}


def _service(
    entry: Mapping[str, Any], venvs: Sequence[Mapping[str, Any]], own: str
) -> dict[str, Any]:
    venv = venv_path(entry.get("venv"), venvs) or own
    name = f"tensorboard-{entry['name']}"
    return {
        **services.of_entry(entry, venv),
        "name": name,
        "description": f"TensorBoard {entry['name']}",
        "command": [
            *(f"{venv}/bin/python", PROGRAM, socket_of(name), "--port", str(entry["port"])),
            *("--reload_interval", str(entry["reload_interval"])),
            *("--window_title", entry["name"]),
            *_logs(entry["logs"]),
        ],
        "proxied": True,
        "environment": {**services.search_path(venv), **entry["env"]},
        "restart_on_upgrade": True,
        "needs": services.needs(venv, "tensorboard", "tensorboard", entry["secrets"]),
        "facts": {"kind": "tensorboard", "url_path": "/", "login": False},
    }


def _logs(logs: Mapping[str, str]) -> list[str]:
    """Return the argument for the logs. A single folder needs no label."""
    if len(logs) == 1:
        return ["--logdir", *logs.values()]
    labels = sorted(logs, key=str.lower)
    return ["--logdir_spec", ",".join(f"{label}:{logs[label]}" for label in labels)]
