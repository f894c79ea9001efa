# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from the variables of the fleet file what the watcher needs of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ...module_utils._fleet_file.fleet import PLANNED
from ...module_utils._github.client import TOKENS
from .options import Template, options_of, params_of

# Of a run the watcher needs no secret.
RUN_KEYS = ("name", "slices", "enabled", "multislice")
SHARE_KEYS = ("slice", "slices")
VENV_KEYS = ("name", "slices")


def watch_settings(variables: Mapping[str, Any], template: Template) -> dict[str, Any]:
    """Return the settings; `variables` are those of the controller."""
    params = params_of(options_of(variables, template))

    def said(name: str, default: Any) -> Any:
        return template(variables[name]) if variables.get(name) is not None else default

    user, key = said("fleet_ssh_user", ""), said("fleet_ssh_public_key", "")
    return {
        "project": said("fleet_project", ""),
        "api_endpoint": said("fleet_api_endpoint", ""),
        "state_dir": said("fleet_state_dir", ""),
        "notify": said("fleet_notify", []),
        "runs": _only(said("fleet_runs", []), RUN_KEYS),
        "shares": _only(said("fleet_shares", []), SHARE_KEYS),
        "prices": said("fleet_prices", []),
        "queue": said("fleet_queue", {}),
        "venvs": _only(said("fleet_venvs", []), VENV_KEYS),
        "unregistered": _without_token(
            said("fleet_git_keys", []), str(said("fleet_github_token", ""))
        ),
        "fleet": {
            **{option: params[option] for option in (*PLANNED, "marks")},
            "ssh_keys": [f"{user}:{key}"],
        },
    }


def _without_token(keys: Iterable[Mapping[str, Any]], token: str) -> list[str]:
    """Return the names of the keys that GitHub lacks, if there is no token to register them."""
    if token or any(os.environ.get(name) for name in TOKENS):
        return []
    return [str(key["name"]) for key in keys if key.get("register")]


def _only(entries: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> list[dict[str, Any]]:
    return [{key: entry[key] for key in keys if key in entry} for entry in entries]
