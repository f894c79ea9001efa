# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the modules that keep what the fleet file declares around the slices."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail

from ..module_utils._fleet import beside
from ..module_utils._fleet_file import around
from ..module_utils._tpu.model import LOST_STATES
from ..module_utils._tpu.names import GROUP_LEADERS
from ..modules.around import DOCUMENTATION
from ..plugin_utils._core import progress
from ..plugin_utils._fleet.declared import Declared, together

PLACE = ("fleet_owner", "fleet_zone", "fleet_project", "fleet_api_endpoint")
# The slices say in which zone a disk is that names none.
VARIABLES = (*around.AROUND, "fleet_slices", "fleet_queue", *PLACE)


class ActionModule(Declared):
    """One part of it: each entry by its module."""

    _supports_check_mode = True

    def act(self) -> dict[str, Any]:
        """Run the module for each entry, also where one before has failed."""
        arguments = self.options(DOCUMENTATION)
        self.data = self.said(**{name: name for name in VARIABLES})
        told = []
        if arguments["part"] == "disks":
            seen = self._module("tpu_vm_info", {})
            if seen.get("failed"):
                return seen
            there = {
                (node["zone"], node["name"])
                for node in seen["tpu_vms"]
                if node["state"] not in LOST_STATES
            }
            calls = around.disks(self.data, there)
            waiting = around.slices_to_come(self.data, there)
            told = [f"site.yml attaches the disks of {', '.join(waiting)}"] if waiting else []
        elif arguments["part"] == "firewall":
            calls = self._firewall(arguments["seen"])
        else:
            calls = getattr(around, arguments["part"])(self.data)
        results = [self._module(module, options) for module, options in calls]
        if self._task.check_mode:
            progress.note("beside", rows=beside.of_calls(calls, results))
        accounts = [(one.get("service_account") or {}).get("email") for one in results]
        told += [f"Slices act as it with service_account: {email}" for email in accounts if email]
        made = together(results)
        # Ansible would show the options of each module, too.
        return made if made.get("failed") else {**made, "results": results, "told": told}

    def _firewall(self, seen: list[str]) -> list[around.Call]:
        # In check mode there may be no slice to ask yet.
        must_know = not self._task.check_mode or bool(self.vars["groups"].get(GROUP_LEADERS))
        try:
            return around.firewall(self.data, seen, must_know)
        except around.MoshError as error:
            raise AnsibleActionFail(str(error)) from None

    def _module(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        where = {key: self.data.get(f"fleet_{key}") for key in ("project", "api_endpoint")}
        given = {key: value for key, value in {**where, **options}.items() if value is not None}
        return self.module(f"tpu.fleet.{name}", given)
