# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the module github_key with what the variables of the play say of the fleet and its keys."""

from __future__ import annotations

from typing import Any

from ..plugin_utils._fleet.declared import Declared

# The keys of a user on which GitHub's keys depend; the module needs no others.
OF_PEOPLE = ("name", "slices", "state")
GITHUB = {option: f"fleet_github_{option}" for option in ("name", "api_url", "token", "later")}


class ActionModule(Declared):
    """The module, with what was not given."""

    def declared(self) -> dict[str, Any]:
        """Return the fleet, its keys, and what machines have by fleet_git_users."""
        lists = {"keys": "fleet_git_keys", "people": "fleet_users"}
        said = self.said("slices", "state_dir", "owner", "project", **lists, **GITHUB)
        name = f"{said.get('owner', 'managed')} {said.get('project', 'fleet')}"
        hosts = [
            {"host": host, "slice": of.get("tpu_vm_name", host), "users": seen["answer"]}
            for host, of in self.workers().items()
            if "answer" in (seen := of.get("fleet_git_users") or {})
        ]
        return {
            "fleet": said.get("name", name),
            # A private key from a vault has no business at GitHub, nor in what is printed here.
            "keys": [
                {n: key[n] for n in key if n != "private_key" and key[n] is not None}
                for key in said.get("keys", [])
            ],
            "people": [{n: p[n] for n in OF_PEOPLE if n in p} for p in said.get("people", [])],
            "hosts": hosts,
            "slices": [one["name"] for one in said.get("slices", [])],
            "record": f"{said.get('state_dir', '')}/github_keys.json",
            **{
                option: said[option] for option in ("api_url", "token", "later") if said.get(option)
            },
        }
