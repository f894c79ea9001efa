# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the modules that keep what the fleet file declares around the slices."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ..module_utils._fleet_file import around
from ..module_utils._tpu.workers import GROUP_LEADERS

SPEC: dict[str, Any] = {
    "part": {
        "type": "str",
        "choices": ["services", "service_account", "project_keys", "firewall", "disks"],
        "required": True,
    },
    "seen": {"type": "list", "elements": "str", "default": []},
}
VARIABLES = (*around.AROUND, "fleet_owner", "fleet_zone", "fleet_project", "fleet_api_endpoint")


class ActionModule(ActionBase):
    """One part of it: each entry by its module."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module for each entry, also where one before has failed."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _found, arguments = self.validate_argument_spec(SPEC)
        self.vars = task_vars or {}
        self.data = {
            name: self._templar.template(self.vars[name])
            for name in VARIABLES
            if self.vars.get(name) is not None
        }
        told = []
        if arguments["part"] == "disks":
            seen = self._module("tpu_vm_info", {"states": ["READY", "STOPPED"]})
            if seen.get("failed"):
                return {**result, **seen}
            there = {(node["zone"], node["name"]) for node in seen["tpu_vms"]}
            calls = around.disks(self.data, there)
            waiting = around.slices_to_come(self.data, there)
            told = [f"Run this again when they are there: {', '.join(waiting)}"] if waiting else []
        elif arguments["part"] == "firewall":
            calls = self._firewall(arguments["seen"])
        else:
            calls = getattr(around, arguments["part"])(self.data)
        results = [self._module(module, options) for module, options in calls]
        accounts = [(one.get("service_account") or {}).get("email") for one in results]
        told += [f"Slices act as it with service_account: {email}" for email in accounts if email]
        failures = [str(one.get("msg")) for one in results if one.get("failed")]
        result.update(
            changed=any(one.get("changed") for one in results),
            results=results,
            told=told,
            diff=[one["diff"] for one in results if one.get("changed") and one.get("diff")],
            warnings=[text for one in results for text in one.pop("warnings", None) or []],
        )
        if failures:
            result.update(failed=True, msg=" ".join(failures))
        return result

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
        answer: dict[str, Any] = self._execute_module(
            module_name=f"tpu.fleet.{name}", module_args=given, task_vars=self.vars
        )
        return answer
